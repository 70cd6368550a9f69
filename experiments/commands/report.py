"""One HTML page from a folder of runs: tables, curves, heat maps and every uncertainty measure.

    python utils/report.py RESULTS_PATH
    python utils/report.py RESULTS_PATH --out report.html --figures FIGURES [--format pdf]

RESULTS_PATH is the --results_path of the runs, a part of it, the folder of one run, or a folder of
records that `utils/collect.py` made, such as results/ (tables and claims, no single runs). The page
needs no network and no server. `--figures` also writes every figure as a file for a paper, with
the paper's figure number first in its name where the paper has that figure.
"""
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from engine.errors import UsageError
from experiments.commands import command_parser, told
from experiments.compact import read_compact
from experiments.identity import Experiment, experiments_of, experiments_of_records
from experiments.report.files import write_figures
from experiments.report.page import page
from experiments.run import LeftOut, Run, printable
from experiments.run_folders import find_runs
from experiments.words import counted


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """The command line."""
    parser = command_parser(__doc__)
    parser.add_argument("source", type=Path, metavar="RESULTS_PATH", help="folder of the runs")
    parser.add_argument("--out", type=Path, help="page to write (default: report.html in the "
                        "folder of the runs)")
    parser.add_argument("--figures", type=Path, metavar="DIR",
                        help="folder to write each figure to as well")
    parser.add_argument("--format", choices=["svg", "pdf"], default="svg",
                        help="kind of the files of --figures (default svg; pdf needs the extra "
                             "`figures`)")
    return parser.parse_args(argv)


def build(options: Namespace) -> int:
    """Read, write, tell.

    Raises:
        UsageError: there is nothing to show, or a file cannot be written.
    """
    if not options.source.is_dir():
        raise UsageError(f"Expected a folder of runs, but {options.source} is not one; give the "
                         "--results_path of the runs.")
    out = options.out or options.source / "report.html"
    runs, left_out = find_runs(options.source)
    records = [] if runs or left_out else sorted(options.source.glob("*.json"))
    groups = write_records(records, out) if records else write_page(
        runs, left_out, options.source, out)
    if options.figures:
        count = write_figures(groups, options.figures, options.format)
        print(f"{count} figures: {options.figures}")
    return 0


def write_page(runs: Sequence[Run], left_out: list[LeftOut], source: Path, out: Path
               ) -> list[Experiment]:
    """Write the page of some runs, tell where it is and what it leaves out; returns its groups.

    Raises:
        UsageError: no run can be shown, or the file cannot be written.
    """
    groups, repeated = experiments_of(runs)
    return _write(groups, [*left_out, *repeated], source, out)


def write_records(files: Sequence[Path], out: Path) -> list[Experiment]:
    """The same page of compact files, such as the project's own results.

    Raises:
        UsageError: a file is no list of records, or the page cannot be written.
    """
    read = [read_compact(path) for path in files]
    groups = experiments_of_records(run for runs, _ in read for run in runs)
    return _write(groups, [one for _, left_out in read for one in left_out],
                  Path(files[0].parent.name), out)


def _write(groups: list[Experiment], left_out: Sequence[LeftOut], source: Path, out: Path
           ) -> list[Experiment]:
    """Make the page, write it, tell."""
    for one in left_out:
        print(one, file=sys.stderr)
    if not groups:
        found = (f"none of its {counted(len(left_out), 'run')} is whole and trains" if left_out
                 else "it has no runs")
        raise UsageError(f"Expected at least one finished run in {source}, but {found}; "
                         "make one with mammoth/main.py --results_path.")
    text, problems = page(groups, left_out, str(source))
    for problem in problems:
        print(f"note: {printable(problem)}", file=sys.stderr)
    content = text.encode("utf-8", "replace")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(content)
    except OSError as error:
        raise UsageError(f"The page cannot be written to {out} ({error.strerror}); choose another "
                         "place with --out.") from error
    shown = sum(len(group.runs) for group in groups)
    print(f"Report of {counted(shown, 'run')}, {len(content) / 1e6:.2f} MB: {out}")
    return groups


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    return told(lambda: build(parse_args(argv)))
