"""The attentive neural process with replay (paper, appendix A.3): a global latent, one head."""
from npcl_plugin.contract import register_model
from npcl_plugin.models.npcl import NPCL


@register_model("anp")
class ANP(NPCL):
    """One global latent, attention."""

    NAME = "anp"
    CONFIG_PATH = NPCL.CONFIG_PATH.with_name("anp.yaml")
    HAS_TASK = False
