"""What a figure is, and how functions become figures: registered by decorator.

    @run_figure()                  def maker(shown: Shown) -> Iterator[Figure]
    @run_figure("calibration")     def maker(shown: Shown, section: Section) -> Iterator[Figure]
    @comparison_figure             def maker(methods: Methods) -> Iterator[Figure]

A maker of one run with a section's name is called for the runs whose uncertainty summary has that
section. A maker that fails, because a file has another form than documented, is told and left out.
"""
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.identity import Experiment
from experiments.report.svg import Svg, num
from experiments.run import BROKEN, Run, printable

Section = dict[str, Any]
Number = float | None


@dataclass
class Figure:
    """A picture with what a reader needs beside it.

    Args:
        key: the same measure of two runs has the same key; also part of file names.
        caption: how to read it.
        paper: number in the paper (`fig04a`, `tab05`); empty for what the paper does not have.
        section: under which heading it stands.
        facts: further sentences with this run's numbers.
    """

    key: str
    title: str
    svg: Svg
    caption: str
    section: str
    paper: str = ""
    facts: str = ""

    @property
    def file_name(self) -> str:
        """The paper's number first."""
        return f"{self.paper or 'extra'}-{self.key}"


@dataclass
class Shown:
    """A run on the page.

    Args:
        number: its place on the page.
        lowest: setting -> where accuracy scales begin, the same for all runs of a benchmark.
    """

    run: Run
    experiment: Experiment
    number: int
    lowest: dict[str, float]

    @property
    def title(self) -> str:
        """Method, buffer and what else tells it apart, and the seed."""
        return f"{self.experiment.title}, seed {self.run.seed}"


@dataclass
class Methods:
    """The experiments of one benchmark at one buffer size, with a style for each label."""

    dataset: str
    buffer: int | None
    experiments: list[Experiment]
    styles: dict[str, int]

    def sections(self, *path: str) -> Iterator[tuple[str, list[Any]]]:
        """(label, this part of the uncertainty summary of each run that has it), if any has."""
        for one in self.experiments:
            found = [part for run in one.runs if (part := run.section(*path))]
            if found:
                yield one.label, found


Makers = list[tuple[Callable[..., Iterator[Figure]], str]]
_OF_RUNS: Makers = []
_OF_METHODS: Makers = []


def run_figure(section: str = "") -> Callable[[Callable[..., Iterator[Figure]]],
                                              Callable[..., Iterator[Figure]]]:
    """Decorator for a maker of figures of one run.

    Args:
        section: the part of the uncertainty summary that it draws; it gets it as second argument.
    """

    def decorate(maker: Callable[..., Iterator[Figure]]) -> Callable[..., Iterator[Figure]]:
        _OF_RUNS.append((maker, section))
        return maker

    return decorate


def comparison_figure(maker: Callable[[Methods], Iterator[Figure]]
                      ) -> Callable[[Methods], Iterator[Figure]]:
    """Decorator for a maker of figures that put methods side by side."""
    _OF_METHODS.append((maker, ""))
    return maker


def figures_of_run(shown: Shown, problems: list[str]) -> list[Figure]:
    """Everything that can be drawn of one run."""
    figures: list[Figure] = []
    for maker, name in _OF_RUNS:
        part = shown.run.section(name) if name else None
        if part or not name:
            figures += _made(maker, (shown, part) if name else (shown,), problems)
    return figures


def figures_of_methods(methods: Methods, problems: list[str]) -> list[Figure]:
    """Everything that puts methods side by side."""
    return [figure for maker, _ in _OF_METHODS for figure in _made(maker, (methods,), problems)]


def _made(maker: Callable[..., Iterator[Figure]], subject: tuple[Any, ...],
          problems: list[str]) -> list[Figure]:
    try:
        return list(maker(*subject))
    except BROKEN as error:
        problems.append(f"{maker.__name__.replace('_', ' ')}: the summary has another form than "
                        f"documented ({printable(f'{type(error).__name__}: {error}')[:200]}), left "
                        "out.")
        return []


def percent(values: Iterable[Number]) -> list[Number]:
    """Fractions as percentages, the unknown kept."""
    return [None if value is None else 100 * value for value in values]


def percent_rows(rows: Iterable[Iterable[Number]]) -> list[list[Number]]:
    """The same for a matrix."""
    return [percent(row) for row in rows]


def number(value: object, digits: int = 3) -> str:
    """A number for a sentence."""
    if not isinstance(value, int | float):
        return "undefined"
    if value and abs(value) < 10 ** (1 - digits):
        return f"{value:.2g}".replace("-", "\u2212")
    return f"{value:.{digits}f}".replace("-", "\u2212")


def stacked(first: Svg, second: Svg, gap: float = 0) -> Svg:
    """One picture under the other."""
    body = f'{first.body}<g transform="translate(0 {num(first.height + gap)})">{second.body}</g>'
    return Svg(max(first.width, second.width), first.height + gap + second.height, body,
               first.label)


def tiled(pictures: Sequence[Svg], columns: int, label: str) -> Svg:
    """Pictures of one size in rows."""
    wide, high = max(p.width for p in pictures), max(p.height for p in pictures)
    body = "".join(f'<g transform="translate({num(i % columns * wide)} '
                   f'{num(i // columns * high)})">{p.body}</g>' for i, p in enumerate(pictures))
    rows = -(-len(pictures) // columns)
    return Svg(wide * min(columns, len(pictures)), high * rows, body, label)
