"""Latents and attention of the neural processes: norms, active units, drift, who looks where."""
import math

from experiments.report.accuracy import curves_figure
from experiments.report.figure import Figure, number, percent, tiled
from experiments.report.heat import heat
from experiments.report.svg import Plot, coloured, domain, finite, shape, text


def _spread(rows):
    """Mean, least and largest of each row, the empty kept as None."""
    known = [finite(row) for row in rows]
    return [(sum(r) / len(r), min(r), max(r)) if r else (None, None, None) for r in known]


def _norms(epochs, moment):
    """Lines over epochs: global, the task being learned, and the past tasks with their range."""
    steps = range(len(epochs["task"]))
    tasks = epochs["task"]
    current = [row[t] if t < len(row) else None
               for t, row in zip(tasks, epochs[f"task_{moment}"], strict=True)]
    past = _spread([row[:t] for t, row in zip(tasks, epochs[f"task_{moment}"], strict=True)])
    overall = epochs[f"global_{moment}"]
    values = [*overall, *current, *(v for p in past for v in p)]
    starts = [i for i in steps if i == 0 or tasks[i] != tasks[i - 1]]
    plot = Plot((-0.3, max(len(tasks) - 0.7, 0.3)), domain(values, 0.08, 0),
                "task (its epochs from left to right)", "L1 norm",
                xticks=[(i, str(tasks[i] + 1)) for i in starts],
                legend=[("global", 6), ("task being learned", 1), ("past tasks: mean, range", 0)])
    plot.band([(i, low, high) for i, (_, low, high) in enumerate(past)], 0)
    for style, line in ((0, [m for m, *_ in past]), (6, overall), (1, current)):
        plot.line(list(enumerate(line)), style, dots=len(tasks) <= 40)
    return plot.svg()


def latent_norms(run):
    """L1 norms of the means and the standard deviations while learning."""
    latents = run.measures.get("latents")
    if not latents or not latents["epochs"]["task"]:
        return
    regular = run.measures["run"].get("regularisers") or {}
    facts = f"γ of GR {regular.get('gamma')}, δ of TR {regular.get('delta')}." if regular else ""
    for moment, words, part in (("mean", "means", "a"), ("sd", "standard deviations", "b")):
        yield Figure(
            f"latent-{words.replace(' ', '-')}", f"Latent {words} while learning",
            _norms(latents["epochs"], moment),
            f"L1 norm of the latent {words} at each recorded epoch. Past tasks that stay level "
            "are kept; ones that move are being forgotten. Compare a run with GR and TR with one "
            "without.", "Latents", f"fig08{part}", facts)


def latent_units(run):
    """log KL of each unit, sorted: the active ones lie above the threshold."""
    latents = run.measures.get("latents")
    if not latents or not (latents["units"]["global"] or latents["units"]["tasks"]):
        return
    whole, tasks = latents["units"]["global"] or [], latents["units"]["tasks"] or []
    columns = _spread(list(zip(*tasks, strict=False)))
    values = [*whole, *(v for c in columns for v in c)]
    count = max(len(whole), len(columns), 2)
    plot = Plot((0, count - 1), domain(values, 0.08), "latent units, sorted", "log10 KL",
                legend=[("global", 6), ("tasks: mean, range", 0)])
    plot.band([(i, low, high) for i, (_, low, high) in enumerate(columns)], 0)
    plot.line([(i, c[0]) for i, c in enumerate(columns)], 0, dots=False)
    plot.line(list(enumerate(whole)), 6, dots=False)
    threshold = latents.get("threshold")
    if threshold and plot.y[0] < math.log10(threshold) < plot.y[1]:
        level = math.log10(threshold)
        plot.guide((0, level), (count - 1, level), "active above")
    with_tr = ((run.measures["run"].get("regularisers") or {}).get("delta") or 0) > 0
    active = latents["active_global"][-1] if latents.get("active_global") else None
    yield Figure(
        "latent-units", "Activity of the latent units", plot.svg(),
        "KL between posterior and prior of every latent unit, largest first. A unit below the "
        "dashed threshold carries nothing.", "Latents", "fig03c" if with_tr else "fig03b",
        f"Active: global {active} of {latents['n_units']}; tasks "
        f"{', '.join(str(v) for v in latents.get('active_tasks') or [])}.")


def latent_drift(run):
    """How far past task distributions moved from their stored form."""
    latents = run.measures.get("latents")
    if not latents or not latents["drift"] or not any(finite(r) for r in latents["drift"]["w2"]):
        return
    drift = latents["drift"]
    past, whole = _spread(drift["w2"]), drift["global_w2"]
    values = [*finite(whole), *(v for p in past for v in p), 0]
    plot = Plot((-0.3, len(past) - 0.7), domain(values, 0.08, 0), "tasks learned",
                "Wasserstein-2 distance", xticks=[(i, str(i + 1)) for i in range(len(past))],
                legend=[("global", 6), ("past tasks: mean, range", 0)])
    plot.band([(i, low, high) for i, (_, low, high) in enumerate(past)], 0)
    plot.line([(i, p[0]) for i, p in enumerate(past)], 0)
    plot.line(list(enumerate(whole)), 6)
    yield Figure(
        "latent-drift", "Drift of past distributions", plot.svg(),
        "Distance of each past task's distribution from the form stored when it was learned, and "
        "of the global one from one task earlier. Regularisation (GR, TR) should hold both "
        "down.", "Latents", "fig03a")
    yield Figure(
        "latent-drift-matrix", "Drift of each task, KL", heat(
            drift["kl"], "task", "after task", low=0, digits=2, scale="q",
            label="KL of each task's distribution from its stored form"),
        "KL of each task's distribution now from its stored form: down a column the task moves "
        "away.", "Latents")


