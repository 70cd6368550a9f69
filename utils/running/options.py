"""Arguments that all the commands share, and how their mistakes end."""
import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from running.specs import Folders, from_words
from utils.errors import RunError, UsageError


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Folders and the number of runs at a time."""
    parser.add_argument("--jobs", type=int, default=None,
                        help="runs at a time (default: as many as there are cores for)")
    parser.add_argument("--cpus", type=int, default=1, help="threads, or cores, a run (default 1)")
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
    for name in ("jobs", "cpus"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"Expected --{name} to be at least 1, but got {value}.")
    return options.jobs or max(1, len(os.sched_getaffinity(0)) // options.cpus)


def extra_arguments(rest: Sequence[str]) -> dict[str, Any]:
    """Arguments that are not the command's own go to every run."""
    return from_words(rest)


def told(main: Callable[[], int]) -> int:
    """Call `main`; mistakes become one sentence on stderr and their exit code."""
    try:
        return main()
    except (UsageError, RunError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # `sweep.py --dry_run | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
