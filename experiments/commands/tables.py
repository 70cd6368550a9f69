"""Rebuild the paper's tables from the runs in results/, ours beside the paper's figures.

    python utils/tables.py                            print them
    python utils/tables.py --out docs/tables.md       write them
    python utils/tables.py --only main few-shot       some of them
    python utils/tables.py --docs                     write those in docs/ anew

Every figure of ours is the mean ± sd over the seeds (their number in brackets) of the records
that `utils/collect.py` made; an empty cell was not measured. The paper's figures come with the
plugin that has its methods. Reduced protocols stand in tables of their own.
"""
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from engine.errors import UsageError
from engine.files import atomic_write
from experiments.commands import command_parser, told
from experiments.compact import read_compact
from experiments.paths import ROOT
from experiments.run import Run
from experiments.tables.page import all_sections, documents, pages
from experiments.tables.sections import MeasuredRuns


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """The command line."""
    names = list(all_sections())
    parser = command_parser(__doc__)
    parser.add_argument("--results", type=Path, default=default_folder(),
                        help="folder of the compact files (default: results/)")
    parser.add_argument("--out", type=Path, help="Markdown file to write instead of printing")
    parser.add_argument("--docs", action="store_true",
                        help="write docs/tables.md and the tables between the marks of "
                             "other pages in docs/ anew")
    parser.add_argument("--only", nargs="+", choices=names, default=names,
                        metavar="TABLE", help=f"some of {', '.join(names)}")
    return parser.parse_args(argv)


def default_folder() -> Path:
    """The checkout's results; for an installed command, those of the folder it is called in."""
    return ROOT / "results" if (ROOT / "results").is_dir() else Path("results")


def read_files(paths: Iterable[Path]) -> list[Run]:
    """The runs of compact files; what cannot be used, and what older records lack, is told.

    Raises:
        UsageError: a file is missing or is no list of records.
    """
    runs: list[Run] = []
    for path in paths:
        found, left_out = read_compact(path)
        runs += found
        for one in left_out:
            print(one, file=sys.stderr)
    lacking = Counter(words for run in runs for words in run.lacks)
    for words, count in lacking.items():
        print(f"note: {count} of {len(runs)} records were made by older code and lack: {words}.",
              file=sys.stderr)
    return runs


def build(options: Namespace) -> int:
    """Read, build, write."""
    if not options.results.is_dir():
        raise UsageError(f"There is no folder {options.results}; utils/collect.py makes its files.")
    runs = read_files(sorted(options.results.glob("*.json")))
    if options.docs and not (ROOT / "docs").is_dir():
        raise UsageError("--docs writes the pages of a checkout, and this is none; give --out.")
    if options.docs:
        written = documents(runs)
    else:
        book = MeasuredRuns.of(runs)
        text = pages(book, options.only)
        for remark in book.remarks:
            print(f"note: {remark}", file=sys.stderr)
        written = {options.out: text} if options.out else {}
        if not options.out:
            print(text)
    for path, text in written.items():
        atomic_write(path, text.encode())
        print(f"Written: {path}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    return told(lambda: build(parse_args(argv)))
