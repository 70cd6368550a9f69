"""Accuracy: the matrix of a run, and curves over tasks that put methods side by side."""
import statistics
from collections.abc import Iterator, Mapping, Sequence

from experiments.measures import setting_name, settings_of
from experiments.report.figure import (
    Figure,
    Methods,
    Shown,
    comparison_figure,
    run_figure,
    stacked,
    tiled,
)
from experiments.report.heat import heat
from experiments.report.svg import EM, Plot, Span, Svg, domain, finite, short, slug, text, ticks
from experiments.run import Run

_MOST_BANDS = 3
_LONGEST_TITLE = 16
Curve = Sequence[float | None]
Point = tuple[int, float, float]  # place, mean, deviation


@run_figure()
def accuracy_matrices(shown: Shown) -> Iterator[Figure]:
    """One heat map per setting."""
    run = shown.run
    for setting in run.matrix:
        names = None if run.sequential else ["end"]
        picture = heat(run.stages(setting), "tested on task", "after task", rows=names,
                       low=shown.lowest, high=100,
                       label=f"{setting_name(setting)} accuracy in percent")
        yield Figure(
            f"accuracy-matrix-{slug(setting)}", f"{setting_name(setting)} accuracy, %", picture,
            "Row i is the state after learning task i, column j the test set of task j. Down a "
            "column a task is forgotten; the last row's mean is the final accuracy. All runs and "
            "settings of a benchmark share the colour scale.",
            "Accuracy", facts=f"Final mean {run.accuracy[setting]:.2f} %.")


def mean_curve(run: Run, setting: str) -> Curve:
    """Mean accuracy over the tasks seen, after each task."""
    return [sum(row) / len(row) for row in run.matrix[setting]]


def averaged(curves: Sequence[Curve]) -> list[Point]:
    """Point by point mean and sample deviation of curves that may differ in length."""
    points = []
    for i in range(max((len(c) for c in curves), default=0)):
        values = finite([c[i] for c in curves if i < len(c)])
        if values:
            sd = statistics.stdev(values) if len(values) > 1 else 0.0
            points.append((i, statistics.mean(values), sd))
    return points


def curves_figure(named: Sequence[tuple[str, Sequence[Curve]]], ylabel: str, *,
                  xlabel: str = "tasks learned",
                  limits: tuple[float | None, float | None] = (None, None),
                  span: Span | None = None,
                  guides: Sequence[tuple[str, float]] = (),
                  styles: Mapping[str, int] | None = None, digits: int = 2) -> Svg:
    """Curves with a band of one standard deviation.

    More than a few bands would cover each other: then the means share one chart, and each label
    has its band in a small chart of its own below, on the same scale.

    Args:
        named: [(label, curves of the seeds)].
        limits: what the y axis may not leave.
        span: the y axis itself, where neighbours share it.
        guides: [(label, value)] as level dashed lines.
        styles: label -> style, so that a method keeps its colour across figures.
    """
    lines = [(name, averaged(curves)) for name, curves in named]
    values = [m + s * sign for _, points in lines for _, m, s in points for sign in (-1, 1)]
    values += [value for _, value in guides] + ([0] if limits[1] == 1 else [])
    length = max([1, *(len(points) for _, points in lines)])
    style = {name: (styles or {}).get(name, i) for i, (name, _) in enumerate(lines)}
    plot = Plot((-0.2, max(length - 0.8, 0.2)), span or domain(values, 0.08, *limits), xlabel,
                ylabel, xticks=[(i, str(i + 1)) for i in range(length)], height=220,
                legend=[(name, style[name]) for name, _ in lines])
    apart = len(lines) > _MOST_BANDS and any(s > 0 for _, points in lines for *_, s in points)
    for name, points in [] if apart else lines:
        with plot.series(name):
            plot.band([(i, m - s, m + s) for i, m, s in points], style[name])
    for name, value in guides:
        plot.guide((plot.x[0], value), (plot.x[1], value), name)
    for name, points in lines:
        tips = [f"{name}, {i + 1}: {m:.{digits}f} ± {s:.{digits}f}" for i, m, s in points]
        with plot.series(name):
            plot.line([(i, m) for i, m, _ in points], style[name], tips=tips)
    if not apart:
        return plot.svg()
    panels = [_panel(name, lines, plot, style[name]) for name, _ in lines]
    return stacked(plot.svg(), tiled(panels, 3, plot.label), 6)


