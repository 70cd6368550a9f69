"""The conditional neural process with replay: no latent at all, the mean over the context."""
from npcl_plugin.contract import register_model
from npcl_plugin.models.npcl import NPCL


@register_model("cnp")
class CNP(NPCL):
    """Nothing is drawn; the context is all that a target is told."""

    NAME = "cnp"
    CONFIG_PATH = NPCL.CONFIG_PATH.with_name("cnp.yaml")
    HAS_GLOBAL = HAS_TASK = ATTENTION = False
