"""NPCL+ beside the methods that it has to beat: accuracy, calibration and novelty, paired."""
import statistics
from collections.abc import Iterator, Mapping

from engine.tables import spread
from experiments.measures import ACCURACY
from experiments.run import Run
from experiments.tables.comparison import paired_p
from experiments.tables.rows import benchmark, in_order
from experiments.tables.sections import MeasuredRuns, Runs, section
from experiments.tables.table import Table

_OURS = "npcl_plus"
_RIVALS = ("er", "der", "derpp", "cls_er", "er_ace")
_SCORES = ("distance", "energy", "entropy", "max_softmax")
Values = Mapping[int, float]  # by seed


@section("rivals", "NPCL+ and its rivals", "Mean ± sd over seeds, the best of a row in bold. p: "
         "paired t-test of NPCL+ against the best rival of the row, over the seeds that both have. "
         "Novelty is the AUROC of a method's best score; of NPCL+, its distance to all known.",
         (("ECE", "ece"),), place=1)
def rivals(book: MeasuredRuns) -> Iterator[Table]:
    """A table for each measure, a row for each benchmark and buffer."""
    runs = book.measured[""]
    cells = sorted({key[:2] for key in runs if key[2] == _OURS}, key=lambda cell: (
        in_order(key[0] for key in runs).index(cell[0]), cell[1]))
    for title, better, digits in (("Accuracy, %", 1, 2), ("ECE", -1, 3), ("Novelty, AUROC", 1, 3)):
        rows = [row for cell in cells if (row := _row(runs, cell, title, better, digits))]
        if rows:
            yield Table.of_rows(title, ["benchmark", "buffer", _OURS, *_RIVALS, "p", "seeds"], rows)


def _row(runs: Runs, cell: tuple[str, int], title: str, better: int,
         digits: int) -> list[str] | None:
    values = {method: _values(runs.get((*cell, method), []), title)
              for method in (_OURS, *_RIVALS)}
    if not values[_OURS]:
        return None
    means = {method: better * statistics.fmean(found.values())
             for method, found in values.items() if found}
    best = max(means, key=lambda method: means[method])
    rival = max((method for method in means if method != _OURS), default="",
                key=lambda method: means[method])
    texts = [spread(list(found.values()), digits) if found else "" for found in values.values()]
    marked = [f"**{text}**" if method == best else text
              for method, text in zip(values, texts, strict=True)]
    return [benchmark(cell[0]), str(cell[1]), *marked,
            paired_p(values[_OURS], values[rival]) if rival else "-", str(len(values[_OURS]))]


def _values(runs: list[Run], title: str) -> Values:
    """Seed -> number, of the runs that have it."""
    if title.startswith("Accuracy"):
        found = {run.seed: ACCURACY.value(run) for run in runs}
    elif title == "ECE":
        found = {run.seed: run.headline.get("ece") for run in runs}
    else:
        shared = [f"auroc_{score}" for score in _SCORES
                  if runs and all(f"auroc_{score}" in run.headline for run in runs)]
        best = shared[:1] if shared[:1] == ["auroc_distance"] else sorted(
            shared, key=lambda name: -sum(run.headline[name] for run in runs))[:1]
        found = {run.seed: run.headline[name] for run in runs for name in best}
    return {seed: value for seed, value in found.items() if seed is not None and value is not None}
