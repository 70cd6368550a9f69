"""ST-NPCL: task latents without the global level (paper, appendix A.2).

The number of draws of z^t is what NPCL draws of z^G, for a fair comparison."""
from npcl_plugin.contract import register_model
from npcl_plugin.models.npcl import NPCL


@register_model("st_npcl")
class STNPCL(NPCL):
    """Task-specific latents only."""

    NAME = "st_npcl"
    CONFIG_PATH = NPCL.CONFIG_PATH.with_name("st_npcl.yaml")
    HAS_GLOBAL = False
