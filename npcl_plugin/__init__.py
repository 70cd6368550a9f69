"""NPCL, a neural process for continual learning, and its relatives, as a Mammoth plugin.

Reader's path: `models/npcl.py` (the training step), `objective.py` (the loss),
`inference.py` (which head answers).

Every shape comment uses these letters.

    F  feature size of the backbone      C  classes of the whole benchmark
    O  latent size, |o| of the paper     T  tasks; T' those present in a set
    B  targets                           m  context points
    N  draws of the global latent        M  draws of a task latent for each of them
    S  N times M
"""
import sys
from argparse import Namespace
from typing import Any

from npcl_plugin.contract import offer

MODELS = {name: f"npcl_plugin.models.{name}"
          for name in ("npcl", "st_npcl", "anp", "np", "cnp", "npcl_plus")}
BACKBONES = {name: "npcl_plugin.backbones"
             for name in ("npcl-resnet18", "npcl-reduced-resnet18", "npcl-mnistmlp")}
# What a run with --uncertainty imports late and long; whoever starts many runs does it once.
IMPORTS = ("npcl_plugin.uncertainty.recorder", "scipy.special")

if sys.argv[:1] != ["-m"]:  # `python -m npcl_plugin` offers them to the checkout that it is given
    offer(MODELS, BACKBONES)


def add_arguments(parser: Any) -> None:
    """The harness's hook: arguments that every model gets."""
    from npcl_plugin.uncertainty.arguments import add_arguments as add

    add(parser)


def extend(args: Namespace) -> Any:
    """The harness's hook: what watches the run, if `--uncertainty 1` asks for it."""
    if not getattr(args, "uncertainty", 0):
        return None
    from npcl_plugin.uncertainty.recorder import Recorder

    return Recorder(args)


def add_experiments() -> None:
    """The hook of `experiments`: measures, figures and tables of neural processes."""
    from npcl_plugin.bench import register as register_bench
    from npcl_plugin.report import register

    register()
    register_bench()
