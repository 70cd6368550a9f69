"""The paper's tables, rebuilt from records of runs: ours beside the paper's, cell by cell.

Each function returns tables for one section. A row is there when the paper has it or when it was
measured; what was not measured is an empty cell. Runs of a reduced protocol never share a table
with runs of the full one.
"""
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from experiments.tables.records import groups, paper_cell, read_paper, settings_of
from utils.tables import aligned, spread

ORDER = ("joint", "joint_np", "joint_anp", "joint_npcl", "multitask_npcl", "sgd", "ewc_on", "si",
         "lwf", "lwf_mc", "er", "gem", "agem", "agem_r", "icarl", "fdr", "gss", "hal", "rpc",
         "er_ace", "der", "derpp", "np", "anp", "st_npcl", "naive_npcl", "noisy", "none",
         "global", "task", "no_alpha", "no_beta", "npcl", "npcl_plus")
NAMES = {"joint_np": "joint NP", "joint_anp": "joint ANP", "joint_npcl": "joint NPCL",
         "multitask_npcl": "multitask NPCL", "naive_npcl": "naive NPCL",
         "noisy": "NPCL, noisy context", "none": "NPCL without GR or TR", "global": "NPCL, GR only",
         "task": "NPCL, TR only", "both": "NPCL, GR and TR", "no_alpha": "NPCL, α = 0 (ours)",
         "no_beta": "NPCL, β = 0 (ours)"}
DATASETS = {"seq-cifar10": "S-CIFAR-10", "seq-cifar100": "S-CIFAR-100",
            "seq-tinyimg": "S-Tiny-ImageNet", "perm-mnist": "P-MNIST", "rot-mnist": "R-MNIST",
            "seq-mnist": "S-MNIST", "seq-fmnist": "S-FMNIST"}
_ABLATIONS = ("noisy", "none", "global", "task", "no_alpha", "no_beta")

Group = list[dict[str, Any]]
Key = tuple[str, int, str]  # dataset, buffer size, variant


@dataclass
class Table:
    """Rows under a title."""

    title: str
    header: list[str]
    rows: list[list[str]]

    def __str__(self) -> str:
        """In Markdown."""
        return f"**{self.title}**\n\n{aligned(self.header, self.rows, markdown=True)}\n"


@dataclass
class Book:
    """All runs by protocol, and the paper.

    Args:
        measured: protocol -> (dataset, buffer size, variant) -> runs, one a seed.
        searched: runs that were judged on a validation split.
    """

    measured: dict[str, dict[Key, Group]]
    paper: dict[str, Any]
    searched: Group = field(default_factory=list)

    @classmethod
    def of(cls, records: list[dict[str, Any]]) -> "Book":
        """Sort records by protocol; the full one is always there, measured or not."""
        searched = [r for r in records if "validation" in settings_of(r)]
        tested = [r for r in records if "validation" not in settings_of(r)]
        measured: dict[str, dict[Key, Group]] = {"": {}}
        for (protocol, *key), runs in groups(tested).items():
            measured.setdefault(protocol, {})[tuple(key)] = runs
        return cls(measured, read_paper(), searched)

    def parts(self, kind: str) -> Iterator[tuple[str, dict[Key, Group], dict[str, Any]]]:
        """(title's end, runs, the paper's figures) of the full protocol, then of reduced ones."""
        for protocol, runs in self.measured.items():
            yield (f" (reduced protocol: {protocol})", runs, {}) if protocol else \
                ("", runs, self.paper.get(kind, {}))


def ours(runs: Group | None, value: Callable[[dict[str, Any]], Any], digits: int = 2) -> str:
    """`73.77 ± 1.67 (3)`: mean, deviation, seeds; empty where nothing was measured."""
    known = [v for v in map(value, runs or []) if v is not None]
    return f"{spread(known, digits)} ({len(known)})" if known else ""


def name(variant: str) -> str:
    """A row's name for readers."""
    return NAMES.get(variant, variant)


def place(variant: str) -> tuple[int, str]:
    """Where a row stands: in the paper's order, special settings below their method."""
    method = variant.partition(",")[0]
    return (ORDER.index(method) if method in ORDER else len(ORDER), variant)


def in_order(datasets: Iterable[str]) -> list[str]:
    """Benchmarks in the paper's order, others after them."""
    known = list(DATASETS)
    return sorted(set(datasets), key=lambda d: (known.index(d) if d in known else len(known), d))


def _keys(runs: dict[Key, Group], theirs: dict[str, Any], wanted: Callable[[Key], bool]
          ) -> dict[str, list[Key]]:
    """dataset -> the rows to show, measured or in the paper, in order."""
    found = {key for key, group in runs.items() if group and wanted(key)}
    for dataset, sizes in theirs.items():
        found |= {(dataset, int(size), variant) for size, row in sizes.items() for variant in row}
    return {d: sorted((k for k in found if k[0] == d), key=lambda k: (k[1], place(k[2])))
            for d in in_order(key[0] for key in found)}


