"""NPCL+: the attentive neural process with what pilot runs say keeps it from forgetting.

Ours, not the paper's. Only defaults differ from the family's; they stand in
`config/npcl_plus.yaml`. Logits are stored and kept (`--dark_replay`), slow weights answer
(`--slow_decay`), classes compete for the stream's samples by the number of samples that are at
hand of them (`--stream_prior`), in S-MNIST and S-FMNIST attention is told which class to look
at (`--guided_attention`), and on small CIFAR-10, or with a sample a class or less there, new
samples stay like the past classes that they were like (`--stream_recall`). One head: choosing
among heads of tasks costs more than they know, and their layers cost more parameters than the rest
together.
"""
from npcl_plugin.contract import register_model
from npcl_plugin.models.npcl import NPCL


@register_model("npcl_plus")
class NPCLPlus(NPCL):
    """One global latent, attention, other defaults."""

    NAME = "npcl_plus"
    CONFIG_PATH = NPCL.CONFIG_PATH.with_name("npcl_plus.yaml")
    HAS_TASK = False
