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
from argparse import Namespace
from collections.abc import Sequence

from experiments.commands import collect, command_parser, sweep, tables, told
from experiments.paths import ROOT
from experiments.sweeps.specification import Folders

SCALES = ("cpu", "full")


def parse_args(argv: Sequence[str] | None = None) -> tuple[Namespace, list[str]]:
    """Our own arguments, and the rest for the sweep."""
    parser = command_parser(__doc__, allow_abbrev=False)
    parser.add_argument("--scale", choices=SCALES, default="cpu", help="preset (default: cpu)")
    parser.add_argument("--validation", nargs="?", type=float, const=10.0, metavar="PERCENT",
                        help="search the paper's ranges of hyperparameters, judged on so much of "
                             "the training data (10 %% unless given)")
    parser.add_argument("--base_path", default="./data/", help="folder of datasets and results")
    parser.add_argument("--results_path", default="results/",
                        help="folder of results, below --base_path unless absolute")
    return parser.parse_known_args(argv)


def reproduce(options: Namespace, rest: Sequence[str]) -> int:
    """Sweep, collect, tables; an interrupted sweep ends it, failed runs do not."""
    searching = options.validation is not None
    preset = "search" if searching else f"tables-{options.scale}"
    split = ["--validation", f"{options.validation:g}"] if searching else []
    code = sweep.main(words(ROOT / "configs" / f"{preset}.yaml", "--base_path", options.base_path,
                            "--results_path", options.results_path, *split, *rest))
    if code not in (0, 1) or "--dry_run" in rest or "--detach" in rest:
        return code
    results = Folders.of(options.base_path, options.results_path).results
    folder = results / "tables"
    only = ["--only", "search"] if searching else []
    page = folder / ("search.md" if searching else "tables.md")
    return collect.main(words(results, "--out", folder / "runs.json")) or tables.main(
        words("--results", folder, "--out", page, *only)) or code


def words(*parts: object) -> list[str]:
    """A command line from words and paths."""
    return [str(part) for part in parts]


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    return told(lambda: reproduce(*parse_args(argv)))
