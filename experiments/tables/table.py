"""The one table: columns of cells under a title, as text, Markdown, CSV or LaTeX."""
import csv
import io
import re
import statistics
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from engine.tables import aligned, spread
from experiments.measures import Measure
from experiments.run import Run, is_number

_LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
          "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
          "±": r"$\pm$", "<": r"$<$", ">": r"$>$"}


def known(values: Sequence[float | None]) -> list[float]:
    """Those that are numbers."""
    return [value for value in values if value is not None and is_number(value)]


@dataclass
class Column:
    """One cell per row.

    Args:
        cells: the text of each row.
        values: the numbers behind each cell, one per run, where there are any.
        better: 1 if more is better, -1 if less is, 0 if rows are not ranked.
        digits: decimals that are shown, which is what ranks compare.
        explanation: what hovering over the title tells.
    """

    title: str
    cells: list[str]
    values: list[list[float | None]] = field(default_factory=list)
    better: int = 0
    digits: int = 2
    explanation: str = ""

    @classmethod
    def of(cls, measure: Measure, groups: Sequence[Sequence[Run]],
           title: str | None = None) -> "Column":
        """A measure of groups of runs: mean ± sd of each."""
        values = [[measure.value(run) for run in group] for group in groups]
        return cls(title or measure.label, [spread(row, measure.digits) for row in values], values,
                   measure.better, measure.digits, measure.definition)

    @property
    def measured(self) -> bool:
        """Whether any row has a number."""
        return any(known(row) for row in self.values)

    def means(self) -> list[float | None]:
        """The mean behind each cell."""
        return [statistics.fmean(found) if (found := known(row)) else None for row in self.values]

    def ranks(self, peers: Sequence[Hashable] | None = None) -> list[int]:
        """1 for the best row (and its equals), 2 for the second, 0 for the others.

        Means are compared as they are printed; there is no second best of two.

        Args:
            peers: which rows are ranked together; a row with None is not ranked.
        """
        count = len(self.cells)
        if not self.better or not self.values:
            return [0] * count
        places = [0 if peers is None else peer for peer in (peers or [0] * count)]
        shown = [None if mean is None else round(mean, self.digits) for mean in self.means()]
        ranks = [0] * count
        for peer in {place for place in places if place is not None}:
            rows = [i for i in range(count) if places[i] == peer and shown[i] is not None]
            order = sorted({shown[i] for i in rows}, reverse=self.better > 0)  # type: ignore[type-var]
            if len(rows) < 2 or len(order) < 2:
                continue
            for i in rows:
                ranks[i] = 1 if shown[i] == order[0] else 2 if (
                    len(rows) > 2 and shown[i] == order[1]) else 0
        return ranks


@dataclass
class Table:
    """Columns of the same length under a title."""

    title: str
    columns: list[Column]

    @classmethod
    def of_rows(cls, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
        """A table of finished cells."""
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(header)
        return cls(title, [Column(name, list(cells))
                           for name, cells in zip(header, columns, strict=True)])

    @property
    def header(self) -> list[str]:
        """The columns' titles."""
        return [column.title for column in self.columns]

    @property
    def rows(self) -> list[list[str]]:
        """The cells row by row."""
        return self._rows(lambda text, rank: text)

    def __str__(self) -> str:
        """Title and Markdown."""
        return f"**{self.title}**\n\n{aligned(self.header, self.rows, markdown=True)}\n"

    def _rows(self, mark: Callable[[str, int], str],
              write: Callable[[str], str] = str) -> list[list[str]]:
        """Rows in which ranked cells are marked."""
        columns = [[mark(write(text), rank) for text, rank in zip(c.cells, c.ranks(), strict=True)]
                   if c.better else list(map(write, c.cells)) for c in self.columns]
        return [list(row) for row in zip(*columns, strict=True)]

    def text(self) -> str:
        """For a terminal: `*` best, `+` second best."""
        return aligned([c.title + ("  " if c.better else "") for c in self.columns],
                       self._rows(lambda text, rank: f"{text} {' *+'[rank]}"))

    def markdown(self) -> str:
        """Best in bold, second best underlined."""
        wrap = ("{}", "**{}**", "<u>{}</u>")
        return aligned(self.header, self._rows(lambda text, rank: wrap[rank].format(text)),
                       markdown=True)

    def csv(self) -> str:
        """Means and deviations as numbers in columns of their own."""
        header: list[str] = []
        fields: list[list[str]] = []
        for column in self.columns:
            if not column.values:
                header.append(column.title)
                fields.append(column.cells)
            else:
                header += [f"{column.title} mean", f"{column.title} sd"]
                found = [known(values) for values in column.values]
                fields.append([f"{statistics.mean(v):.6g}" if v else "" for v in found])
                fields.append([f"{statistics.stdev(v):.6g}" if len(v) > 1 else "" for v in found])
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(zip(*fields, strict=True))
        return text.getvalue()

    def latex(self) -> str:
        r"""A `tabular` (package booktabs) with \textbf and \underline."""
        wrap = ("{}", r"\textbf{{{}}}", r"\underline{{{}}}")
        rows = self._rows(lambda text, rank: wrap[rank].format(text), latex_escape)
        lines = [" & ".join(map(latex_escape, self.header)), *(" & ".join(row) for row in rows)]
        return "\n".join([
            rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}", r"\toprule",
            lines[0] + r" \\", r"\midrule", *(line + r" \\" for line in lines[1:]),
            r"\bottomrule", r"\end{tabular}", ""])


def latex_escape(text: str) -> str:
    """Text that LaTeX prints as it stands; a minus sign is one."""
    escaped = "".join(_LATEX.get(letter, letter) for letter in text)
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)
