"""Heat maps: a matrix as coloured cells, with its numbers where they fit."""
import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from experiments.report.svg import EM, Svg, num, short, text
from experiments.report.theme import LEVELS
from experiments.run import is_number

Matrix = Sequence[Sequence[Any]]  # what is no number is an empty cell
_MOST_NUMBERS = 100  # columns; a wider map shows colours alone


def level(value: float, low: float, high: float) -> int:
    """Which of the scale's colours a value has."""
    share = (value - low) / (high - low) if high > low else 0.5
    return min(max(round(share * (LEVELS - 1)), 0), LEVELS - 1)


def cell_text(value: float, digits: int) -> str:
    """A cell's number, without decimals from a hundred on."""
    return f"{value:.{0 if abs(value) >= 99.95 else digits}f}".replace("-", "\u2212")


def scale_bar(x: float, y: float, width: float, low: float, high: float, scale: str) -> str:
    """The colours from low to high with their values."""
    step = width / LEVELS
    cells = "".join(f'<path class="{scale}{i}" d="M{num(x + i * step)} {num(y)}'
                    f'H{num(x + width)}v8H{num(x + i * step)}z"/>' for i in range(LEVELS))
    return (text(x - 5, y + 8, short(low), "m e n") + cells
            + text(x + width + 5, y + 8, short(float(f"{high:.3g}")), "m n"))


def every(names: Sequence[str], room: float) -> int:
    """Show each n-th name so that none touch."""
    longest = max((len(str(n)) for n in names), default=1)
    return max(1, math.ceil((EM * longest + 4) / room))


class Grid:
    """Where cells lie: sizes follow the number of columns and what they must hold.

    Whole, even numbers of pixels: then a cell's coordinates are short.
    """

    def __init__(self, rows: int, columns: int, widest: int, numbers: bool, left: float) -> None:
        if numbers:
            self.w = 2 * math.ceil(max(5.3 * widest + 6, 24, min(40, 300 / columns)) / 2)
            self.h = 26 if columns <= 8 else 20
        else:
            self.w = self.h = 2 * max(2, min(12, 150 // max(rows, columns)))
        self.left, self.top = math.ceil(left), 38
        self.width: float = max(self.left + columns * self.w + 10, 250)
        self.middle = self.left + columns * self.w / 2
        self.bottom = self.top + rows * self.h

    def make_room(self, xlabel: str, ylabel: str, columns: int) -> None:
        """Let the axes' names fit, also where they are longer than the cells are wide."""
        half = EM * len(xlabel) / 2 + 4
        self.middle = max(self.left + columns * self.w / 2, half)
        self.width = max(self.width, self.middle + half, 8 + EM * len(ylabel))


def heat(matrix: Matrix, xlabel: str, ylabel: str, *, low: float | None = None,
         high: float | None = None, digits: int = 1, scale: str = "p", numbers: bool = True,
         rows: Sequence[str] | None = None, columns: Sequence[str] | None = None,
         mark_diagonal: bool = False, label: str = "") -> Svg:
    """A matrix as a picture; rows may be shorter than the longest, None is an empty cell.

    Args:
        matrix: values, the first row on top.
        low, high: the values of the scale's ends (the matrix's own unless given).
        rows, columns: names (1, 2, ... unless given).
        mark_diagonal: outline the cells (i, i).
    """
    values = [v for row in matrix for v in row if is_number(v)]
    low = min(values, default=0.0) if low is None else low
    high = max(values, default=1.0) if high is None else high
    n_columns = max((len(row) for row in matrix), default=1)
    numbers = numbers and n_columns <= _MOST_NUMBERS
    rows = rows or [str(i + 1) for i in range(len(matrix))]
    columns = columns or [str(j + 1) for j in range(n_columns)]
    widest = max((len(cell_text(v, digits)) for v in values), default=1)
    left = 16 + EM * max((len(str(n)) for n in rows), default=1)
    grid = Grid(len(matrix), max(n_columns, 1), widest, numbers, left)
    parts = _cells(matrix, grid, low, high, digits, scale, numbers)
    if mark_diagonal:
        parts.append('<path class="z" d="' + "".join(
            f"M{grid.left + i * grid.w} {grid.top + i * grid.h}h{grid.w}v{grid.h}h-{grid.w}z"
            for i in range(min(len(matrix), n_columns))) + '"/>')
    grid.make_room(xlabel, ylabel, len(columns))
    parts += _names(grid, rows, columns, xlabel, ylabel)
    parts.append(scale_bar(10 + 5.6 * len(short(low)), 4, 110, low, high, scale))
    return Svg(grid.width, grid.bottom + 38, "".join(parts), label or f"{ylabel} by {xlabel}")


def _cells(matrix: Matrix, grid: Grid, low: float, high: float, digits: int, scale: str,
           numbers: bool) -> list[str]:
    """Cells of one level share a path and their numbers a group, which keeps the page small."""
    shapes: dict[int, list[str]] = {}
    words: dict[int, list[str]] = {}
    middle = grid.h // 2 + 3
    for i, row in enumerate(matrix):
        levels = [level(v, low, high) if is_number(v) else None for v in row]
        for colour, j, width in _stretches(levels):
            shapes.setdefault(colour, []).append(f"M{j} {i}h{width}v1h-{width}z")
        for j, (at, value) in enumerate(zip(levels, row, strict=True)):
            if numbers and at is not None:
                x, y = grid.left + j * grid.w + grid.w // 2, grid.top + i * grid.h + middle
                words.setdefault(at, []).append(
                    f'<text x="{x}" y="{y}">{cell_text(value, digits)}</text>')
    cells = "".join(f'<path class="{scale}{at}" d="{"".join(found)}"/>'
                    for at, found in shapes.items())
    parts = [f'<g transform="translate({grid.left} {grid.top}) scale({grid.w} {grid.h})" '
             f'shape-rendering="crispEdges">{cells}</g>']
    if numbers:
        columns = max((len(row) for row in matrix), default=0)
        lines = "".join(f"M{grid.left + j * grid.w} {grid.top}V{grid.bottom}"
                        for j in range(columns + 1))
        lines += "".join(f"M{grid.left} {grid.top + i * grid.h}H{grid.left + columns * grid.w}"
                         for i in range(len(matrix) + 1))
        parts.append(f'<path class="y" d="{lines}"/>')
    return parts + [f'<g class="c n {scale}{at}t">{"".join(found)}</g>'
                    for at, found in words.items()]


def _stretches(levels: Sequence[int | None]) -> Iterator[tuple[int, int, int]]:
    """(level, first column, columns) of neighbours with one colour."""
    start = 0
    for at, found in groupby(levels):
        width = len(list(found))
        if at is not None:
            yield at, start, width
        start += width


def _names(grid: Grid, rows: Sequence[str], columns: Sequence[str], xlabel: str,
           ylabel: str) -> list[str]:
    parts: list[str] = []
    step = every(["0"], grid.h / 1.6)
    parts += [text(grid.left - 5, grid.top + i * grid.h + grid.h / 2 + 3.6, name, "m e")
              for i, name in enumerate(rows) if i % step == 0]
    step = every(columns, grid.w)
    parts += [text(grid.left + (j + 0.5) * grid.w, grid.bottom + 14, name, "m c")
              for j, name in enumerate(columns) if j % step == 0]
    parts.append(text(grid.middle, grid.bottom + 31, xlabel, "c"))
    parts.append(text(4, grid.top - 7, ylabel))
    return parts
