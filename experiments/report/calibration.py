"""Calibration of one run: errors over tasks, reliability, rejection, entropy of each task."""
from collections.abc import Iterator, Sequence

from experiments.report.accuracy import curves_figure
from experiments.report.figure import (
    SCALES,
    Figure,
    Methods,
    Number,
    Section,
    Shown,
    comparison_figure,
    number,
    percent,
    run_figure,
    stacked,
)
from experiments.report.heat import heat
from experiments.report.svg import Plot, Svg, domain, finite
from experiments.run import is_number

ERRORS = {"ece": "ECE", "ace_classwise": "ACE, class-wise", "ace_top_equal_mass":
          "ACE, top label, equal mass"}
TASK_PAD = 0.3


def over_tasks(named: Sequence[tuple[str, Sequence[Number]]], ylabel: str, *,
               floor: float | None = None, ceiling: float | None = None) -> Svg:
    """Lines over the tasks learned, from [(label, list over tasks)]; without ceiling from 0 on."""
    values = [v for _, line in named for v in line] + ([0] if ceiling is None else [])
    count = max((len(line) for _, line in named), default=1)
    plot = Plot((-TASK_PAD, count - 1 + TASK_PAD), domain(values, 0.08, floor, ceiling),
                "tasks learned", ylabel, xticks=[(i, str(i + 1)) for i in range(count)],
                legend=[(name, i) for i, (name, _) in enumerate(named)] if len(named) > 1 else ())
    for i, (name, line) in enumerate(named):
        tips = [f"{name}, task {j + 1}: {number(v)}" for j, v in enumerate(line)]
        plot.line(list(enumerate(line)), i, tips=tips)
    return plot.svg()


@run_figure("calibration")
def calibration_errors(shown: Shown, section: Section) -> Iterator[Figure]:
    """ECE and both kinds of ACE after each task."""
    after = section["after_task"]
    lines = [(label, after[name]) for name, label in ERRORS.items() if name in after]
    last = "; ".join(f"{label} {number(line[-1])}" for label, line in lines if line)
    yield Figure(
        "calibration-errors", "Calibration error over tasks", over_tasks(lines, "error", floor=0),
        "0 is perfect. Three definitions on one axis: each is named in the legend and printed "
        "under Definitions. Pooled over all tasks seen.", "Calibration", "tab02",
        f"At the end: {last}.")


@run_figure("calibration")
def reliability(shown: Shown, section: Section) -> Iterator[Figure]:
    """The reliability diagram with how many samples each bar stands on."""
    bins = section["reliability"]["equal_width"]
    plot = Plot((0, 1), (0, 1), "", "accuracy", filled=True, height=200,
                legend=[("accuracy in the bin", 0), ("mean confidence", 1)],
                label="Reliability diagram")
    total = sum(bins["count"]) or 1
    rows = list(zip(*(bins[k] for k in ("low", "high", "count", "confidence", "accuracy")),
                    strict=True))
    for low, high, count, confidence, accuracy in rows:
        plot.bar((low + high) / 2, (high - low) / 2.25, accuracy, 0,
                 f"confidence {number(confidence)}, accuracy {number(accuracy)}, {count} samples")
    plot.guide((0, 0), (1, 1))
    plot.dots([((low + high) / 2, c) for low, high, _, c, _ in rows], 1, size=2.6)
    most = max(bins["count"]) / total or 1
    share = Plot((0, 1), (0, most), "confidence", "share of samples", height=46,
                 yticks=[(0, "0"), (most, f"{most:.2g}")])
    for low, high, count, *_ in rows:
        share.bar((low + high) / 2, (high - low) / 2.25, count / total, 6, f"{count} samples")
    yield Figure(
        "reliability", "Reliability diagram", stacked(plot.svg(), share.svg(), -20),
        "Bars below the dashed diagonal: the model is surer than it is right. 15 bins of equal "
        "width by the predicted class's probability; the ECE is the gap between bar and marker, "
        "weighted by the share of samples below.", "Calibration",
        facts=f"ECE (15 equal-width bins) {number(shown.run.headline.get('ece'))}.")


@run_figure("calibration")
def rejection(shown: Shown, section: Section) -> Iterator[Figure]:
    """Accuracy against the share of samples that the model may decline."""
    curve = section["rejection"]
    shares, kept, best = percent(curve["rejected"]), percent(curve["accuracy"]), percent(
        curve["best"])
    plot = Plot((0, 100), domain(kept + best, 0.05, 0, 101), "declined, % (least confident first)",
                "accuracy of the rest, %", legend=[("this model", 0), ("best possible order", 6)])
    plot.line(list(zip(shares, best, strict=True)), 6, dots=False, dash="4 3")
    plot.line(list(zip(shares, kept, strict=True)), 0, dots=False)
    area = number(shown.run.headline.get("rejection_area"))
    yield Figure(
        "rejection", "Accuracy-rejection curve", plot.svg(),
        "How right the model is when it may decline its least confident answers. The nearer to "
        "the dashed curve (wrong answers declined first), the better confidence sorts them.",
        "Calibration", facts=f"Area under the curve {area}.")


