#!/usr/bin/env python3
"""Run what the paper's tables need, then rebuild the tables.

    ./run_all.sh tables --scale cpu           what reproduces on a machine without a GPU
    ./run_all.sh tables --scale full          the paper's whole protocol
    ./run_all.sh tables --scale cpu --dry_run
    ./run_all.sh tables --validation --only 'perm-mnist*'     search for hyperparameters instead

The runs are those of configs/tables-SCALE.yaml (with --validation: configs/search.yaml, the
paper's ranges, judged on a part of the training data) and go through utils/sweep.py, which prints
the expected time first and takes all further arguments (--only 'few-shot*', --limit 10, --jobs 2,
--launcher ray, ...). Called again, it goes on. The tables are written beside the results.
"""
import argparse
import signal
import subprocess
import sys
from pathlib import Path

from running import ROOT
from running.specs import Folders

SCALES = ("cpu", "full")


def parse_args(argv=None):
    """Our own arguments, and the rest for the sweep."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=SCALES, default="cpu", help="preset (default: cpu)")
    parser.add_argument("--validation", nargs="?", type=float, const=10.0, metavar="PERCENT",
                        help="search the paper's ranges of hyperparameters, judged on so much of "
                             "the training data (10 %% unless given)")
    parser.add_argument("--base_path", default="./data/", help="datasets and results")
    parser.add_argument("--results_path", default="results/",
                        help="below --base_path unless absolute")
    return parser.parse_known_args(argv)


def script(name, *words) -> int:
    """Run one of the scripts beside this one; returns its exit code.

    Ctrl-C reaches it from the terminal, so it is left to end as it sees fit; SIGTERM is passed on.
    """
    child = subprocess.Popen([sys.executable, str(ROOT / "utils" / name), *map(str, words)])
    before = {signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
              signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: child.terminate())}
    try:
        return child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(options, rest) -> int:
    """Sweep, collect, tables; an interrupted sweep ends it, failed runs do not."""
    searching = options.validation is not None
    preset = "search" if searching else f"tables-{options.scale}"
    split = ["--validation", f"{options.validation:g}"] if searching else []
    code = script("sweep.py", ROOT / "configs" / f"{preset}.yaml", "--base_path",
                  options.base_path, "--results_path", options.results_path, *split, *rest)
    if code not in (0, 1) or "--dry_run" in rest or "--detach" in rest:
        return code
    results = Folders.of(options.base_path, options.results_path).results
    folder = Path(results) / "tables"
    only = ["--only", "search"] if searching else []
    page = folder / ("search.md" if searching else "tables.md")
    return script("collect.py", results, "--out", folder / "runs.json") or script(
        "tables.py", "--results", folder, "--out", page, *only) or code


if __name__ == "__main__":
    sys.exit(main(*parse_args()))
