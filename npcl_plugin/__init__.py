"""NPCL, a neural process for continual learning, and its relatives, as a Mammoth plugin.

Reader's path: `models/npcl.py` (the training step), `objective.py` (the loss),
`inference.py` (which head answers).

The letters of every shape comment:
    F  feature size of the backbone      C  classes of the whole benchmark
    O  latent size, |o| of the paper     T  tasks; T' those present in a set
    B  targets                           m  context points
    N  draws of the global latent        M  draws of a task latent for each of them
    S  N times M
"""
from npcl_plugin.contract import offer

MODELS = {name: f"npcl_plugin.models.{name}"
          for name in ("npcl", "st_npcl", "anp", "np", "npcl_plus")}
BACKBONES = {name: "npcl_plugin.backbones"
             for name in ("npcl-resnet18", "npcl-reduced-resnet18", "npcl-mnistmlp")}

offer(MODELS, BACKBONES)