def _panel(name: str, lines: Sequence[tuple[str, Sequence[Point]]], whole: Plot,
           style: int) -> Svg:
    """One label's line and band in front of the others, on the scale of the whole chart."""
    plot = Plot(whole.x, whole.y, "", "", width=113, height=64, left=28,
                xticks=[(whole.x[0], "")], yticks=[(v, short(v)) for v in ticks(*whole.y, 3)])
    for other, points in lines:
        if other != name:
            plot.backdrop([(i, m) for i, m, _ in points])
    own = dict(lines)[name]
    with plot.series(name):
        plot.band([(i, m - s, m + s) for i, m, s in own], style)
        plot.line([(i, m) for i, m, _ in own], style, dots=False)
    shown = name if len(name) <= _LONGEST_TITLE else name[:_LONGEST_TITLE - 1] + "…"
    plot.parts.append(text(plot.left, plot.top - 8, shown, "n b"))
    picture = plot.svg()
    picture.height -= 30
    return picture


def _scale(methods: Methods) -> tuple[float, float]:
    """What the accuracy axes of a benchmark cover: the same in all of its figures."""
    found = [v for one in methods.experiments for run in one.runs for setting in run.accuracy
             for v in (*finite([run.accuracy[setting]]), *(
                 value for row in run.matrix.get(setting, []) for value in
                 (row[0], sum(row) / len(row))))]
    return domain(found, 0.08, 0, 100)


@comparison_figure
def accuracy_curves(methods: Methods) -> Iterator[Figure]:
    """Mean accuracy over the tasks seen so far, by method, one figure per setting."""
    for setting in settings_of(one.runs[0] for one in methods.experiments):
        named: list[tuple[str, list[Curve]]] = []
        guides: list[tuple[str, float]] = []
        for one in methods.experiments:
            runs = [run for run in one.runs if setting in run.matrix]
            if runs and runs[0].sequential:
                named.append((one.label, [mean_curve(run, setting) for run in runs]))
            elif runs:
                guides.append((one.label, statistics.mean(run.accuracy[setting] for run in runs)))
        if not named and not guides:
            continue
        picture = curves_figure(named, f"{setting_name(setting)} accuracy, %", guides=guides,
                                span=_scale(methods), styles=methods.styles)
        yield Figure(
            f"accuracy-curves-{slug(setting)}", f"{setting_name(setting)} accuracy over tasks",
            picture, "Mean accuracy on all tasks seen so far; the band is one standard deviation "
            "over the seeds." + (" Dashed: learns all tasks at once." if guides else ""), "Curves")


@comparison_figure
def first_task_curves(methods: Methods) -> Iterator[Figure]:
    """How the first task fades, by method."""
    named = [(one.label, [[row[0] for row in run.matrix[run.setting]] for run in one.runs])
             for one in methods.experiments
             if one.runs[0].sequential and all(run.matrix for run in one.runs)]
    if not named or max(len(c) for _, curves in named for c in curves) < 2:
        return
    setting = setting_name(methods.experiments[0].runs[0].setting)
    yield Figure(
        "first-task", "The first task, as others follow", curves_figure(
            named, f"{setting} accuracy on task 1, %", span=_scale(methods), styles=methods.styles),
        "Accuracy on the first task's test set after each task. A flat line means no forgetting; "
        "the band is one standard deviation over the seeds.", "Curves")


@comparison_figure
def final_accuracies(methods: Methods) -> Iterator[Figure]:
    """Records of runs have no curves: the end of each method, the best on top."""
    if any(run.matrix for one in methods.experiments for run in one.runs):
        return
    for setting in settings_of(run for one in methods.experiments for run in one.runs):
        rows = sorted(((statistics.fmean(values), values, one.label) for one in methods.experiments
                       if (values := [run.accuracy[setting] for run in one.runs
                                      if setting in run.accuracy])), reverse=True)
        yield Figure(
            f"final-accuracy-{slug(setting)}", f"Final {setting_name(setting)} accuracy",
            _rows(rows, f"{setting_name(setting)} accuracy, %", methods.styles),
            "Mean accuracy over all tasks at the end; the bar is one standard deviation over the "
            "seeds, the small points are the seeds.", "Curves")


def _rows(rows: Sequence[tuple[float, Sequence[float], str]], xlabel: str,
          styles: Mapping[str, int]) -> Svg:
    """A line per method: its seeds, their mean and deviation."""
    left = 18 + EM * max(len(label) for *_, label in rows)
    span = domain([v for _, values, _ in rows for v in values], 0.06, 0, 100)
    plot = Plot(span, (len(rows) - 0.4, -0.6), xlabel, "", width=left + 330, left=left,
                height=20 * len(rows), yticks=[(i, label) for i, (*_, label) in enumerate(rows)])
    for i, (mean, values, label) in enumerate(rows):
        sd = statistics.stdev(values) if len(values) > 1 else 0.0
        with plot.series(label):
            plot.line([(max(mean - sd, span[0]), i), (min(mean + sd, span[1]), i)], 6, dots=False)
            plot.specks([(v, i) for v in values], styles[label])
            plot.dots([(mean, i)], styles[label], [f"{label}: {mean:.2f} ± {sd:.2f}"], 4.2)
    return plot.svg()
