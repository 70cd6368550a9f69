"""Small pieces of SVG as strings: axes with ticks, lines, bands, points, bars, histograms, legends.

Coordinates are rounded to a tenth of a pixel, which keeps a report of many figures small.
Series differ by colour, by dash and by marker, so nothing rests on colour alone.
"""
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

from experiments.report.theme import N_SERIES, light_rules
from experiments.run import is_number

Span = tuple[float, float]  # low, high
Legend = Sequence[tuple[str, int]]  # label, style
Ticks = Sequence[tuple[float, str]]  # value, label
Points = Sequence[tuple[Any, Any]]  # what is no number is not drawn
DASHES = ("", "6 3", "2 3", "8 3 2 3")
EM = 11 * 0.56  # mean width of a character of the 11 px text


def esc(text: object) -> str:
    """Text for HTML or SVG, quotes included."""
    return escape(str(text), quote=True)


def slug(text: object) -> str:
    """A part of a file name: letters, digits and dashes."""
    return re.sub(r"[^A-Za-z0-9]+", "-", str(text)).strip("-").lower() or "run"


def num(value: float) -> str:
    """A coordinate, one decimal, no `-0` and no trailing zero."""
    text = f"{value:.1f}"
    text = text[:-2] if text.endswith(".0") else text
    return "0" if text == "-0" else text


def finite(values: Iterable[Any]) -> list[float]:
    """Those that can be drawn."""
    return [v for v in values if is_number(v)]


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers inside [low, high], about `count` of them."""
    if not high > low:
        return [low]
    raw = (high - low) / max(count, 1)
    unit = 10 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """A number for a tick: up to four significant digits, thousands apart, a true minus sign."""
    if 1000 <= abs(value) < 1e7 and float(value).is_integer():
        return f"{int(value):,}".replace("-", "\u2212")
    text = f"{value:.4g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{mantissa}e{int(exponent)}"
    return text.replace("-", "\u2212")


def domain(values: Iterable[Any], pad: float = 0.06, floor: float | None = None,
           ceiling: float | None = None) -> Span:
    """(low, high) around the values, a little wider, inside floor and ceiling."""
    known = finite(values)
    if not known:
        return (0.0, 1.0)
    low, high = min(known), max(known)
    room = pad * (high - low) or 0.1 * abs(high) or 1.0
    low = low - room if floor is None else max(low - room, floor)
    high = high + room if ceiling is None else min(high + room, ceiling)
    return (low, high) if low < high else (low, low + room)


@dataclass
class Svg:
    """A finished picture: its natural size and what is inside."""

    width: float
    height: float
    body: str
    label: str = ""

    def inline(self) -> str:
        """For the page: as wide as its box, hardly narrower or wider than it was drawn."""
        return (f'<svg class="fig" role="img" aria-label="{esc(self.label)}" '
                f'viewBox="0 0 {num(self.width)} {num(self.height)}" '
                f'style="min-width:{num(0.85 * self.width)}px;'
                f'max-width:{num(1.15 * self.width)}px">'
                f"{self.body}</svg>")

    def standalone(self) -> str:
        """A file of its own, with explicit light colours."""
        return ('<?xml version="1.0" encoding="UTF-8"?>\n'
                '<svg xmlns="http://www.w3.org/2000/svg" class="fig" '
                f'width="{num(self.width)}" height="{num(self.height)}" '
                f'viewBox="0 0 {num(self.width)} {num(self.height)}">'
                f"<title>{esc(self.label)}</title><style>{light_rules()}</style>"
                f'<rect width="100%" height="100%" fill="#ffffff"/>{self.body}</svg>\n')


def text(x: float, y: float, words: object, classes: str = "") -> str:
    """A text element."""
    return f'<text x="{num(x)}" y="{num(y)}" class="{classes}">{esc(words)}</text>'


def shape(x: float, y: float, style: int, size: float = 3.2, title: str = "") -> str:
    """A point whose form belongs to the series; its colour comes from what it stands in."""
    tip = f"<title>{esc(title)}</title>" if title else ""
    kind = (style + style // N_SERIES) % 4
    if kind == 0:
        return f'<circle cx="{num(x)}" cy="{num(y)}" r="{num(size)}">{tip}</circle>'
    r = 1.25 * size
    if kind == 1:
        r, side = 0.88 * size, 1.75 * size
        path = f"M{num(x - r)} {num(y - r)}h{num(side)}v{num(side)}h-{num(side)}z"
    elif kind == 2:
        path = f"M{num(x)} {num(y - r)}l{num(r)} {num(1.8 * r)}h-{num(2 * r)}z"
    else:
        path = f"M{num(x)} {num(y - r)}l{num(r)} {num(r)}l-{num(r)} {num(r)}l-{num(r)} -{num(r)}z"
    return f'<path d="{path}">{tip}</path>'


def coloured(shapes: str, style: int) -> str:
    """Shapes in a series' colour."""
    return f'<g class="p o s{style % N_SERIES}">{shapes}</g>'


