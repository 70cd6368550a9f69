"""Latents of the neural processes: norms while learning, active units, drift."""
import math
from collections.abc import Iterable, Iterator
from typing import Any

from experiments.report.accuracy import curves_figure
from experiments.report.figure import (
    Figure,
    Methods,
    Number,
    Section,
    Shown,
    comparison_figure,
    run_figure,
)
from experiments.report.heat import heat
from experiments.report.svg import Plot, Svg, domain, finite
from experiments.words import amount


def _spread(rows: Iterable[Iterable[Any]]) -> list[tuple[Number, Number, Number]]:
    """Mean, least and largest of each row, the empty kept as None."""
    known = [finite(row) for row in rows]
    return [(sum(r) / len(r), min(r), max(r)) if r else (None, None, None) for r in known]


def _norms(epochs: Section, moment: str) -> Svg:
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


@run_figure("latents")
def latent_norms(shown: Shown, latents: Section) -> Iterator[Figure]:
    """L1 norms of the means and the standard deviations while learning."""
    if not latents["epochs"]["task"]:
        return
    regular = shown.run.section("run", "regularisers") or {}
    facts = (f"Weight of the global regulariser γ {amount(regular.get('gamma'))}, of the task "
             f"regulariser δ {amount(regular.get('delta'))}." if regular else "")
    for moment, words, part in (("mean", "means", "a"), ("sd", "standard deviations", "b")):
        yield Figure(
            f"latent-{words.replace(' ', '-')}", f"Latent {words} while learning",
            _norms(latents["epochs"], moment),
            f"L1 norm of the latent {words} at each recorded epoch. Past tasks that stay level "
            "are kept; ones that move are being forgotten. Compare a run with regularisers (γ, "
            "δ) with one without.", "Latents", f"fig08{part}", facts)


@run_figure("latents")
def latent_units(shown: Shown, latents: Section) -> Iterator[Figure]:
    """log KL of each unit, sorted: the active ones lie above the threshold."""
    if not (latents["units"]["global"] or latents["units"]["tasks"]):
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
    with_tr = ((shown.run.section("run", "regularisers") or {}).get("delta") or 0) > 0
    active = latents["active_global"][-1] if latents.get("active_global") else None
    yield Figure(
        "latent-units", "Activity of the latent units", plot.svg(),
        "KL between posterior and prior of every latent unit, largest first. A unit below the "
        "dashed threshold carries nothing.", "Latents", "fig03c" if with_tr else "fig03b",
        f"Active units of {latents['n_units']}: {amount(active)} of the global latent; "
        f"{', '.join(map(amount, latents.get('active_tasks') or []))} of the tasks' latents.")


@run_figure("latents")
def latent_drift(shown: Shown, latents: Section) -> Iterator[Figure]:
    """How far past task distributions moved from their stored form."""
    if not latents["drift"] or not any(finite(r) for r in latents["drift"]["w2"]):
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
        "of the global one from one task earlier. Regularisation of the latents (weights γ and δ) "
        "should hold both down.", "Latents", "fig03a")
    low, high = shown.span(("latents", "drift", "kl"), floor=0)
    yield Figure(
        "latent-drift-matrix", "Drift of each task, KL", heat(
            drift["kl"], "task", "after task", low=low, high=high, digits=2, scale="q",
            label="KL of each task's distribution from its stored form"),
        "KL of each task's distribution now from its stored form: down a column the task moves "
        "away.", "Latents")


@comparison_figure
def drift_by_method(methods: Methods) -> Iterator[Figure]:
    """Mean drift of the past tasks, methods and ablations side by side."""
    named = []
    for label, found in methods.sections("latents", "drift", "w2"):
        curves = [[mean for mean, *_ in _spread(rows)] for rows in found]
        if any(finite(curve) for curve in curves):
            named.append((label, curves))
    if named:
        yield Figure(
            "drift-by-method", "Drift of past distributions", curves_figure(
                named, "Wasserstein-2 distance, mean of tasks", limits=(0, None),
                styles=methods.styles),
            "How far past tasks' distributions are from their stored form, mean over tasks; the "
            "band is one standard deviation over the seeds. Runs without a regulariser (γ or δ 0) "
            "stand beside the full method where the folder has them.", "Curves", "fig03a")