def drift_by_method(table):
    """Mean drift of the past tasks, methods and ablations side by side."""
    named = []
    for group in table.groups:
        found = [r.measures["latents"]["drift"]["w2"] for r in group.runs
                 if r.measures and r.measures.get("latents")]
        curves = [[m for m, *_ in _spread(rows)] for rows in found]
        if any(finite(curve) for curve in curves):
            named.append((group.label, curves))
    if named:
        yield Figure(
            "drift-by-method", "Drift of past distributions", curves_figure(
                named, "Wasserstein-2 distance, mean of tasks", limits=(0, None),
                styles=table.styles),
            "How far past tasks' distributions are from their stored form, mean over tasks; the "
            "band is one standard deviation over the seeds. Runs without GR or TR (γ or δ 0) "
            "stand beside the full method where the folder has them.", "Curves", "fig03a")


def _query(query, high):
    weights = query["weights"]
    plot = Plot((-0.7, len(weights) - 0.3), (0, high), "context points, most attended first",
                "attention", height=74, xticks=[(i, str(i + 1)) for i in range(len(weights))])
    for i, (weight, task, label) in enumerate(zip(weights, query["tasks"], query["labels"],
                                                  strict=True)):
        if finite([weight]):
            x, y = plot.px(i), plot.py(weight)
            plot.parts.append(f'<path class="a" d="M{x:.1f} {plot.bottom:.1f}V{y:.1f}"/>')
            plot.parts.append(coloured(
                shape(x, y, 0, 5.2, f"task {task + 1}, class {label}: {number(weight)}"), task))
            plot.parts.append(text(x, y - 8, task + 1, "c n b" if task == query["task"]
                                   else "c n m"))
    verdict = "right" if query["label"] == query["predicted"] else "wrong"
    plot.parts.append(text(plot.right, plot.top - 10, f"query of task {query['task'] + 1}, class "
                           f"{query['label']} ({verdict})", "e"))
    return plot.svg()


def attention_queries(run):
    """The context points that chosen queries attend to."""
    attention = run.measures.get("attention")
    if not attention or not attention["queries"]:
        return
    high = 1.35 * max(finite([w for q in attention["queries"] for w in q["weights"]]), default=1)
    yield Figure(
        "attention-queries", "Most attended context points", tiled(
            [_query(q, high) for q in attention["queries"]], 1, "Attention of chosen queries"),
        f"Four test samples and the 15 of {attention['n_context']} context points that each "
        "attends to most. The number above a point is the task it comes from, bold when it is "
        "the query's own. Attention that knew the task would show bold numbers only.",
        "Attention", "fig11a")


def attention_share(run):
    """Attention on the query's own task beside its share of the context."""
    attention = run.measures.get("attention")
    if not attention or not finite(attention["own_share"]):
        return
    share, chance = percent(attention["own_share"]), percent(attention["own_share_by_chance"])
    plot = Plot((-0.6, len(share) - 0.4), (0, 1.1 * max(finite([*share, *chance]))), "task",
                "attention on its own task, %", filled=True,
                xticks=[(i, str(i + 1)) for i in range(len(share))],
                legend=[("attention", 0), ("share of the context", 6)])
    for i, value in enumerate(share):
        plot.bar(i, 0.36, value, 0, f"task {i + 1}: {number(value, 1)} %")
    for i, value in enumerate(chance):
        if finite([value]):
            y = plot.py(value)
            plot.parts.append(f'<path class="l s6" d="M{plot.px(i - 0.44):.1f} {y:.1f}'
                              f'H{plot.px(i + 0.44):.1f}"/>')
    yield Figure(
        "attention-share", "Attention on the query's own task", plot.svg(),
        "Share of the attention that falls on context of the query's own task (bar) and the "
        "share of the context that is of that task (line). A bar at its line: attention does "
        "not know the task.", "Attention")


def self_attention(run):
    """The map over the sorted context."""
    attention = run.measures.get("attention")
    grid = ((attention or {}).get("self_attention") or {}).get("map")
    if grid:
        blocks = [str(i + 1) for i in range(len(grid))]
        yield Figure(
            "self-attention", "Self-attention over the sorted context", heat(
                grid, "attended to (ascending feature value)", "from", numbers=False, rows=blocks,
                columns=blocks, label="Self-attention map"),
            "Context points sorted by mean feature value, averaged into blocks. Upright stripes "
            "at the edges: points attend to extreme values, not to similar ones.", "Attention",
            "fig11b")
