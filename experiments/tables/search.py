"""Searches over ranges of arguments: which value did best on the validation split."""
import statistics
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from engine.errors import UsageError
from experiments.identity import changed_settings, plain, reductions
from experiments.measures import ACCURACY
from experiments.run import Run
from experiments.sweeps.specification import Folders, RunSpec, check
from experiments.tables.paper import ours
from experiments.tables.rows import benchmark, in_order
from experiments.tables.sections import MeasuredRuns, section
from experiments.tables.table import Table, known

_HEADER = ["argument", "value", "validation % (seeds)"]
# (model, dataset, buffer size, protocol: what is held out, and what was reduced besides)
Place = tuple[str, str, int, tuple[tuple[str, str], ...]]


@section("search", "Search of hyperparameters", "Runs of `./run_all.sh tables --validation`: each "
         "argument by itself, the rest as published; the best value in bold.", place=90)
def search(book: MeasuredRuns) -> Iterator[Table]:
    """One table per method and benchmark: every value of every argument that was tried."""
    places: dict[Place, list[Run]] = {}
    for run in book.searched:
        place = (run.model, run.dataset, run.buffer_size or 0, tuple(reductions(run)[0].items()))
        places.setdefault(place, []).append(run)
    for dataset in in_order(place[1] for place in places):
        for place in sorted(p for p in places if p[1] == dataset):
            try:
                yield _table(place, places[place])
            except UsageError as error:
                book.remarks.append(f"a search is left out: {error}")


def _table(place: Place, runs: list[Run]) -> Table:
    """Each argument's values in order, the best in bold, the settings file's own one named."""
    model, dataset, size, protocol = place
    published = _arguments(runs[0], dict(protocol))
    tried: dict[str, dict[Any, list[Run]]] = {}
    untouched: list[Run] = []
    for run in runs:
        given = changed_settings(run)
        args = _arguments(run, given)
        changed = {n: _value(args, n) for n in given if _value(args, n) != _value(published, n)}
        if not changed:
            untouched.append(run)
        else:  # several at once are one argument with several values
            name = ", ".join(changed)
            value = next(iter(changed.values())) if len(changed) == 1 else tuple(changed.values())
            tried.setdefault(name, {}).setdefault(value, []).append(run)
    rows = []
    for name, by_value in sorted(tried.items()):
        parts = tuple(_value(published, n) for n in name.split(", "))
        usual = parts[0] if len(parts) == 1 else parts
        rows += _rows(name, usual, {**by_value, **({usual: untouched} if untouched else {})})
    if not tried:
        rows = [["published settings", "", ours(untouched, ACCURACY)]]
    buffer = f", buffer {size}" if size else ""
    words = ", ".join(f"{n} {v}" + " % of the training data" * (n == "validation")
                      for n, v in protocol)
    return Table.of_rows(f"{model} on {benchmark(dataset)}{buffer}, {words}", _HEADER, rows)


def _rows(name: str, usual: Any, by_value: Mapping[Any, list[Run]]) -> list[list[str]]:
    means = {value: statistics.mean(known([ACCURACY.value(run) for run in group]))
             for value, group in by_value.items()}
    best = max(means, key=lambda value: means[value])
    numbers = all(isinstance(value, int | float) for value in by_value)
    rows = []
    for value in sorted(by_value, key=None if numbers else str):
        text = plain(list(value)) if isinstance(value, tuple) else plain(value)
        cell = ours(by_value[value], ACCURACY)
        rows.append([name, f"{text} (published)".strip() if value == usual else text,
                     f"**{cell}**" if value == best else cell])
    return rows


def _value(args: Namespace, name: str) -> Any:
    value = getattr(args, name)
    return tuple(value) if isinstance(value, list) else value


def _arguments(run: Run, settings: Mapping[str, str]) -> Namespace:
    """All arguments of a run, typed, as main.py would have them."""
    names = {"model": run.model, "dataset": run.dataset, "buffer_size": run.buffer_size,
             "seed": run.seed}
    words = {name: value.split(" ") for name, value in settings.items()}  # lists are joined there
    spec = RunSpec({**names, **words}, Folders.of(".", "results/"))
    check(spec, "a record")
    assert spec.args is not None
    return spec.args
