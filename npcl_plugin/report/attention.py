"""Attention of the neural processes: who looks at which context."""
from collections.abc import Iterator

from experiments.report.figure import Figure, Section, Shown, number, percent, run_figure, tiled
from experiments.report.heat import heat
from experiments.report.svg import Plot, Svg, coloured, finite, shape, text
from experiments.run import is_number


def _query(query: Section, high: float) -> Svg:
    weights = query["weights"]
    plot = Plot((-0.7, len(weights) - 0.3), (0, high), "context points, most attended first",
                "attention", height=74, width=280,
                xticks=[(i, str(i + 1)) for i in range(len(weights))])
    stems: list[str] = []
    for i, (weight, task, label) in enumerate(zip(weights, query["tasks"], query["labels"],
                                                  strict=True)):
        if finite([weight]):
            x, y = plot.px(i), plot.py(weight)
            stems.append(f"M{x:.1f} {plot.bottom:.1f}V{y:.1f}")
            plot.parts.append(coloured(
                shape(x, y, 0, 5.2, f"task {task + 1}, class {label}: {number(weight)}"), task))
            plot.parts.append(text(x, y - 8, task + 1, "c n b" if task == query["task"]
                                   else "c n m"))
    plot.parts.insert(0, f'<path class="a" d="{"".join(stems)}"/>')
    verdict = "right" if query["label"] == query["predicted"] else "wrong"
    plot.parts.append(text(plot.right, plot.top - 10, f"task {query['task'] + 1}, class "
                           f"{query['label']} ({verdict})", "e"))
    return plot.svg()


@run_figure("attention")
def attention_queries(shown: Shown, attention: Section) -> Iterator[Figure]:
    """The context points that chosen queries attend to."""
    if not attention["queries"]:
        return
    high = 1.35 * max(finite([w for q in attention["queries"] for w in q["weights"]]), default=1)
    yield Figure(
        "attention-queries", "Most attended context points", tiled(
            [_query(q, high) for q in attention["queries"]], 2, "Attention of chosen queries"),
        f"Four test samples and the 15 of {attention['n_context']} context points that each "
        "attends to most. The number above a point is the task it comes from, bold when it is "
        "the query's own. Attention that knew the task would show bold numbers only.",
        "Attention", "fig11a")


@run_figure("attention")
def attention_share(shown: Shown, attention: Section) -> Iterator[Figure]:
    """Attention on the query's own task beside its share of the context."""
    if not finite(attention["own_share"]):
        return
    share, chance = percent(attention["own_share"]), percent(attention["own_share_by_chance"])
    plot = Plot((-0.6, len(share) - 0.4), (0, 1.1 * max(finite([*share, *chance]))), "task",
                "attention on its own task, %", filled=True,
                xticks=[(i, str(i + 1)) for i in range(len(share))],
                legend=[("attention", 0), ("share of the context", 6)])
    for i, value in enumerate(share):
        plot.bar(i, 0.36, value, 0, f"task {i + 1}: {number(value, 1)} %")
    for i, value in enumerate(chance):
        if is_number(value):
            y = plot.py(value)
            plot.parts.append(f'<path class="l s6" d="M{plot.px(i - 0.44):.1f} {y:.1f}'
                              f'H{plot.px(i + 0.44):.1f}"/>')
    yield Figure(
        "attention-share", "Attention on the query's own task", plot.svg(),
        "Share of the attention that falls on context of the query's own task (bar) and the "
        "share of the context that is of that task (line). A bar at its line: attention does "
        "not know the task.", "Attention")


@run_figure("attention")
def self_attention(shown: Shown, attention: Section) -> Iterator[Figure]:
    """The map over the sorted context."""
    grid = (attention.get("self_attention") or {}).get("map")
    if grid:
        blocks = [str(i + 1) for i in range(len(grid))]
        yield Figure(
            "self-attention", "Self-attention over the sorted context", heat(
                grid, "attended to (ascending feature value)", "from", numbers=False, rows=blocks,
                columns=blocks, label="Self-attention map"),
            "Context points sorted by mean feature value, averaged into blocks. Upright stripes "
            "at the edges: points attend to extreme values, not to similar ones.", "Attention",
            "fig11b")
