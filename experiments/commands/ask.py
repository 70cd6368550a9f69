"""Ask a trained model what is on images, and how sure it is.

    python utils/ask.py CHECKPOINT IMAGE...
    python utils/ask.py CHECKPOINT photos/ --at_least 0.9
    python utils/ask.py CHECKPOINT IMAGE... --json

CHECKPOINT is a file that mammoth/main.py wrote with --savecheck; an IMAGE is a file or a folder.
Images are resized and normalised as the benchmark of the checkpoint demands.
"""
import json
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from engine.errors import UsageError
from experiments.commands import command_parser, told


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """The command line."""
    parser = command_parser(__doc__ or "")
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="file written by --savecheck")
    parser.add_argument("images", nargs="+", metavar="IMAGE", help="image file, or folder of them")
    parser.add_argument("--json", action="store_true", help="all that is known, for programs")
    parser.add_argument("--at_least", type=float, metavar="SHARE",
                        help="abstain where needed so that this share of the answers is right")
    parser.add_argument("--task", type=int, metavar="N",
                        help="the images' task, counted from 1, where it is known")
    parser.add_argument("--device", help="cpu, mps, or a GPU number; default: the best")
    return parser.parse_args(argv)


def ask(options: Namespace) -> int:
    """Load, ask, tell.

    Raises:
        UsageError: the checkpoint, an image or an option is no good.
    """
    from engine.heap import importing
    from mammoth import load_model

    machine: dict[str, Any] = {} if options.device is None else {"device": options.device}
    with importing():  # torch, the harness and the method
        model = load_model(options.checkpoint, **machine)
    if options.task is not None and not 1 <= options.task <= model.tasks_learned:
        raise UsageError(f"Expected --task to lie in 1..{model.tasks_learned}, the tasks learned "
                         f"so far, but got {options.task}.")
    answer = model.ask(options.images, None if options.task is None else options.task - 1)
    verdict = None if options.at_least is None else answer.sure(options.at_least)
    if options.json:
        sure = {} if verdict is None else {"sure": verdict.kept.tolist(),
                                           "threshold": verdict.threshold}
        print(json.dumps({"model": model.model.NAME, "dataset": model.dataset.NAME,
                          "notes": list(answer.notes), **sure, "answers": answer.rows()}))
        return 0
    print(answer)
    if verdict is not None:
        print(f"\n{verdict}")
        unsure = [name for name, kept in zip(answer.image, verdict, strict=True) if not kept]
        if unsure:
            print(f"Abstain on: {', '.join(unsure)}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    return told(lambda: ask(parse_args(argv)))