@run_figure("calibration")
def proper_scores(shown: Shown, section: Section) -> Iterator[Figure]:
    """NLL and Brier score over tasks."""
    after = section["after_task"]
    lines = [("NLL (nats)", after["nll"]), ("Brier score", after["brier"])]
    yield Figure(
        "proper-scores", "NLL and Brier score over tasks", over_tasks(lines, "score", floor=0),
        "Both reward probabilities that are right and honest; lower is better. Pooled over all "
        "tasks seen.", "Calibration",
        facts=f"At the end: NLL {number(after['nll'][-1])}, Brier {number(after['brier'][-1])}.")


@run_figure("calibration")
def entropy_matrix(shown: Shown, section: Section) -> Iterator[Figure]:
    """Predictive entropy of every task after every task."""
    rows = section["by_task"]["entropy"]
    low, high = shown.span(*SCALES["entropy"], floor=0)
    yield Figure(
        "entropy-matrix", "Predictive entropy, nats", heat(
            rows, "tested on task", "after task", low=low, high=high, digits=2, scale="q",
            label="Predictive entropy in nats"),
        "The accuracy matrix's counterpart: darker (lighter on a dark page) is less certain. "
        "A model that knows what it forgets gets less certain down a column.", "Calibration")


@run_figure("transfer")
def transfer(shown: Shown, section: Section) -> Iterator[Figure]:
    """Change of accuracy against change of entropy, a point per task."""
    data = section
    if not data["tasks"]:
        return
    x, y = percent(data["accuracy"]), data["entropy"]
    plot = Plot(domain([*x, 0], 0.12), domain([*y, 0], 0.12), "change of accuracy, points",
                "change of entropy, nats")
    plot.guide((plot.x[0], 0), (plot.x[1], 0)).guide((0, plot.y[0]), (0, plot.y[1]))
    tips = [f"task {t + 1}: {number(a, 1)} points, {number(e)} nats"
            for t, a, e in zip(data["tasks"], x, y, strict=True)]
    plot.dots(list(zip(x, y, strict=True)), 0, tips, size=3.8)
    for task, a, e in zip(data["tasks"], x, y, strict=True):
        if is_number(a) and is_number(e) and len(x) <= 24:
            plot.parts.append(f'<text class="m n" x="{plot.px(a) + 6:.1f}" '
                              f'y="{plot.py(e) - 4:.1f}">{task + 1}</text>')
    yield Figure(
        "transfer", "Backward transfer of accuracy and of uncertainty", plot.svg(),
        "Each point is a task (all but the last): its value at the end minus when it was learned. "
        "Top left: accuracy lost and entropy gained, the model knows that it forgot.",
        "Calibration", "fig07",
        f"Pearson r {number(data['pearson'], 2)} (p {number(data['pearson_p'])}), Spearman ρ "
        f"{number(data['spearman'], 2)} (p {number(data['spearman_p'])}).",
        "The more accuracy a task loses, the more uncertainty it gains.",
        data["pearson"] < 0 if is_number(data["pearson"]) else None)


@comparison_figure
def error_curves(methods: Methods) -> Iterator[Figure]:
    """ECE over tasks by method."""
    named = [(label, [part["ece"] for part in parts])
             for label, parts in methods.sections("calibration", "after_task")]
    if named:
        yield Figure(
            "ece-curves", "ECE over tasks", curves_figure(
                named, "ECE (15 equal-width bins)", limits=(0, 1), styles=methods.styles, digits=3),
            "Expected calibration error after each task, pooled over the tasks seen; 0 is perfect. "
            "The band is one standard deviation over the seeds.", "Curves", "tab02")


@comparison_figure
def rejection_curves(methods: Methods) -> Iterator[Figure]:
    """Accuracy-rejection curves by method, mean over seeds."""
    lines = []
    for label, curves in methods.sections("calibration", "rejection"):
        columns = zip(*(curve["accuracy"] for curve in curves), strict=False)
        means = [100 * sum(v) / len(v) if len(finite(v)) == len(v) else None for v in columns]
        lines.append((label, percent(curves[0]["rejected"]), means))
    if not lines:
        return
    plot = Plot((0, 100), domain([v for *_, m in lines for v in m], 0.05, 0, 101),
                "declined, % (least confident first)", "accuracy of the rest, %", height=220,
                legend=[(label, methods.styles[label]) for label, *_ in lines])
    for label, shares, means in lines:
        with plot.series(label):
            plot.line(list(zip(shares, means, strict=False)), methods.styles[label], dots=False)
    yield Figure(
        "rejection-curves", "Accuracy-rejection curves", plot.svg(),
        "How right a method is when it may decline its least confident answers (mean over seeds, "
        "end of the run). Higher is better; steeper at the left means that confidence finds the "
        "errors.", "Curves")
