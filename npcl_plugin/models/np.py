"""The neural process with replay (paper, appendix A.3): a global latent, means for attention."""
from npcl_plugin.contract import register_model
from npcl_plugin.models.npcl import NPCL


@register_model("np")
class NP(NPCL):
    """One global latent, mean aggregation."""

    NAME = "np"
    CONFIG_PATH = NPCL.CONFIG_PATH.with_name("np.yaml")
    HAS_TASK = False
    ATTENTION = False
