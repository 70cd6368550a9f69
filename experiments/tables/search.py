"""Searches over ranges of arguments: which value did best on the validation split."""
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from experiments.sweeps.specification import Folders, RunSpec, check
from experiments.tables.paper import DATASETS, Book, Group, Table, accuracy, in_order, ours
from experiments.tables.records import plain, reductions, settings_of

_HEADER = ["argument", "value", "validation % (seeds)"]
# (model, dataset, buffer size, protocol: what is held out, and what was reduced besides)
Place = tuple[str, str, int, tuple[tuple[str, str], ...]]


def search(book: Book) -> Iterator[Table]:
    """One table a method and benchmark: every value of every argument that was tried."""
    places: dict[Place, Group] = {}
    for record in book.searched:
        place = (record["model"], record["dataset"], record["buffer_size"] or 0,
                 tuple(reductions(record)[0].items()))
        places.setdefault(place, []).append(record)
    for dataset in in_order(place[1] for place in places):
        for place in sorted(p for p in places if p[1] == dataset):
            yield _table(place, places[place])


def _table(place: Place, records: Group) -> Table:
    """Each argument's values in order, the best in bold, the settings file's own one named."""
    model, dataset, size, protocol = place
    published = _arguments(records[0], dict(protocol))
    tried: dict[str, dict[Any, Group]] = {}
    untouched: Group = []
    for record in records:
        given = settings_of(record)
        args = _arguments(record, given)
        changed = {n: _value(args, n) for n in given if _value(args, n) != _value(published, n)}
        if not changed:
            untouched.append(record)
        else:  # several at once are one argument with several values
            name = ", ".join(changed)
            value = next(iter(changed.values())) if len(changed) == 1 else tuple(changed.values())
            tried.setdefault(name, {}).setdefault(value, []).append(record)
    rows = []
    for name, by_value in sorted(tried.items()):
        usual = tuple(_value(published, n) for n in name.split(", "))
        usual = usual[0] if len(usual) == 1 else usual
        rows += _rows(name, usual, {**by_value, **({usual: untouched} if untouched else {})})
    if not tried:
        rows = [["published settings", "", ours(untouched, accuracy)]]
    buffer = f", buffer {size}" if size else ""
    words = ", ".join(f"{n} {v}" + " % of the training data" * (n == "validation")
                      for n, v in protocol)
    return Table(f"{model} on {DATASETS.get(dataset, dataset)}{buffer}, {words}", _HEADER, rows)


def _rows(name: str, usual: Any, by_value: dict[Any, Group]) -> list[list[str]]:
    means = {value: sum(map(accuracy, group)) / len(group) for value, group in by_value.items()}
    best = max(means, key=means.get)
    numbers = all(isinstance(value, int | float) for value in by_value)
    rows = []
    for value in sorted(by_value, key=None if numbers else str):
        text = plain(list(value)) if isinstance(value, tuple) else plain(value)
        cell = ours(by_value[value], accuracy)
        rows.append([name, f"{text} (published)".strip() if value == usual else text,
                     f"**{cell}**" if value == best else cell])
    return rows


def _value(args: Namespace, name: str) -> Any:
    value = getattr(args, name)
    return tuple(value) if isinstance(value, list) else value


def _arguments(record: dict[str, Any], settings: dict[str, Any]) -> Namespace:
    """All arguments of a run, typed, as main.py would have them."""
    names = {name: record[name] for name in ("model", "dataset", "buffer_size", "seed")}
    words = {name: value.split(" ") for name, value in settings.items()}  # lists are joined there
    spec = RunSpec({**names, **words}, Folders.of(".", "results/"))
    check(spec, "a record")
    return spec.args
