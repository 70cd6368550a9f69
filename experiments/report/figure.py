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
from experiments.run import BROKEN, Run, is_number, printable

Section = dict[str, Any]
Number = float | None
# Places of a summary whose heat maps share one scale; plugins add theirs.
SCALES: dict[str, list[tuple[str, ...]]] = {"entropy": [("calibration", "by_task", "entropy")]}


@dataclass
class Figure:
    """A picture with what a reader needs beside it.

    Args:
        key: the same measure of two runs has the same key; also part of file names.
        caption: how to read it.
        paper: number in the paper (`fig04a`, `tab05`); empty for what the paper does not have.
        section: under which heading it stands.
        facts: further sentences with this run's numbers.
        claim: what the paper says that this figure shows.
        holds: whether these numbers bear the claim out; None where they cannot say.
    """

    key: str
    title: str
    svg: Svg
    caption: str
    section: str
    paper: str = ""
    facts: str = ""
    claim: str = ""
    holds: bool | None = None

    @property
    def file_name(self) -> str:
        """The paper's number first."""
        return f"{self.paper or 'extra'}-{self.key}"


@dataclass
class Shown:
    """A run on the page.

    Args:
        number: its place on the page.
        lowest: where accuracy scales begin, the same for all runs of a benchmark.
        peers: all runs of the benchmark, whose heat maps share their scales.
    """

    run: Run
    experiment: Experiment
    number: int
    lowest: float
    peers: Sequence[Run] = ()

    @property
    def title(self) -> str:
        """Method, buffer and what else tells it apart, and the seed."""
        return f"{self.experiment.title}, seed {self.run.seed}"

    def span(self, *paths: tuple[str, ...], floor: float | None = None,
             factor: float = 1.0) -> tuple[float, float]:
        """(least, largest) number at places of the summaries of all runs of the benchmark.

        Args:
            floor: instead of the least.
        """
        found = [factor * value for run in (self.run, *self.peers) for path in paths
                 for value in _numbers(run.section(*path))]
        low = min(found, default=0.0) if floor is None else floor
        return low, max(found, default=1.0)


@dataclass
class Methods:
    """The experiments of one benchmark at one buffer size, with a style for each label."""

    dataset: str
    buffer: int | None
    experiments: list[Experiment]
    styles: dict[str, int]

    @property
    def title(self) -> str:
        """Benchmark and buffer."""
        return self.dataset if self.buffer is None else \
            f"{self.dataset}, buffer {self.buffer:,}"

    def sections(self, *path: str) -> Iterator[tuple[str, list[Any]]]:
        """(label, this part of the uncertainty summary of each run that has it), if any has."""
        for one in self.experiments:
            found = [part for run in one.runs if (part := run.section(*path))]
            if found:
                yield one.label, found


def _numbers(part: Any) -> Iterator[float]:
    """Every number in lists of lists."""
    if isinstance(part, list):
        for inner in part:
            yield from _numbers(inner)
    elif is_number(part):
        yield part


Makers = list[tuple[Callable[..., Iterator[Figure]], str]]
_OF_RUNS: Makers = []
_OF_METHODS: Makers = []


def _in_order(makers: Makers) -> Makers:
    """Our own figures first, then those of plugins, whichever were imported first."""
    return sorted(makers, key=lambda entry: not str(entry[0].__module__).startswith("experiments."))


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
    for maker, name in _in_order(_OF_RUNS):
        part = shown.run.section(name) if name else None
        if part or not name:
            figures += _made(maker, (shown, part) if name else (shown,), problems)
    return figures


def figures_of_methods(methods: Methods, problems: list[str]) -> list[Figure]:
    """Everything that puts methods side by side."""
    return [figure for maker, _ in _in_order(_OF_METHODS)
            for figure in _made(maker, (methods,), problems)]


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
