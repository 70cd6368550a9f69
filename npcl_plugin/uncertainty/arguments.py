"""The arguments that every model gets; read before torch is imported."""
from typing import Any

from npcl_plugin.contract import number, resolves_settings

NOVEL = ("auto", "none", "mnist", "fashion-mnist", "cifar10", "cifar100", "inverted", "shuffled")


def add_arguments(parser: Any) -> None:
    """`--uncertainty` and its relatives."""
    group = parser  # upstream gives its models a group, which holds no other
    if resolves_settings():
        group = parser.add_argument_group("Uncertainty (any model)")
    group.add_argument("--uncertainty", type=int, choices=(0, 1), default=0,
                       help="1: save predictions after each task and measure calibration, novelty, "
                            "confidence, latents and attention from them")
    group.add_argument("--uncertainty_samples", type=number(int, least=0), default=1000,
                       help="test samples of each task, evenly spaced; 0: all")
    group.add_argument("--uncertainty_draws", type=number(int, least=1), default=50,
                       help="NP family: draws of z^G for variances and intervals (paper: 50)")
    group.add_argument("--novel_data", choices=NOVEL, default="auto",
                       help="data of another kind; auto: what the benchmark is compared with; "
                            "inverted, shuffled: the newest task's own images, changed")
    if not resolves_settings():  # our harness has run folders
        group.add_argument("--uncertainty_path", help="folder that --uncertainty 1 writes to")
