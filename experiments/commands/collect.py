"""Turn a folder of runs into one compact file of results, and such files into tables.

    python utils/collect.py RESULTS_PATH --out results/harness.json
    python utils/collect.py RESULTS_PATH --out results/harness.json --add
    python utils/collect.py --table results/harness.json

A run is kept with its command, the arguments that make it special, seed, accuracies, transfer,
time, versions, and what it knows about its uncertainty (`--uncertainty 1`: calibration, novelty,
confidence, cost); folders of the machine it ran on are left out. A table shows mean ± sd over the
seeds beside the paper's figure (results/paper.json) where the paper has that cell. Variants and
reduced protocols are rows of their own. `utils/tables.py` makes all the paper's tables.
"""
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from engine.errors import UsageError
from engine.files import ensure_appendable
from experiments.commands import command_parser, told
from experiments.commands.tables import read_files
from experiments.compact import record_of, write_records
from experiments.run import Damaged, LeftOut
from experiments.run_folders import find_runs
from experiments.tables.headline import all_settings


def collect(source: Path, out: Path, add: bool = False) -> None:
    """Write all finished runs below `source`, in a stable order.

    Args:
        add: keep the records that are in the file already; of the same command the new one stays.

    Raises:
        UsageError: there is no run to collect, or no place to write to; the file stays as it is.
    """
    ensure_appendable(out, "--out")
    runs, left_out = find_runs(source / "runs")
    found = []
    for run in runs:
        try:
            found.append(record_of(run))
        except Damaged as error:
            left_out.append(LeftOut(run.name, str(error)))
    for one in left_out:
        if not one.reason.startswith("not finished"):
            print(one, file=sys.stderr)
    if not found:
        raise UsageError(f"There is no finished run below {source / 'runs'}; give the "
                         "--results_path of the runs.")
    count = write_records(found, out, add)
    print(f"{count} runs in {out}, {len(found)} of them collected now")


def main(argv: Sequence[str] | None = None) -> int:
    """Collect or print, as asked; returns the exit code."""
    parser = command_parser(__doc__)
    parser.add_argument("source", type=Path, nargs="?", help="--results_path of the runs")
    parser.add_argument("--out", type=Path, help="compact file to write")
    parser.add_argument("--add", action="store_true",
                        help="add to the file instead of writing it anew")
    parser.add_argument("--table", type=Path, nargs="+", help="compact files to show as a table")
    options = parser.parse_args(argv)
    if not options.table and not (options.source and options.out):
        parser.error("give RESULTS_PATH and --out, or --table")
    return told(lambda: collect_or_print(options))


def collect_or_print(options: Namespace) -> int:
    """Write the compact file, or show such files as a table."""
    if options.table:
        print(all_settings(read_files(options.table)))
    else:
        collect(options.source, options.out, options.add)
    return 0
