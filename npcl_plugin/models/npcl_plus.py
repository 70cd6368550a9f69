"""NPCL+: the paper's model with our extensions on, where they help.

Only the defaults differ, and they stand in `config/npcl_plus.yaml`: train what inference uses
(`--task_marginal`), remember logits (`--dark_replay`), add the backbone's own classifier
(`--residual_decoder`), let all heads answer (`--head_inference mixture`)."""
from npcl_plugin.contract import register_model
from npcl_plugin.models.npcl import NPCL


@register_model("npcl_plus")
class NPCLPlus(NPCL):
    """NPCL with other defaults."""

    NAME = "npcl_plus"
    CONFIG_PATH = NPCL.CONFIG_PATH.with_name("npcl_plus.yaml")
