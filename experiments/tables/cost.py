"""Tables about cost: trainable parameters, seconds to answer."""
from collections.abc import Iterable, Iterator
from typing import Any

from experiments.measures import PARAMETERS, Measure
from experiments.run import Run, is_number
from experiments.tables.paper import ours
from experiments.tables.published import cell
from experiments.tables.rows import benchmark, name, place
from experiments.tables.sections import MeasuredRuns, section
from experiments.tables.table import Table, known


def cost(*path: str) -> Measure:
    """A number below `cost` in the uncertainty summary."""

    def look(run: Run) -> float | None:
        found = run.section("cost", *path)
        return found if is_number(found) else None

    return Measure(".".join(("cost", *path)), " ".join(path), "", look)


def constant(runs: Iterable[Run] | None, what: Measure) -> str:
    """A count that all seeds share; empty where nothing was measured."""
    found = sorted(set(known([what.value(run) for run in runs or []])))
    return " / ".join(count(value) if isinstance(value, int) else f"{value:g}" for value in found)


def count(value: Any) -> str:
    """`1,234`; empty for nothing."""
    return f"{value:,}" if value is not None else ""


@section("parameters", "Parameters", "The paper counts ER and DER as one. Records made before "
         "parameters were kept have none.", place=50)
def parameters(book: MeasuredRuns) -> Iterator[Table]:
    """Table 7: trainable parameters. Every method without layers of its own has ER's number."""
    for ending, runs, theirs in book.parts("parameters"):
        counts: dict[tuple[str, str], set[float]] = {}
        for (dataset, _, variant), group in runs.items():
            found = {n for n in known([PARAMETERS.value(run) for run in group]) if n}
            if found and "," not in variant:
                counts.setdefault((dataset, variant), set()).update(found)
        keys = set(counts) | {(d, v) for d, figures in theirs.items()
                              for v, number in figures.items() if isinstance(number, int)}
        rows = [[benchmark(d), name(v), " / ".join(map(count, sorted(counts.get((d, v), ())))),
                 count(theirs.get(d, {}).get(v))]
                for d, v in sorted(keys, key=lambda k: (k[0], place(k[1])))]
        if rows:
            yield Table.of_rows(f"Parameters{ending}", ["benchmark", "method", "ours", "paper"],
                                rows)


@section("time", "Inference time", "Seconds to answer the given number of images on one thread; "
         "the paper's seconds are for the S-CIFAR-10 test set on its own hardware.", place=60)
def inference_time(book: MeasuredRuns) -> Iterator[Table]:
    """Table 8: seconds for the test set, by the size of the buffer."""
    seconds = cost("answer", "seconds")
    for ending, runs, theirs in book.parts("inference_seconds"):
        keys = {key for key, group in runs.items() if ours(group, seconds)}
        # A method whose answers do not depend on the buffer stands in the paper without one.
        idle = {(d, v) for d, sizes in theirs.items() for v in sizes.get("0", {})}
        shown = {(k[0], 0 if (k[0], k[2]) in idle else k[1], k[2]) for k in keys}
        keys |= {(d, int(s), v) for d, sizes in theirs.items() for s, row in sizes.items()
                 for v in row if (d, int(s), v) not in shown}
        rows = []
        for key in sorted(keys, key=lambda k: (k[0], place(k[2]), k[1])):
            found = theirs.get(key[0], {})
            paper = found.get(str(key[1]), {}).get(key[2], found.get("0", {}).get(key[2]))
            rows.append([benchmark(key[0]), name(key[2]), str(key[1] or "-"),
                         constant(runs.get(key), cost("answer", "images")),
                         ours(runs.get(key), seconds, 3), cell(paper)])
        if rows:
            yield Table.of_rows(f"Inference time{ending}", [
                "benchmark", "method", "buffer", "images", "seconds (seeds)", "paper"], rows)
