"""A neural process of your own: NPCL whose heads all answer, the surer ones louder.

    python examples/own_np_variant.py

The settings are npcl's: the class has no file of its own, so it inherits the one that npcl names.
In a package of your own, an entry point `mammoth.plugins` makes `--model soft_npcl` known to the
command line (docs/harness.md).
"""
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout, not installed

from mammoth import load_runner, register_model, train  # noqa: E402
from npcl_plugin.models.npcl import NPCL  # noqa: E402


@register_model("soft_npcl")
class SoftNPCL(NPCL):
    """Heads are weighted by exp(-entropy / temperature) instead of one being chosen."""

    NAME = "soft_npcl"

    @staticmethod
    def get_parser(parser: Any) -> Any:
        """The family's arguments and one of our own."""
        parser = NPCL.get_parser(parser)
        parser.add_argument("--temperature", type=float, default=0.5,
                            help="small: the surest head alone; large: all heads alike")
        return parser

    def predict(self, x: Any, draws: Any = None, heads: Any = None) -> Any:
        """As NPCL, with another mixture of the heads; an oracle's choice stays as it is."""
        said = super().predict(x, draws, heads)
        if heads is not None:
            return said
        weights = (-said.entropy / self.args.temperature).softmax(0)  # (T', B)
        of_heads = said.logits.softmax(-1).mean(1)  # (T', B, C)
        return replace(said, probs=(weights.unsqueeze(-1) * of_heads).sum(0))


def main(work: Path) -> None:
    """Put the variant beside its parent on the embedded digits."""
    for name in ("npcl", "soft_npcl"):
        model, benchmark = load_runner(name, "seq-digits", {
            "buffer_size": 200, "seed": 0, "n_global": 10, "base_path": work, "non_verbose": 1})
        accuracy = train(model, benchmark)["accuracy"]
        print(f"{name:<10} class-IL {accuracy['class-il']:.1f} %")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
