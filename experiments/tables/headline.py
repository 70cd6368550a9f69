"""The tables that readers see first: methods against benchmarks, and every setting in one list."""
import statistics
from collections.abc import Iterable, Iterator
from typing import Any

from engine.tables import spread
from experiments.identity import Key, by_row
from experiments.measures import ACCURACY, BACKWARD_TRANSFER, SECONDS
from experiments.run import Run
from experiments.tables.published import cell, figures
from experiments.tables.rows import benchmark, first_rows, in_order, name, place
from experiments.tables.sections import MeasuredRuns, Runs, section
from experiments.tables.table import Table, known

_SIZES = (200, 500, 2000)
_UPPER_BOUND = "joint"
_LIST_HEADER = ["dataset", "buffer", "method", "ours %", "paper %", "our BWT", "paper BWT",
                "s a run", "seeds"]


@section("headline", "Headline",
         "Mean ± sd over the seeds; the best of each column in bold, joint training aside.",
         place=0)
def headline(book: MeasuredRuns) -> Iterator[Table]:
    """Accuracy of the methods that people ask for first; what was reduced alike stands apart."""
    for ending, runs, theirs in book.parts("accuracy"):
        measured = [key for key in runs if key[1] in (0, *_SIZES)
                    and (ending or key[2] in first_rows())]
        for setting in ("domain-il", "class-il"):
            keys = [key for key in measured if runs[key][0].setting == setting]
            variants = sorted({key[2] for key in keys}, key=place)
            if len(variants) > 1 and any(key[1] for key in keys):
                yield pivot(f"{setting.title().replace('Il', 'IL')} accuracy, %{ending}",
                             runs, theirs, keys, variants)


def pivot(title: str, runs: Runs, theirs: dict[str, Any], keys: list[Key],
           variants: list[str]) -> Table:
    """A row per method, a column per benchmark and buffer, the paper's figure where it has one."""
    header, columns = ["method"], [[name(v) for v in variants]]
    for dataset in in_order(key[0] for key in keys):
        for size in sorted({key[1] for key in keys if key[0] == dataset} & set(_SIZES)):
            # What has no buffer stands in the column of every buffer.
            header.append(f"{benchmark(dataset)} {size}")
            columns.append(_best_in_bold(variants, [
                runs.get((dataset, size, v)) or runs.get((dataset, 0, v), []) for v in variants]))
            paper = {**theirs.get(dataset, {}).get("0", {}),
                     **theirs.get(dataset, {}).get(str(size), {})}
            published = [cell(paper.get(v)) for v in variants]
            if any(published):
                header.append("paper")
                columns.append(published)
    return Table.of_rows(title, header, [list(row) for row in zip(*columns, strict=True)])


def _best_in_bold(variants: list[str], measured: list[list[Run]]) -> list[str]:
    """Mean ± sd of each method; the best in bold, joint training (the upper bound) aside."""
    values = [known([ACCURACY.value(run) for run in group]) for group in measured]
    means = [statistics.mean(v) if v and variant != _UPPER_BOUND else -1.0
             for variant, v in zip(variants, values, strict=True)]
    texts = [spread(v) if v else "" for v in values]
    best = means.index(max(means))
    return [f"**{text}**" if i == best else text for i, text in enumerate(texts)]


def all_settings(runs: Iterable[Run]) -> str:
    """One row per setting: ours and the paper's accuracy and backward transfer, time, seeds."""
    rows = []
    for (reduced, dataset, size, variant), group in sorted(by_row(runs).items()):
        row = [dataset, str(size or "-"), name(variant) + (f" ({reduced})" if reduced else "")]
        for measure in (ACCURACY, BACKWARD_TRANSFER):
            theirs = [] if reduced else figures(measure.name).get(dataset, {}).get(
                str(size), {}).get(variant, [])
            row += [spread([measure.value(run) for run in group]), cell(theirs) or "-"]
        seconds = known([SECONDS.value(run) for run in group])
        rows.append([*row, f"{statistics.mean(seconds):.0f}" if seconds else "-",
                     str(len(group))])
    return Table.of_rows("All settings", _LIST_HEADER, rows).markdown()