def by_method(book: Book, kind: str, value: Callable[[dict[str, Any]], Any], title: str,
              wanted: Callable[[Key], bool]) -> Iterator[Table]:
    """Method and buffer against one measure: accuracy, backward transfer."""
    for ending, runs, theirs in book.parts(kind):
        for dataset, keys in _keys(runs, theirs, wanted).items():
            rows = []
            for key in keys:
                mine = ours(runs.get(key), value)
                paper = paper_cell(theirs.get(dataset, {}).get(str(key[1]), {}).get(key[2]))
                if mine or paper:
                    rows.append([name(key[2]), str(key[1] or "-"), mine, paper])
            if rows:
                yield Table(f"{title}, {DATASETS.get(dataset, dataset)}{ending}",
                            ["method", "buffer", "ours (seeds)", "paper"], rows)


def accuracy(record: dict[str, Any]) -> float | None:
    """Final average accuracy in the benchmark's own setting."""
    return record["accuracy"].get(record["setting"])


def main_results(book: Book) -> Iterator[Table]:
    """Table 1: classification accuracy."""
    return by_method(book, "accuracy", accuracy, "Accuracy, %",
                     lambda key: key[1] not in (5, 10) and key[2] not in _ABLATIONS)


def backward_transfer(book: Book) -> Iterator[Table]:
    """Appendix: backward transfer."""
    return by_method(book, "backward_transfer", lambda r: r.get("backward_transfer"),
                     "Backward transfer", lambda key: key[1] not in (5, 10)
                     and key[2] not in _ABLATIONS)


def noisy_context(book: Book) -> Iterator[Table]:
    """Appendix: the importance of correct context."""
    measured = {(k[0], k[1]) for runs in book.measured.values() for k in runs if k[2] == "noisy"}
    return by_method(book, "noisy_context", accuracy, "Accuracy with noisy context, %",
                     lambda key: key[2] in ("st_npcl", "noisy", "npcl")
                     and (key[0], key[1]) in measured)


def objectives(book: Book) -> Iterator[Table]:
    """Table 3: accuracy with each learning objective. `npcl` is the row with both."""
    theirs = {dataset: {size: {("npcl" if row == "both" else row): value
                               for row, value in rows.items()} for size, rows in sizes.items()}
              for dataset, sizes in book.paper["objectives"].items()}
    measured = {(k[0], k[1]) for runs in book.measured.values() for k in runs
                if k[2] in _ABLATIONS[1:]}
    return by_method(Book(book.measured, {"objectives": theirs}), "objectives", accuracy,
                     "Accuracy with learning objectives, %",
                     lambda key: key[2] in ("er", "npcl", *_ABLATIONS[1:])
                     and (key[0], key[1]) in measured)


def headline(measure: str) -> Callable[[dict[str, Any]], Any]:
    """A number of the uncertainty summary's headline."""
    return lambda record: record.get("uncertainty", {}).get("headline", {}).get(measure)


def calibration(book: Book) -> Iterator[Table]:
    """Table 2: expected and adaptive calibration error.

    The paper gives no formula of its ACE, so two readings of ours stand beside it.
    """
    header = ["method", "buffer", "ECE (seeds)", "paper", "ACE by class (seeds)",
              "ACE of the answer (seeds)", "paper"]
    for ending, runs, theirs in book.parts("calibration"):
        keys = _keys(runs, theirs, lambda key: key[1] not in (5, 10) and any(
            headline("ece")(r) is not None for r in runs[key]))  # noqa: B023
        for dataset, rows in keys.items():
            lines = []
            for key in rows:
                paper = theirs.get(dataset, {}).get(str(key[1]), {}).get(key[2], {})
                lines.append([name(key[2]), str(key[1] or "-"),
                              ours(runs.get(key), headline("ece"), 4),
                              paper_cell(paper.get("ece"), 4),
                              ours(runs.get(key), headline("ace_classwise"), 4),
                              ours(runs.get(key), headline("ace_top_equal_mass"), 4),
                              paper_cell(paper.get("ace"), 4)])
            yield Table(f"Calibration, {DATASETS.get(dataset, dataset)}{ending}", header, lines)


def few_shot(book: Book) -> Iterator[Table]:
    """Table 4: replay from 5 and 10 samples."""
    for ending, runs, theirs in book.parts("few_shot"):
        keys = _keys(runs, theirs, lambda key: key[1] in (5, 10))
        for dataset, rows in keys.items():
            lines = []
            for key in rows:
                paper = theirs.get(dataset, {}).get(str(key[1]), {}).get(key[2], {})
                lines.append([name(key[2]), str(key[1]), ours(runs.get(key), accuracy),
                              paper_cell(paper.get("accuracy")),
                              ours(runs.get(key), headline("ece"), 4),
                              paper_cell(paper.get("ece"), 4)])
            yield Table(f"Few-shot replay, {DATASETS.get(dataset, dataset)}{ending}",
                        ["method", "buffer", "accuracy % (seeds)", "paper", "ECE (seeds)",
                         "paper"], lines)
