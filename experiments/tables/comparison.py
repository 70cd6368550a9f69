"""Methods side by side: one row a method, best and second best marked, in four formats."""
import csv
import io
import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.tables.records import paper_cell
from utils.tables import aligned, spread

SETTINGS = {"class-il": "Class-IL %", "task-il": "Task-IL %", "domain-il": "Domain-IL %",
            "general-continual": "Domain-IL %", "biased-class-il": "Class-IL %"}
_LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
          "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
          "±": r"$\pm$", "<": r"$<$", ">": r"$>$"}


@dataclass
class Column:
    """A measure of each method.

    Args:
        values: one list a method: its runs' values, in the order of the seeds.
        better: 1 if more is better, -1 if less is, 0 if it is not to be ranked.
        cells: the text, where it is not mean ± sd of the values.
    """

    title: str
    values: list[list[float | None]] = field(default_factory=list)
    better: int = 0
    digits: int = 2
    cells: list[str] | None = None

    def texts(self) -> list[str]:
        """A cell a method."""
        return self.cells or [spread(values, self.digits) for values in self.values]

    def ranks(self) -> list[int]:
        """1 for the best method (and its equals), 2 for the second, 0 for the others.

        Means are compared as they are printed; there is no second best of two.
        """
        means = [_mean(values, self.digits) for values in self.values]
        known = sorted({m for m in means if m is not None}, reverse=self.better > 0)
        if not self.better or len([m for m in means if m is not None]) < 2 or len(known) < 2:
            return [0] * len(means)
        second = known[1] if sum(m is not None for m in means) > 2 else None
        return [0 if m is None else 1 if m == known[0] else 2 if m == second else 0
                for m in means]


def _mean(values: Sequence[float | None], digits: int) -> float | None:
    known = [v for v in values if v is not None and math.isfinite(v)]
    return round(statistics.mean(known), digits) if known else None


def compare(results: dict[str, dict[int, dict[str, Any]]],
            paper: Callable[[str, str], list[float]]) -> list[Column]:
    """The columns of the table.

    Args:
        results: method -> seed -> result.json.
        paper: (measure, method) -> the paper's [mean, sd], [] where it has none.
    """
    runs = [list(by_seed.values()) for by_seed in results.values()]
    settings = list(dict.fromkeys(s for group in runs for run in group for s in run["accuracy"]))
    main = settings[0] if settings else ""
    columns = [Column("method", cells=list(results))]
    for setting in settings:
        columns.append(Column(SETTINGS[setting], [
            [run["accuracy"].get(setting) for run in group] for group in runs], 1))
        if setting == main:
            columns += _paper_column("paper %", "accuracy", results, paper)
    for title, name, better in (("BWT", "backward_transfer", 1), ("forgetting", "forgetting", -1)):
        columns.append(Column(title, [
            [run["transfer"].get(name, {}).get(main) for run in group] for group in runs], better))
        if name == "backward_transfer":
            columns += _paper_column("paper BWT", name, results, paper)
    errors = [[run.get("uncertainty", {}).get("headline", {}).get("ece") for run in group]
              for group in runs]
    if any(value is not None for group in errors for value in group):
        columns.append(Column("ECE", errors, -1, 3))
    columns.append(Column("seconds a run", [[run["seconds"] for run in group] for group in runs],
                          digits=1))
    if len(results) > 1:
        columns.append(Column("p", cells=p_values(results, main)))
    return [*columns, Column("seeds", cells=[str(len(group)) for group in runs])]


def _paper_column(title: str, measure: str, results: dict[str, Any],
                  paper: Callable[[str, str], list[float]]) -> list[Column]:
    cells = [paper_cell(paper(measure, model)) or "-" for model in results]
    return [Column(title, cells=cells)] if any(cell != "-" for cell in cells) else []


def p_values(results: dict[str, dict[int, dict[str, Any]]], setting: str) -> list[str]:
    """Paired t-test of each method's accuracy against the first method's, over common seeds."""
    accuracy = [{seed: run["accuracy"].get(setting) for seed, run in by_seed.items()
                 if run["accuracy"].get(setting) is not None} for by_seed in results.values()]
    return ["-", *(paired_p(accuracy[0], other) for other in accuracy[1:])]


def paired_p(first: dict[int, float], other: dict[int, float]) -> str:
    """The p-value as text; `-` where there are not two common seeds or no difference at all."""
    from scipy.stats import ttest_rel

    seeds = sorted(first.keys() & other.keys())
    differences = [first[s] - other[s] for s in seeds]
    if len(seeds) < 2 or not any(differences):
        return "-"
    if max(differences) - min(differences) < 1e-12:
        return "<0.001"
    p = float(ttest_rel([first[s] for s in seeds], [other[s] for s in seeds]).pvalue)
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _rows(columns: list[Column], mark: Callable[[str, int], str]) -> list[list[str]]:
    marked = [[mark(text, rank) for text, rank in zip(column.texts(), column.ranks(), strict=True)]
              if column.better else column.texts() for column in columns]
    return [list(row) for row in zip(*marked, strict=True)]


def as_text(columns: list[Column]) -> str:
    """For a terminal: `*` best, `+` second best."""
    return aligned([c.title + ("  " if c.better else "") for c in columns],
                   _rows(columns, lambda text, rank: f"{text} {' *+'[rank]}"))


def as_markdown(columns: list[Column]) -> str:
    """Bold and underlined."""
    wrap = ("{}", "**{}**", "<u>{}</u>")
    return aligned([c.title for c in columns],
                   _rows(columns, lambda text, rank: wrap[rank].format(text)), markdown=True)


def as_csv(columns: list[Column]) -> str:
    """Means and deviations as numbers in columns of their own."""
    header, fields = [], []
    for column in columns:
        if column.cells is not None:
            header.append(column.title)
            fields.append(column.cells)
        else:
            header += [f"{column.title} mean", f"{column.title} sd"]
            known = [[v for v in values if v is not None] for values in column.values]
            fields.append([f"{statistics.mean(v):.6g}" if v else "" for v in known])
            fields.append([f"{statistics.stdev(v):.6g}" if len(v) > 1 else "" for v in known])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*fields, strict=True))
    return text.getvalue()


def latex_escape(text: str) -> str:
    """Text that LaTeX prints as it stands; a minus sign is one."""
    escaped = "".join(_LATEX.get(letter, letter) for letter in text)
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)


def as_latex(columns: list[Column]) -> str:
    r"""A `tabular` (package booktabs) with \textbf and \underline."""
    wrap = ("{}", r"\textbf{{{}}}", r"\underline{{{}}}")
    rows = _rows([Column(c.title, c.values, c.better, c.digits,
                         [latex_escape(t) for t in c.texts()]) for c in columns],
                 lambda text, rank: wrap[rank].format(text))
    lines = [" & ".join(latex_escape(c.title) for c in columns), *(" & ".join(r) for r in rows)]
    return "\n".join([rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}", r"\toprule",
                      lines[0] + r" \\", r"\midrule", *(line + r" \\" for line in lines[1:]),
                      r"\bottomrule", r"\end{tabular}", ""])
