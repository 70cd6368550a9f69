"""Cost: context size, numbers of draws, time and storage, in one run and between methods."""
from collections.abc import Iterator, Sequence
from typing import Any

from experiments.report.figure import (
    Figure,
    Methods,
    Number,
    Section,
    Shown,
    comparison_figure,
    number,
    percent,
    percent_rows,
    run_figure,
)
from experiments.report.heat import heat
from experiments.report.svg import Plot, Svg, domain, finite


@run_figure("cost")
def context_sizes(shown: Shown, cost: Section) -> Iterator[Figure]:
    """Accuracy, entropy and time as the test-time context grows."""
    context = cost.get("context")
    if not context or not context["size"]:
        return
    kinds = (("accuracy", percent(context["accuracy"]), "accuracy, %", "fig05a", None,
              "More context should help until it is enough."),
             ("entropy", context["entropy"], "entropy, nats", "fig05b", 0,
              "More context should make the model surer."),
             ("seconds", context["seconds"], f"seconds for {cost['answer']['images']} images",
              "tab08", 0, "What the larger context costs."))
    for name, values, label, paper, floor, words in kinds:
        yield Figure(
            f"context-{name}", f"Context size: {name}", categories(
                context["size"], [("", values, 0)], "context points at test time", label, floor),
            f"The trained model asked with fewer context points. {words} Sizes are evenly "
            "spaced.", "Cost", paper)


def categories(names: Sequence[Any], lines: Sequence[tuple[str, Sequence[Number], int]],
               xlabel: str, ylabel: str, floor: float | None = None,
               guides: Sequence[tuple[str, float]] = ()) -> Svg:
    """Lines over evenly spaced names, from [(label, values, style)]."""
    values = [v for _, line, _ in lines for v in line] + [v for _, v in guides]
    plot = Plot((-0.3, max(len(names) - 0.7, 0.3)), domain(values, 0.1, floor), xlabel, ylabel,
                xticks=[(i, str(n)) for i, n in enumerate(names)],
                legend=[(label, style) for label, _, style in lines if label])
    for label, value in guides:
        plot.guide((plot.x[0], value), (plot.x[1], value), label)
    for label, line, style in lines:
        tips = [f"{label} {n}: {number(v)}".strip() for n, v in zip(names, line, strict=False)]
        plot.line(list(enumerate(line)), style, tips=tips)
    return plot.svg()


@run_figure("cost")
def draws(shown: Shown, cost: Section) -> Iterator[Figure]:
    """Accuracy by the numbers of draws."""
    grid = cost.get("draws")
    if not grid:
        return
    rows, columns = [str(n) for n in grid["N"]], [str(m) for m in grid["M"]]
    low, high = shown.span(("cost", "draws", "accuracy"), factor=100)
    _, slowest = shown.span(("cost", "draws", "seconds"), floor=0)
    yield Figure(
        "draws-accuracy", "Numbers of draws: accuracy, %", heat(
            percent_rows(grid["accuracy"]), "M, draws of the task latent", "N, draws of the global",
            low=low, high=high, digits=2, rows=rows, columns=columns,
            label="Accuracy by numbers of draws"),
        "Accuracy of the trained model with other numbers of draws at test time.", "Cost", "fig06")
    yield Figure(
        "draws-seconds", "Numbers of draws: seconds", heat(
            grid["seconds"], "M, draws of the task latent", "N, draws of the global", low=0,
            high=slowest, digits=2, scale="q", rows=rows, columns=columns,
            label="Seconds by numbers of draws"),
        "Time of the same evaluation; it grows with N times M.", "Cost")


@comparison_figure
def times_by_method(methods: Methods) -> Iterator[Figure]:
    """Inference time against context size, beside the methods that have no context."""
    lines: list[tuple[str, list[Number], int]] = []
    guides: list[tuple[str, float]] = []
    names: list[Any] = []
    for label, found in methods.sections("cost"):
        context = next((c["context"] for c in found if c.get("context")), None)
        if context:
            names = max(names, context["size"], key=len)
            images = found[0]["answer"]["images"]
            scaled = [None if s is None else 1e3 * s / images for s in context["seconds"]]
            lines.append((label, scaled, methods.styles[label]))
        elif finite([found[0]["answer"]["seconds"]]):
            each = [1e3 * c["answer"]["seconds"] / c["answer"]["images"] for c in found]
            guides.append((label, sum(each) / len(each)))
    if lines:
        yield Figure(
            "inference-time", "Inference time against context size", categories(
                names, lines, "context points at test time", "milliseconds per image", 0, guides),
            "What an answer costs as the context grows; dashed: methods without context. One "
            "thread.", "Curves", "tab08")
