"""Sections of the page of tables, registered by decorator, in the order of the page."""
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from experiments.identity import Key, by_row, changed_settings, evaluates_only
from experiments.run import Run
from experiments.tables import published
from experiments.tables.table import Table

Runs = dict[Key, list[Run]]


@dataclass
class MeasuredRuns:
    """All runs by protocol.

    Args:
        runs: all of them.
        measured: protocol -> (dataset, buffer size, variant) -> runs, one per seed.
        searched: runs that were judged on a validation split.
        remarks: sentences about what could not be shown.
    """

    runs: list[Run]
    measured: dict[str, Runs]
    searched: list[Run] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, runs: list[Run]) -> "MeasuredRuns":
        """Sort runs by protocol; the full one is always there, measured or not."""
        runs = [run for run in runs if not evaluates_only(run)]
        searched = [run for run in runs if "validation" in changed_settings(run)]
        tested = [run for run in runs if "validation" not in changed_settings(run)]
        measured: dict[str, Runs] = {"": {}}
        for (protocol, dataset, size, variant), group in by_row(tested).items():
            measured.setdefault(protocol, {})[dataset, size, variant] = group
        return cls(runs, measured, searched)

    def parts(self, kind: str) -> Iterator[tuple[str, Runs, dict[str, Any]]]:
        """(title's end, runs, published figures) of the full protocol, then of reduced ones."""
        for protocol, runs in self.measured.items():
            yield (f" (reduced protocol: {protocol})", runs, {}) if protocol else \
                ("", runs, published.figures(kind))


Builder = Callable[[MeasuredRuns], Iterator[Table]]


@dataclass(frozen=True)
class Section:
    """A heading with its tables.

    Args:
        note: what a reader must know, below the heading.
        terms: (word of the tables, name of the measure or term that it stands for).
    """

    title: str
    build: Builder
    note: str = ""
    terms: tuple[tuple[str, str], ...] = ()
    place: float = 80


_SECTIONS: dict[str, Section] = {}


def section(key: str, title: str, note: str = "", terms: tuple[tuple[str, str], ...] = (),
            place: float = 80) -> Callable[[Builder], Builder]:
    """Decorator: a function from a book to tables becomes a section.

    Args:
        key: for `--only`.
        place: where it stands; 0 is the top of the page, 100 the end.
    """

    def decorate(build: Builder) -> Builder:
        _SECTIONS[key] = Section(title, build, note, terms, place)
        return build

    return decorate


def sections() -> dict[str, Section]:
    """All sections by key, in the order of the page."""
    return dict(sorted(_SECTIONS.items(), key=lambda item: item[1].place))
