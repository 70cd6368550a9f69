"""Methods side by side: one row per method, with the paper's figures and a paired test."""
from collections.abc import Callable, Iterable, Mapping
from statistics import mean, stdev

from experiments.measures import (
    BACKWARD_TRANSFER,
    FORGETTING,
    SECONDS,
    accuracy_in,
    registered,
    settings_of,
)
from experiments.run import Run
from experiments.tables.published import cell
from experiments.tables.table import Column, Table

Results = Mapping[str, Mapping[int, Run]]  # method -> seed -> run
Paper = Callable[[str, str], list[float]]  # (measure, method) -> [mean, sd], [] without one


def compare(results: Results, paper: Paper, title: str = "") -> Table:
    """The table: accuracy in each setting, transfer, compared measures, time, p-values, seeds."""
    groups = [list(by_seed.values()) for by_seed in results.values()]
    settings = settings_of(run for group in groups for run in group)
    main = settings[0] if settings else ""
    columns = [Column("method", list(results))]
    for setting in settings:
        columns.append(Column.of(accuracy_in(setting), groups))
        if setting == main:
            columns += _paper_column("paper %", "accuracy", results, paper)
    columns.append(Column.of(BACKWARD_TRANSFER, groups))
    columns += _paper_column("paper BWT", "backward_transfer", results, paper)
    columns.append(Column.of(FORGETTING, groups, "forgetting"))
    columns += [column for measure in registered().values() if measure.compared
                and (column := Column.of(measure, groups)).measured]
    columns.append(Column.of(SECONDS, groups, "seconds per run"))
    if len(results) > 1:
        columns.append(Column("p", p_values(results, main)))
    return Table(title, [*columns, Column("seeds", [str(len(group)) for group in groups])])


def _paper_column(title: str, measure: str, methods: Iterable[str], paper: Paper) -> list[Column]:
    cells = [cell(paper(measure, method)) or "-" for method in methods]
    return [Column(title, cells)] if any(text != "-" for text in cells) else []


def p_values(results: Results, setting: str) -> list[str]:
    """Paired t-test of each method's accuracy against the first method's, over common seeds."""
    accuracy = [{seed: run.accuracy[setting] for seed, run in by_seed.items()
                 if setting in run.accuracy} for by_seed in results.values()]
    return ["-", *(paired_p(accuracy[0], other) for other in accuracy[1:])]


def paired_p(first: Mapping[int, float], other: Mapping[int, float]) -> str:
    """The p-value as text; `-` where there is none."""
    p = paired_test(first, other)
    return "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def paired_test(first: Mapping[int, float], other: Mapping[int, float]) -> float | None:
    """The p-value of the paired t-test; None without two common seeds or any difference."""
    from scipy.special import stdtr  # `scipy.stats`, which has the test, takes long to import

    seeds = sorted(first.keys() & other.keys())
    differences = [first[s] - other[s] for s in seeds]
    if len(seeds) < 2 or not any(differences):
        return None
    if max(differences) - min(differences) < 1e-12:
        return 0.0
    t = mean(differences) / (stdev(differences) / len(seeds) ** 0.5)
    return float(2 * stdtr(len(seeds) - 1, -abs(t)))
