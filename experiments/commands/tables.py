"""Rebuild the paper's tables from the runs in results/, ours beside the paper's figures.

    python utils/tables.py                            print them
    python utils/tables.py --out docs/tables.md       write them
    python utils/tables.py --only main few-shot       some of them
    python utils/tables.py --docs                     write those in README.md and docs/ anew

Every figure of ours is the mean ± sd over the seeds (their number in brackets) of the records
that `utils/collect.py` made; an empty cell was not measured. The paper's figures come from
results/paper.json. Reduced protocols stand in tables of their own.
"""
from pathlib import Path

from experiments.commands import command_parser, told
from experiments.paths import ROOT
from experiments.tables.cost import (
    confidence,
    context_size,
    inference_time,
    monte_carlo,
    novelty,
    parameters,
    storage,
)
from experiments.tables.headline import all_settings, headline
from experiments.tables.paper import (
    Book,
    backward_transfer,
    calibration,
    few_shot,
    main_results,
    noisy_context,
    objectives,
)
from experiments.tables.records import read_records
from experiments.tables.search import search
from npcl_plugin.uncertainty.definitions import DEFINITIONS
from utils.errors import UsageError
from utils.files import atomic_write

SECTIONS = {
    "headline": ("Headline", headline),
    "main": ("Main results", main_results),
    "bwt": ("Backward transfer", backward_transfer),
    "calibration": ("Calibration", calibration),
    "objectives": ("Learning objectives", objectives),
    "few-shot": ("Few-shot replay", few_shot),
    "noisy-context": ("Noisy context", noisy_context),
    "storage": ("Storage", storage),
    "parameters": ("Parameters", parameters),
    "time": ("Inference time", inference_time),
    "novelty": ("Novel data", novelty),
    "confidence": ("Confidence", confidence),
    "draws": ("Monte-Carlo samples", monte_carlo),
    "context": ("Context size", context_size),
    "search": ("Search of hyperparameters", search),
}
NOTES = {
    "headline": "Mean ± sd over the seeds; the best of each column in bold, joint training aside.",
    "calibration": "The paper names Nixon et al. (2019) for ACE and gives no formula; two readings "
                   "of ours stand beside its figures.",
    "novelty": "Mean variance over the draws of softmax (δ) and entropy (H), on test data of the "
               "tasks so far and on data of another kind. Means over the seeds.",
    "confidence": "Prediction interval widths and accuracies by the paired t-test's verdict, under "
                  "the true head. The paper's is one run.",
    "draws": "The paper shows a heat map without figures and names (M = 1, N = 50) and (M = 10, "
             "N = 20) as favourable.",
    "context": "The paper shows curves without figures: accuracy grows with the context.",
    "time": "Seconds to answer the given number of images on one thread; the paper's seconds are "
            "for the S-CIFAR-10 test set on its own hardware.",
    "search": "Runs of `./run_all.sh tables --validation`: each argument by itself, the rest as "
              "published; the best value in bold.",
    "parameters": "The paper counts ER and DER as one. Records made before parameters were kept "
                  "have none.",
}


DEFINED = {
    "calibration": {"ECE": "ece", "ACE by class": "ace_classwise",
                    "ACE of the answer": "ace_top_equal_mass"},
    "novelty": {"δ": "variance_softmax", "H": "variance_entropy"},
    "confidence": {"PIW": "piw"},
}


def parse_args(argv=None):
    """The command line."""
    parser = command_parser(__doc__)
    parser.add_argument("--results", type=Path, default=ROOT / "results",
                        help="folder of the compact files (default: results/)")
    parser.add_argument("--out", type=Path, help="Markdown file to write instead of printing")
    parser.add_argument("--docs", action="store_true",
                        help="write docs/tables.md and the tables between the marks of README.md "
                             "and docs/results.md anew")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS),
                        metavar="TABLE", help=f"some of {', '.join(SECTIONS)}")
    return parser.parse_args(argv)


def pages(book: Book, wanted) -> str:
    """The sections as one Markdown text."""
    parts = ["# The paper's tables, ours beside them\n",
             "Made by `python utils/tables.py` from `results/*.json`; nothing is typed in by hand "
             "but the\npaper's figures (`results/paper.json`). Ours: mean ± sd (seeds). An empty "
             "cell was not measured.\n"]
    for section in wanted:
        title, build = SECTIONS[section]
        tables = list(build(book))
        parts += [f"## {title}\n", *([NOTES[section] + "\n"] if section in NOTES else []),
                  *(f"- {short}: {DEFINITIONS[measure]}"
                    for short, measure in DEFINED.get(section, {}).items()),
                  *([""] if section in DEFINED else []),
                  *(map(str, tables) if tables else ["Nothing was measured yet.\n"])]
    return "\n".join(parts)


def documents(records) -> dict[Path, str]:
    """The project's pages as these records make them: file -> its whole text."""
    book = Book.of(records)
    marked = {"README.md": ("headline", "\n".join(map(str, headline(book))).strip()),
              "docs/results.md": ("all", all_settings(records, book.paper))}
    found = {ROOT / "docs" / "tables.md": pages(book, SECTIONS)}
    for name, (mark, table) in marked.items():
        before, rest = (ROOT / name).read_text(encoding="utf-8").split(f"<!-- {mark} -->\n")
        after = rest.split(f"<!-- /{mark} -->\n")[1]
        found[ROOT / name] = f"{before}<!-- {mark} -->\n{table}\n<!-- /{mark} -->\n{after}"
    return found


def build(options) -> int:
    """Read, build, write."""
    if not options.results.is_dir():
        raise UsageError(f"There is no folder {options.results}; utils/collect.py makes its files.")
    try:
        records = read_records(options.results)
    except KeyError as error:
        raise UsageError(f"A file in {options.results} is no list of records ({error}); make it "
                         "anew with utils/collect.py.") from error
    if options.docs:
        written = documents(records)
    else:
        text = pages(Book.of(records), options.only)
        written = {options.out: text} if options.out else {}
        if not options.out:
            print(text)
    for path, text in written.items():
        atomic_write(path, text.encode())
        print(f"Written: {path}")
    return 0


def main(argv=None) -> int:
    """The command; returns the exit code."""
    return told(lambda: build(parse_args(argv)))
