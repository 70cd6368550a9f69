"""The tables that readers see first: methods against benchmarks, and every setting in one list."""
import statistics
from collections.abc import Iterable, Iterator
from typing import Any

from experiments.tables.paper import (
    DATASETS,
    Book,
    Group,
    Key,
    Table,
    accuracy,
    in_order,
    name,
    place,
)
from experiments.tables.records import groups, paper_cell
from utils.tables import aligned, spread

_METHODS = ("joint", "sgd", "er", "icarl", "der", "derpp", "np", "anp", "st_npcl", "npcl",
            "npcl_plus")
_SIZES = (200, 500, 2000)
_LIST_HEADER = ["dataset", "buffer", "method", "ours %", "paper %", "our BWT", "paper BWT",
                "s a run", "seeds"]


def headline(book: Book) -> Iterator[Table]:
    """Accuracy of the methods that people ask for first; what was reduced alike stands apart."""
    for ending, runs, theirs in book.parts("accuracy"):
        measured = [key for key in runs if key[1] in (0, *_SIZES)
                    and (ending or key[2] in _METHODS)]
        for setting in ("domain-il", "class-il"):
            keys = [key for key in measured if runs[key][0]["setting"] == setting]
            variants = sorted({key[2] for key in keys}, key=place)
            if len(variants) > 1 and any(key[1] for key in keys):
                yield _pivot(f"{setting.title().replace('Il', 'IL')} accuracy, %{ending}",
                             runs, theirs, keys, variants)


def _pivot(title: str, runs: dict[Key, Group], theirs: dict[str, Any], keys: list[Key],
           variants: list[str]) -> Table:
    """A row a method, a column a benchmark and buffer, the paper's figure where it has one."""
    header, columns = ["method"], [[name(v) for v in variants]]
    for dataset in in_order(key[0] for key in keys):
        for size in sorted({key[1] for key in keys if key[0] == dataset} & set(_SIZES)):
            # What has no buffer stands in the column of every buffer.
            header.append(f"{DATASETS.get(dataset, dataset)} {size}")
            columns.append(_best_in_bold(variants, [
                runs.get((dataset, size, v)) or runs.get((dataset, 0, v), []) for v in variants]))
            paper = {**theirs.get(dataset, {}).get("0", {}),
                     **theirs.get(dataset, {}).get(str(size), {})}
            figures = [paper_cell(paper.get(v)) for v in variants]
            if any(figures):
                header.append("paper")
                columns.append(figures)
    return Table(title, header, [list(row) for row in zip(*columns, strict=True)])


def _best_in_bold(variants: list[str], measured: list[Group]) -> list[str]:
    """Mean ± sd of each method; the best in bold, joint training (the upper bound) aside."""
    values = [[accuracy(run) for run in group] for group in measured]
    means = [statistics.mean(v) if v and variant != "joint" else -1.0
             for variant, v in zip(variants, values, strict=True)]
    texts = [spread(v) if v else "" for v in values]
    best = means.index(max(means))
    return [f"**{text}**" if i == best else text for i, text in enumerate(texts)]


def all_settings(records: Iterable[dict[str, Any]], paper: dict[str, Any]) -> str:
    """One row a setting: ours and the paper's accuracy and backward transfer, time, seeds."""
    rows = []
    for (reduced, dataset, size, variant), group in sorted(groups(records).items()):
        theirs = [[] if reduced else paper[kind].get(dataset, {}).get(str(size), {}).get(
            variant, []) for kind in ("accuracy", "backward_transfer")]
        mine = [[accuracy(run) for run in group], [run.get("backward_transfer") for run in group]]
        row = [dataset, str(size or "-"), name(variant) + (f" ({reduced})" if reduced else "")]
        for values, figures in zip(mine, theirs, strict=True):
            row += [spread(values), paper_cell(figures) or "-"]
        rows.append([*row, f"{statistics.mean(run['seconds'] for run in group):.0f}",
                     str(len(group))])
    return aligned(_LIST_HEADER, rows, markdown=True)
