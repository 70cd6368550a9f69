"""Tables with the paper's figures beside ours: accuracy, transfer, calibration, few-shot replay.

A row is there when the paper has it or when it was measured; what was not measured is an empty
cell. Runs of a reduced protocol never share a table with runs of the full one.
"""
from collections.abc import Callable, Iterator
from typing import Any

from engine.tables import spread
from experiments.identity import Key
from experiments.measures import ACCURACY, BACKWARD_TRANSFER, Measure, measure
from experiments.run import Run
from experiments.tables.published import cell
from experiments.tables.rows import benchmark, in_order, is_ablation, name, place
from experiments.tables.sections import MeasuredRuns, Runs, section
from experiments.tables.table import Table, known

_FEW = (5, 10)  # buffer sizes of few-shot replay


def ours(runs: list[Run] | None, what: Measure, digits: int = 2) -> str:
    """`73.77 ± 1.67 (3)`: mean, deviation, seeds; empty where nothing was measured."""
    found = known([what.value(run) for run in runs or []])
    return f"{spread(found, digits)} ({len(found)})" if found else ""


def keys_by_dataset(runs: Runs, theirs: dict[str, Any], wanted: Callable[[Key], bool]
                    ) -> dict[str, list[Key]]:
    """dataset -> the rows to show, measured or in the paper, in order."""
    found = {key for key, group in runs.items() if group and wanted(key)}
    for dataset, sizes in theirs.items():
        found |= {(dataset, int(size), variant) for size, row in sizes.items() for variant in row}
    return {d: sorted((k for k in found if k[0] == d), key=lambda k: (k[1], place(k[2])))
            for d in in_order(key[0] for key in found)}


def by_method(parts: Iterator[tuple[str, Runs, dict[str, Any]]], what: Measure, title: str,
              wanted: Callable[[Key], bool]) -> Iterator[Table]:
    """Method and buffer against one measure: accuracy, backward transfer."""
    for ending, runs, theirs in parts:
        for dataset, keys in keys_by_dataset(runs, theirs, wanted).items():
            rows = []
            for key in keys:
                mine = ours(runs.get(key), what)
                paper = cell(theirs.get(dataset, {}).get(str(key[1]), {}).get(key[2]))
                if mine or paper:
                    rows.append([name(key[2]), str(key[1] or "-"), mine, paper])
            if rows:
                yield Table.of_rows(f"{title}, {benchmark(dataset)}{ending}",
                                    ["method", "buffer", "ours (seeds)", "paper"], rows)


def _of_main_table(key: Key) -> bool:
    return key[1] not in _FEW and not is_ablation(key[2])


@section("main", "Main results", place=10)
def main_results(book: MeasuredRuns) -> Iterator[Table]:
    """Table 1: classification accuracy."""
    return by_method(book.parts("accuracy"), ACCURACY, "Accuracy, %", _of_main_table)


@section("bwt", "Backward transfer", place=20)
def backward_transfer(book: MeasuredRuns) -> Iterator[Table]:
    """Appendix: backward transfer."""
    return by_method(book.parts("backward_transfer"), BACKWARD_TRANSFER, "Backward transfer",
                     _of_main_table)


@section("calibration", "Calibration",
         "The paper names Nixon et al. (2019) for ACE and gives no formula; two readings of ours "
         "stand beside its figures.",
         (("ECE", "ece"), ("ACE by class", "ace_classwise"),
          ("ACE of the answer", "ace_top_equal_mass")), place=30)
def calibration(book: MeasuredRuns) -> Iterator[Table]:
    """Table 2: expected and adaptive calibration error.

    The paper gives no formula of its ACE, so two readings of ours stand beside it.
    """
    header = ["method", "buffer", "ECE (seeds)", "paper", "ACE by class (seeds)",
              "ACE of the answer (seeds)", "paper"]
    for ending, runs, theirs in book.parts("calibration"):
        error = measure("ece")
        measured = {key for key, group in runs.items()
                    if key[1] not in _FEW and known([error.value(run) for run in group])}
        for dataset, keys in keys_by_dataset(runs, theirs, measured.__contains__).items():
            lines = []
            for key in keys:
                paper = theirs.get(dataset, {}).get(str(key[1]), {}).get(key[2], {})
                lines.append([name(key[2]), str(key[1] or "-"),
                              ours(runs.get(key), error, 4), cell(paper.get("ece"), 4),
                              ours(runs.get(key), measure("ace_classwise"), 4),
                              ours(runs.get(key), measure("ace_top_equal_mass"), 4),
                              cell(paper.get("ace"), 4)])
            yield Table.of_rows(f"Calibration, {benchmark(dataset)}{ending}", header, lines)


@section("few-shot", "Few-shot replay", place=40)
def few_shot(book: MeasuredRuns) -> Iterator[Table]:
    """Table 4: replay from 5 and 10 samples."""
    for ending, runs, theirs in book.parts("few_shot"):
        for dataset, keys in keys_by_dataset(runs, theirs, lambda key: key[1] in _FEW).items():
            lines = []
            for key in keys:
                paper = theirs.get(dataset, {}).get(str(key[1]), {}).get(key[2], {})
                lines.append([name(key[2]), str(key[1]), ours(runs.get(key), ACCURACY),
                              cell(paper.get("accuracy")),
                              ours(runs.get(key), measure("ece"), 4), cell(paper.get("ece"), 4)])
            yield Table.of_rows(f"Few-shot replay, {benchmark(dataset)}{ending}",
                                ["method", "buffer", "accuracy % (seeds)", "paper", "ECE (seeds)",
                                 "paper"], lines)
