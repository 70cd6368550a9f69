"""Runs on pretrained features: one list per benchmark, and few-shot replay beside it."""
import statistics
from collections.abc import Iterator

from engine.tables import spread
from experiments.identity import Key
from experiments.measures import ACCURACY, SECONDS, measure
from experiments.run import Run
from experiments.tables.rows import benchmark, in_order, name
from experiments.tables.sections import MeasuredRuns, Runs, section
from experiments.tables.table import Table, known

_FEW = (5, 10)  # buffer sizes of few-shot replay
_ORDER = ", permute_classes 1"  # every run has its own order of the classes
_HEADER = ["buffer", "method", "Class-IL %", "BWT", "ECE", "novelty", "seconds", "seeds"]
_COLUMNS = {"accuracy": 1, "backward_transfer": 1, "ece": 3, "auroc_entropy": 3}  # digits


@section("features", "Pretrained features",
         "Class-IL on features that never change, the best of each buffer first; novelty is the "
         "area under the ROC curve of the answer's entropy, seconds the median (features.md).",
         place=45)
def features(book: MeasuredRuns) -> Iterator[Table]:
    """Accuracy, transfer, calibration, novelty and time; then 5 and 10 samples in all."""
    for protocol, runs in book.measured.items():
        network = protocol.removeprefix("features ")
        if network == protocol or " " in network:  # other data, or reduced besides
            continue
        ours = {key: group for key, group in runs.items() if key[2].endswith(_ORDER)}
        for dataset in in_order(key[0] for key in ours):
            keys = [key for key in ours if key[0] == dataset]
            title = f"{benchmark(dataset)} on features of {network}"
            full = [key for key in keys if key[1] not in _FEW]
            yield Table.of_rows(title, _HEADER, [_row(key, ours[key]) for key in sorted(
                full, key=lambda key: (key[1], -_accuracy(ours[key])))])
            few = _few_shot(ours, [key for key in keys if key[1] in _FEW])
            if few:
                yield Table.of_rows(f"Few-shot replay, {title}", [
                    "method", *(f"{size} samples % (seeds)" for size in _FEW)], few)


def _accuracy(runs: list[Run]) -> float:
    found = known([ACCURACY.value(run) for run in runs])
    return sum(found) / max(len(found), 1)


def _method(variant: str) -> str:
    return f"`{name(variant.removesuffix(_ORDER))}`"


def _row(key: Key, runs: list[Run]) -> list[str]:
    cells = [spread([measure(what).value(run) for run in runs], digits)
             for what, digits in _COLUMNS.items()]
    seconds = known([SECONDS.value(run) for run in runs])
    return [str(key[1] or "-"), _method(key[2]), *cells,
            f"{statistics.median(seconds):.0f}" if seconds else "-", str(len(runs))]


def _few_shot(runs: Runs, keys: list[Key]) -> list[list[str]]:
    """A row per method, the best with ten samples first."""
    rows = []
    for variant in {key[2] for key in keys}:
        groups = [runs.get((keys[0][0], size, variant), []) for size in _FEW]
        cells = [f"{spread([ACCURACY.value(run) for run in group], 1)} ({len(group)})"
                 if group else "" for group in groups]
        rows.append((-_accuracy(groups[-1]), [_method(variant), *cells]))
    return [row for _, row in sorted(rows)]
