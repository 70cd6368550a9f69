"""Accuracy: the matrix of a run, and curves over tasks that put methods side by side."""
import statistics

from experiments.report.figure import Figure
from experiments.report.heat import heat
from experiments.report.svg import Plot, domain

SETTINGS = {"class-il": "Class-IL", "task-il": "Task-IL", "domain-il": "Domain-IL",
            "general-continual": "General", "biased-class-il": "Class-IL (biased)"}


def setting_name(setting):
    """A setting as people write it."""
    return SETTINGS.get(setting, setting)


def accuracy_matrices(run):
    """One heat map a setting."""
    for setting in run.result["accuracy_matrix"]:
        names = None if run.sequential else ["end"]
        picture = heat(run.stages(setting), "tested on task", "after task", rows=names,
                       low=run.scale_low.get(setting, 0), high=100,
                       label=f"{setting_name(setting)} accuracy in percent")
        yield Figure(
            f"accuracy-matrix-{setting}", f"{setting_name(setting)} accuracy, %", picture,
            "Row i is the state after learning task i, column j the test set of task j. Down a "
            "column a task is forgotten; the last row's mean is the final accuracy. All runs of a "
            "benchmark share the colour scale.",
            "Accuracy", facts=f"Final mean {run.result['accuracy'][setting]:.2f} %.")


def mean_curve(run, setting):
    """Mean accuracy over the tasks seen, after each task."""
    return [sum(row) / len(row) for row in run.matrix(setting)]


def averaged(curves):
    """Point by point mean and sample deviation of curves that may differ in length."""
    points = []
    for i in range(max((len(c) for c in curves), default=0)):
        values = [c[i] for c in curves if i < len(c) and c[i] is not None]
        if values:
            sd = statistics.stdev(values) if len(values) > 1 else 0.0
            points.append((i, statistics.mean(values), sd))
    return points


def curves_figure(named, ylabel, *, xlabel="tasks learned", limits=(None, None), guides=(),
                  styles=None, digits=2):
    """Curves with a band of one standard deviation.

    Args:
        named: [(label, curves of the seeds)].
        guides: [(label, value)] as level dashed lines.
        styles: label -> style, so that a method keeps its colour across figures.
    """
    lines = [(name, averaged(curves)) for name, curves in named]
    values = [m + s * sign for _, points in lines for _, m, s in points for sign in (-1, 1)]
    values += [value for _, value in guides] + ([0] if limits[1] == 1 else [])
    length = max((len(points) for _, points in lines), default=1)
    style = {name: (styles or {}).get(name, i) for i, (name, _) in enumerate(lines)}
    plot = Plot((-0.2, max(length - 0.8, 0.2)), domain(values, 0.08, *limits), xlabel, ylabel,
                xticks=[(i, str(i + 1)) for i in range(length)], height=220,
                legend=[(name, style[name]) for name, _ in lines])
    for name, points in lines:
        plot.band([(i, m - s, m + s) for i, m, s in points], style[name])
    for name, value in guides:
        plot.guide((plot.x[0], value), (plot.x[1], value), name)
    for name, points in lines:
        tips = [f"{name}, {i + 1}: {m:.{digits}f} ± {s:.{digits}f}" for i, m, s in points]
        plot.line([(i, m) for i, m, _ in points], style[name], tips=tips)
    return plot.svg()


def accuracy_curves(table):
    """Mean accuracy over the tasks seen so far, by method, one figure a setting."""
    settings = []
    for group in table.groups:
        settings += [s for s in group.runs[0].result["accuracy"] if s not in settings]
    for setting in settings:
        named, guides = [], []
        for group in table.groups:
            runs = [r for r in group.runs if setting in r.result["accuracy"]]
            if runs and runs[0].sequential:
                named.append((group.label, [mean_curve(r, setting) for r in runs]))
            elif runs:
                guides.append((group.label, statistics.mean(
                    r.result["accuracy"][setting] for r in runs)))
        picture = curves_figure(named, f"{setting_name(setting)} accuracy, %", guides=guides,
                                limits=(0, 100), styles=table.styles)
        yield Figure(
            f"accuracy-curves-{setting}", f"{setting_name(setting)} accuracy over tasks", picture,
            "Mean accuracy on all tasks seen so far; the band is one standard deviation over the "
            "seeds." + (" Dashed: learns all tasks at once." if guides else ""), "Curves")


def first_task_curves(table):
    """How the first task fades, by method."""
    named = [(group.label, [[row[0] for row in r.matrix(r.setting)] for r in group.runs])
             for group in table.groups if group.runs[0].sequential]
    if not named or max(len(c) for _, curves in named for c in curves) < 2:
        return
    setting = setting_name(table.groups[0].runs[0].setting)
    yield Figure(
        "first-task", "The first task, as others follow", curves_figure(
            named, f"{setting} accuracy on task 1, %", limits=(0, 100), styles=table.styles),
        "Accuracy on the first task's test set after each task. A flat line means no forgetting; "
        "the band is one standard deviation over the seeds.", "Curves")
