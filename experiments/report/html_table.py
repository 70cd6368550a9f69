"""A `Table` of experiments as HTML: sortable, each row with the commands behind it."""
import re
from collections.abc import Sequence

from experiments.identity import Experiment
from experiments.measures import (
    ACCURACY,
    BACKWARD_TRANSFER,
    FORGETTING,
    SECONDS,
    Measure,
    accuracy_in,
    registered,
    settings_of,
)
from experiments.report.figure import Methods
from experiments.report.svg import esc
from experiments.run import Run, printable
from experiments.tables.table import Column, Table
from experiments.words import MINUS

_MANY = 9  # columns of numbers; more are printed on paper laid across
_PINNED = {0: ' class="name"', 1: ' class="pinned"'}


def scope(one: Experiment | Methods) -> str:
    """What the page's filter asks an element for: benchmark, buffer, method (of one)."""
    model = f' data-model="{esc(one.model)}"' if isinstance(one, Experiment) else ""
    size = "" if one.buffer is None else one.buffer
    return f' data-dataset="{esc(one.dataset)}" data-buffer="{size}"{model}'


def first_measures(experiments: Sequence[Experiment]) -> list[Measure]:
    """Accuracy in each setting, transfer, forgetting, what is compared beside them, seconds."""
    settings = settings_of(run for one in experiments for run in one.runs)
    compared = [measure for measure in registered().values() if measure.compared]
    return [*map(accuracy_in, settings), BACKWARD_TRANSFER, FORGETTING,
            *_measured(compared, experiments), SECONDS]


def further_measures(experiments: Sequence[Experiment]) -> list[Measure]:
    """Every other measure that any run has."""
    result = {ACCURACY.name, BACKWARD_TRANSFER.name, FORGETTING.name, SECONDS.name, "n_parameters"}
    return _measured([m for m in registered().values() if m.name not in result], experiments)


def _measured(measures: Sequence[Measure], experiments: Sequence[Experiment]) -> list[Measure]:
    runs = [run for one in experiments for run in one.runs]
    return [measure for measure in measures
            if any(measure.value(run) is not None for run in runs)]


def table_of(experiments: Sequence[Experiment], measures: Sequence[Measure], title: str) -> Table:
    """The measures of experiments, a row each."""
    groups = [one.runs for one in experiments]
    return Table(title, [Column.of(measure, groups) for measure in measures])


def command_item(run: Run, words: str) -> str:
    """A run's exact command with a button that copies it."""
    return (f'<li><span class="who">{esc(words)}</span><code>{esc(run.command)}'
            '</code><button type="button" class="copy">Copy</button></li>')


def as_html(experiments: Sequence[Experiment], measures: Sequence[Measure], title: str,
            prefix: str) -> str:
    """The table with its own scroll box; the best of each buffer size in bold.

    Args:
        prefix: of the rows' ids.
    """
    table = table_of(experiments, measures, title)
    peers = [str(one.buffer) if one.runs[0].sequential else None for one in experiments]
    ranks = [column.ranks(peers) for column in table.columns]
    means = [column.means() for column in table.columns]
    cells = [[(column.cells[i], mean[i], rank[i]) for column, mean, rank in zip(
        table.columns, means, ranks, strict=True)] for i in range(len(experiments))]
    rows = "".join(_row(one, measures, cells[i], f"{prefix}-{i}")
                   for i, one in enumerate(experiments))
    kind = "sortable many" if len(table.columns) > _MANY else "sortable"
    return boxed(title, f'<table class="{kind}">{_header(table)}{rows}</table>')


def boxed(title: str, table: str) -> str:
    """A table under its title, with downloads and a hint where it is wider than the screen."""
    return (f'<div class="table-box"><div class="bar"><h4>{esc(title)}</h4><span class="hint" '
            'hidden>Scroll sideways for more columns →</span><span class="tools needs-script">'
            '<button type="button" class="get" data-kind="csv">CSV</button><button type="button" '
            'class="get" data-kind="latex">LaTeX</button></span></div><div class="scroll" '
            f'tabindex="0" role="region" aria-label="{esc(title)}">{table}</div></div>')


def _header(table: Table) -> str:
    plain = [("Method", ""), ("Buffer", "Samples kept for replay"),
             *((column.title, column.explanation) for column in table.columns),
             ("Seeds", "Runs that the mean is over")]
    cells = "".join(
        f'<th scope="col" aria-sort="none"{_PINNED.get(i, "")}><button type="button" '
        f'class="sort" title="{esc(title or "Sort by this column")}">{esc(name)}</button></th>'
        for i, (name, title) in enumerate(plain))
    return f"<thead><tr>{cells}</tr></thead>"


def _row(one: Experiment, measures: Sequence[Measure],
         found: Sequence[tuple[str, float | None, int]], place: str) -> str:
    """An experiment's row; `found` has a column's text, mean and rank each."""
    commands = "\n".join(printable(run.command) for run in one.runs)
    size = "–" if one.buffer is None else f"{one.buffer:,}"
    variant = f'<span class="variant">{esc(one.variant)}</span>' if one.variant else ""
    cells = [f'<th scope="row" class="name" data-v="{esc(one.label)}"><button type="button" '
             f'class="more" aria-expanded="false" aria-controls="{place}">{esc(one.model)}'
             f"</button>{variant}</th>",
             f'<td class="pinned" data-v="{-1 if one.buffer is None else one.buffer}">{size}</td>']
    for text, mean, rank in found:
        shown = _grouped(text) if mean is not None else "–"
        body = f"<strong>{esc(shown)}</strong>" if rank == 1 else esc(shown)
        cells.append(f'<td data-v="{"" if mean is None else repr(float(mean))}">{body}</td>')
    cells.append(f'<td data-v="{len(one.runs)}">{len(one.runs)}</td>')
    details = []
    for run in one.runs:
        parts = [f"{measure.label} {value:.{measure.digits}f}" for measure in measures
                 if (value := measure.value(run)) is not None]
        details.append(command_item(run, f"seed {run.seed}: {', '.join(parts)}"))
    return (f'<tbody{scope(one)}><tr title="{esc(commands)}">{"".join(cells)}</tr>'
            f'<tr id="{place}" hidden><td class="commands" colspan="{len(found) + 3}"><ul>'
            f'{"".join(details)}</ul></td></tr></tbody>')


def _grouped(cell: str) -> str:
    """A cell's numbers with thousands apart and a true minus."""
    return re.sub(r"\d{4,}(?=\D|$)(?<!\.\d{4})", lambda m: f"{int(m[0]):,}",
                  cell.replace("-", MINUS))


def best_first(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Experiments as the page shows them at first: by buffer, the most accurate on top."""
    def place(one: Experiment) -> tuple[int, float]:
        accuracy = Column.of(ACCURACY, [one.runs]).means()[0] or 0.0
        return (-1 if one.buffer is None else one.buffer, -accuracy)
    return sorted(experiments, key=place)