def legend_rows(entries: Legend, width: float) -> list[list[tuple[str, int, float]]]:
    """Split (label, style) entries into rows that fit the width."""
    rows: list[list[tuple[str, int, float]]] = [[]]
    used = 0.0
    for label, style in entries:
        need = 26 + EM * len(label) + 12
        if rows[-1] and used + need > width:
            rows.append([])
            used = 0.0
        rows[-1].append((label, style, used))
        used += need
    return rows if entries else []


class Plot:
    """A chart with two linear axes; draw into it, then `svg()`.

    Args:
        x, y: what the axes cover, (low, high).
        xlabel, ylabel: under the x axis; above the y axis, level, so that it reads at once.
        xticks, yticks: [(value, label)] instead of round numbers; a label may have two lines.
        legend: [(label, style)]; a style is a number that fixes colour, dash and marker.
        filled: the legend shows squares (bars) instead of lines.
    """

    def __init__(self, x: Span, y: Span, xlabel: str, ylabel: str, *, xticks: Ticks | None = None,
                 yticks: Ticks | None = None, legend: Legend = (), width: float = 340,
                 height: float = 210, left: float = 44, filled: bool = False,
                 label: str = "") -> None:
        self.x, self.y, self.width = x, y, width
        rows = legend_rows(legend, width - 8)
        self.left, self.right = left, width - 12
        self.top = 24 + 17 * len(rows) + (4 if rows else 0)
        self.bottom = self.top + height
        self.height = self.bottom + 38
        self.label = label or f"{ylabel} by {xlabel}"
        self.parts: list[str] = []
        self._guided: list[tuple[float, float]] = []  # left end and height of guides' words
        for i, row in enumerate(rows):
            self.parts += [self._key(4 + at, 13 + 17 * i, name, style, filled)
                           for name, style, at in row]
        self._axes(xlabel, ylabel, xticks, yticks)

    def _key(self, x: float, y: float, name: str, style: int, filled: bool) -> str:
        if filled:
            sign = f'<rect class="p s{style % N_SERIES}" x="{num(x + 4)}" y="{num(y - 9)}" ' \
                   'width="12" height="10" rx="2"/>'
        else:
            sign = self._path([(x, y - 4), (x + 20, y - 4)], style) + coloured(
                shape(x + 10, y - 4, style), style)
        return sign + text(x + 25, y, name)

    def _axes(self, xlabel: str, ylabel: str, xticks: Ticks | None,
              yticks: Ticks | None) -> None:
        xticks = xticks or [(v, short(v)) for v in ticks(*self.x, 6)]
        yticks = yticks or [(v, short(v)) for v in ticks(*self.y, 5)]
        lines = "".join(f"M{num(self.left)} {num(self.py(v))}H{num(self.right)}"
                        for v, _ in yticks)
        self.parts.append(f'<path class="g" d="{lines}"/>')
        self.parts.append(f'<path class="a" d="M{num(self.left)} {num(self.bottom)}'
                          f'H{num(self.right)}"/>')
        self.parts += [text(self.left - 6, self.py(v) + 4, name, "m e") for v, name in yticks]
        room = (self.right - self.left) / max(len(xticks), 1)
        longest = max((len(line) for _, n in xticks for line in n.split("\n")), default=1)
        every = math.ceil((EM * longest + 5) / room)
        self.parts += [text(min(self.px(v), self.width - EM * len(line) / 2), self.bottom + 15
                            + 13 * k, line, "m c")
                       for i, (v, name) in enumerate(xticks) if i % every == 0
                       for k, line in enumerate(name.split("\n"))]
        self.parts += [text(x, y, words, kind) for x, y, words, kind in (
            ((self.left + self.right) / 2, self.bottom + 31, xlabel, "c"),
            (4, self.top - 10, ylabel, "")) if words]

    def px(self, value: float) -> float:
        """Where an x value lies."""
        low, high = self.x
        return self.left + (self.right - self.left) * (value - low) / ((high - low) or 1)

    def py(self, value: float) -> float:
        """Where a y value lies."""
        low, high = self.y
        return self.bottom - (self.bottom - self.top) * (value - low) / ((high - low) or 1)

    @staticmethod
    def _path(points: Sequence[tuple[float, float]], style: int, dash: str | None = None) -> str:
        dash = DASHES[(style // N_SERIES) % len(DASHES)] if dash is None else dash
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        steps = "L".join(f"{num(x)} {num(y)}" for x, y in points)
        return f'<path class="l s{style % N_SERIES}"{extra} d="M{steps}"/>'

    def line(self, points: Points, style: int, dots: bool = True, tips: Sequence[str] | None = None,
             dash: str | None = None) -> "Plot":
        """Joined points; a value that cannot be drawn breaks the line."""
        parts: list[list[tuple[float, float]]] = [[]]
        for x, y in points:
            if is_number(x) and is_number(y):
                parts[-1].append((self.px(x), self.py(y)))
            elif parts[-1]:
                parts.append([])
        self.parts += [self._path(part, style, dash) for part in parts if len(part) > 1]
        if dots or any(len(part) == 1 for part in parts):
            self.dots(points, style, tips)
        return self

    def dots(self, points: Points, style: int, tips: Sequence[str] | None = None,
             size: float = 3.2) -> "Plot":
        """Points alone, with what hovering tells."""
        found = "".join(
            shape(self.px(x), self.py(y), style, size, tips[i] if tips else
                  f"{short(x)}: {short(y)}")
            for i, (x, y) in enumerate(points) if len(finite((x, y))) == 2)
        self.parts.append(coloured(found, style))
        return self

    def specks(self, points: Points, style: int) -> "Plot":
        """Many small points as one path."""
        path = "".join(f"M{num(self.px(x))} {num(self.py(y))}h0" for x, y in points
                       if len(finite((x, y))) == 2)
        self.parts.append(f'<path class="k l s{style % N_SERIES}" d="{path}"/>')
        return self

    def band(self, points: Iterable[tuple[Any, Any, Any]], style: int) -> "Plot":
        """The area between two curves, from (x, low, high), inside the axes."""
        bottom, top = self.y
        known = [(x, max(low, bottom), min(high, top)) for x, low, high in
                 (p for p in points if len(finite(p)) == 3)]
        if len(known) > 1:
            edge = [(self.px(x), self.py(high)) for x, _, high in known]
            edge += [(self.px(x), self.py(low)) for x, low, _ in reversed(known)]
            path = "L".join(f"{num(x)} {num(y)}" for x, y in edge)
            self.parts.append(f'<path class="w s{style % N_SERIES}" d="M{path}Z"/>')
        return self

    def backdrop(self, points: Points) -> "Plot":
        """A faint line to compare with."""
        steps = "L".join(f"{num(self.px(x))} {num(self.py(y))}" for x, y in points
                         if len(finite((x, y))) == 2)
        if steps:
            self.parts.append(f'<path class="v" d="M{steps}"/>')
        return self

    @contextmanager
    def series(self, name: str) -> Iterator[None]:
        """What is drawn inside belongs to this method: the page's filter can set it apart."""
        before, self.parts = self.parts, []
        yield
        self.parts = [*before, f'<g data-line="{esc(name)}">{"".join(self.parts)}</g>']

    def steps(self, edges: Sequence[float], values: Sequence[Any], style: int) -> "Plot":
        """A histogram's outline with a tint under it."""
        path = f"M{num(self.px(edges[0]))} {num(self.py(0))}" + "".join(
            f"V{num(self.py(v if finite([v]) else 0))}H{num(self.px(right))}"
            for v, right in zip(values, edges[1:], strict=True)) + f"V{num(self.py(0))}"
        self.parts += [f'<path class="{kind} s{style % N_SERIES}" d="{path}"/>' for kind in "wl"]
        return self

    def bar(self, x: float, half: float, value: Any, style: int, tip: str = "",
            base: float = 0.0) -> "Plot":
        """An upright bar around x."""
        if finite([value]):
            top, low = sorted((self.py(value), self.py(base)))
            x0, x1 = self.px(x - half), self.px(x + half)
            self.parts.append(
                f'<rect class="p s{style % N_SERIES}" x="{num(x0)}" y="{num(top)}" '
                f'width="{num(max(x1 - x0, 0.5))}" height="{num(max(low - top, 0.5))}">'
                f"<title>{esc(tip or short(value))}</title></rect>")
        return self

    def guide(self, start: tuple[float, float], end: tuple[float, float],
              words: str = "") -> "Plot":
        """A dashed line to read against, with its name at the end."""
        (x0, y0), (x1, y1) = start, end
        self.parts.append(f'<path class="d" d="M{num(self.px(x0))} {num(self.py(y0))}'
                          f'L{num(self.px(x1))} {num(self.py(y1))}"/>')
        if words:
            right = self.px(x1) - 4
            for left, y in self._guided:  # beside the words of a guide at the same height
                right = min(right, left - 10) if abs(y - self.py(y1)) < 12 else right
            self._guided.append((right - EM * len(words), self.py(y1)))
            self.parts.append(text(right, self.py(y1) - 5, words, "m e"))
        return self

    def note(self, x: float, y: float, words: str, classes: str = "m") -> "Plot":
        """Words at a place in the chart."""
        self.parts.append(text(self.px(x), self.py(y), words, classes))
        return self

    def svg(self) -> Svg:
        """The picture."""
        return Svg(self.width, self.height, "".join(self.parts), self.label)
