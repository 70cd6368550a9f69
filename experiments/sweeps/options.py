"""Arguments that all commands share that start runs."""
import argparse
import os
from collections.abc import Sequence
from typing import Any

from engine.errors import UsageError
from experiments.command_line import from_words
from experiments.sweeps.specification import Folders


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Folders and the number of runs at a time."""
    parser.add_argument("--jobs", type=int, default=None,
                        help="runs at a time (default: as many as there are cores for)")
    parser.add_argument("--cpus", type=int, default=1,
                        help="threads, or cores, per run (default 1)")
    parser.add_argument("--base_path", default="./data/", help="datasets and results")
    parser.add_argument("--results_path", default="results/",
                        help="below --base_path unless absolute")
    parser.add_argument("--checkpoint_path",
                        help="checkpoints of unfinished runs (default: below the results)")
    parser.add_argument("--keep_checkpoints", action="store_true",
                        help="do not remove the checkpoints of finished runs")
    parser.add_argument("--retries", type=int, default=3,
                        help="how often a run that is killed from outside goes on (default 3)")


def folders_of(options: argparse.Namespace) -> Folders:
    """The folders as the options have them."""
    return Folders.of(options.base_path, options.results_path, options.checkpoint_path)


def jobs_of(options: argparse.Namespace) -> int:
    """The number of runs at a time.

    Raises:
        UsageError: it, or the number of threads, is below 1.
    """
    for name, least in (("jobs", 1), ("cpus", 1), ("retries", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise UsageError(f"Expected --{name} to be at least {least}, but got {value}.")
    asked: int | None = options.jobs
    return asked or max(1, len(os.sched_getaffinity(0)) // options.cpus)


def extra_arguments(rest: Sequence[str]) -> dict[str, Any]:
    """Arguments that are not the command's own go to every run."""
    return from_words(rest)
