"""What a figure is, and how a list of makers becomes figures that cannot break the page."""
from dataclasses import dataclass

from experiments.report.svg import Svg, num

BROKEN = (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError,
          OverflowError)


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
    def file_name(self):
        """The paper's number first."""
        return f"{self.paper or 'extra'}-{self.key}"


def percent(values):
    """Fractions as percentages, the unknown kept."""
    return [None if v is None else 100 * v for v in values]


def percent_rows(rows):
    """The same for a matrix."""
    return [percent(row) for row in rows]


def number(value, digits=3):
    """A number for a sentence."""
    if not isinstance(value, int | float):
        return "undefined"
    if value and abs(value) < 10 ** (1 - digits):
        return f"{value:.2g}".replace("-", "\u2212")
    return f"{value:.{digits}f}".replace("-", "\u2212")


def stacked(first, second, gap=0):
    """One picture under the other."""
    body = f'{first.body}<g transform="translate(0 {num(first.height + gap)})">{second.body}</g>'
    return Svg(max(first.width, second.width), first.height + gap + second.height, body,
               first.label)


def tiled(pictures, columns, label):
    """Pictures of one size in rows."""
    wide, high = max(p.width for p in pictures), max(p.height for p in pictures)
    body = "".join(f'<g transform="translate({num(i % columns * wide)} '
                   f'{num(i // columns * high)})">{p.body}</g>' for i, p in enumerate(pictures))
    rows = -(-len(pictures) // columns)
    return Svg(wide * min(columns, len(pictures)), high * rows, body, label)


def make(makers, subject, problems):
    """All figures that the makers find something for.

    A section of the summary that has another form than documented is told and left out, so one
    damaged file does not take the other figures with it.
    """
    figures = []
    for maker in makers:
        try:
            figures += [figure for figure in maker(subject) if figure is not None]
        except BROKEN as error:
            problems.append(f"{maker.__name__.replace('_', ' ')}: the summary has another form "
                            f"than documented ({type(error).__name__}: {error}), left out.")
    return figures
