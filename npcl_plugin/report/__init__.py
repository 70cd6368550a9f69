"""What the plugin adds to `experiments`: measures, figures, tables, the paper's own figures.

Imported by the hook `npcl_plugin.add_experiments`; nothing else of the plugin needs `experiments`.
"""
import json
from dataclasses import replace
from pathlib import Path

from experiments import compact, identity, measures, run
from experiments.site.reference import REFERENCE
from experiments.sweeps import estimate
from experiments.tables import published
from experiments.tables.cost import cost
from experiments.tables.rows import Row, add_rows
from npcl_plugin import MODELS
from npcl_plugin.uncertainty.definitions import DEFINITIONS
from npcl_plugin.uncertainty.measures import MEASURES

PAPER = Path(__file__).parent / "paper.json"
_MODULES = ("", "models.npcl", "terms", "objective", "network", "latents", "gaussians", "inference",
            "context", "distribution_memory", "slow_weights", "stream", "uncertainty",
            "uncertainty.recorder", "uncertainty.calibration", "uncertainty.novelty",
            "uncertainty.confidence")
_VARIANTS = {
    ("npcl", "joint=1"): "joint_npcl", ("npcl", "joint=1 multitask=1"): "multitask_npcl",
    ("np", "joint=1"): "joint_np", ("anp", "joint=1"): "joint_anp",
    ("npcl", "model_config=release"): "npcl_release",
    ("npcl", "head_inference=naive"): "naive_npcl", ("npcl", "noisy_context=1"): "noisy",
    ("npcl", "delta=0 gamma=0"): "none", ("npcl", "delta=0"): "global",
    ("npcl", "gamma=0"): "task", ("npcl", "alpha=0"): "no_alpha", ("npcl", "beta=0"): "no_beta",
}
# The decoder that was the default in domain-IL until November 2026: heads can but shift its logits.
_LINEAR = "decoder_depth=0"


def _linear_variants() -> dict[tuple[str, str], str]:
    """The variants of models with heads, with a linear decoder."""
    found = {("npcl", _LINEAR): "npcl_linear", ("st_npcl", _LINEAR): "st_npcl_linear"}
    for (model, words), variant in _VARIANTS.items():
        if model == "npcl" and variant != "npcl_release":
            found[model, " ".join(sorted((*words.split(), _LINEAR)))] = f"{variant}_linear"
    return found


def _with_linear(*rows: Row) -> list[Row]:
    """Rows, each followed by the same with a linear decoder."""
    return [each for row in rows for each in (row, replace(
        row, variant=f"{row.variant}_linear", name=f"{row.name or row.variant}, linear decoder"))]


def register() -> None:
    """Make all of it known; the figures and tables register themselves when imported."""
    from npcl_plugin.report import (  # noqa: F401
        attention,
        claims,
        confidence,
        cost_figures,
        heads,
        latents,
        novelty,
        reproduction,
        rivals,
        tables,
    )

    measures.register(*(
        measures.headline_measure(m.name, m.label, m.definition, m.digits, m.better, m.compared)
        for m in MEASURES if m.label))
    measures.register(
        measures.Measure("stored_numbers", "Stored numbers", DEFINITIONS["storage"],
                         cost("storage", "stored").value, 0),
        measures.Measure("stored_by_der", "DER would store", "The logits that DER keeps for the "
                         "same buffer.", cost("storage", "der").value, 0))
    measures.define(DEFINITIONS)
    compact.KEPT["confidence"] = ("n_draws", "significance", "true_head")
    published.register(json.loads(PAPER.read_text(encoding="utf-8")),
                       "npcl_plugin/report/paper.json")
    REFERENCE["npcl_plugin"] = (
        "The plugin", "Shapes are written with the letters that the package's own text explains.",
        tuple(f"npcl_plugin.{name}".rstrip(".") for name in _MODULES))
    run.SUMMARY_MAKERS.append("python -m npcl_plugin.uncertainty")
    identity.VARIANTS.update(_VARIANTS | _linear_variants())
    identity.OWN_PROTOCOL += ["replay_size", "n_global", "warmup"]
    add_rows(Row("joint_np", "joint NP"), Row("joint_anp", "joint ANP"),
             *_with_linear(Row("joint_npcl", "joint NPCL"),
                           Row("multitask_npcl", "multitask NPCL")), after="joint")
    add_rows(Row("np", first=True), Row("anp", first=True), *_with_linear(
        Row("st_npcl", first=True), Row("naive_npcl", "naive NPCL"),
        Row("noisy", "NPCL, noisy context", ablation=True),
        Row("none", "NPCL without GR or TR", ablation=True),
        Row("global", "NPCL, GR only", ablation=True),
        Row("task", "NPCL, TR only", ablation=True),
        Row("no_alpha", "NPCL, α = 0 (ours)", ablation=True),
        Row("no_beta", "NPCL, β = 0 (ours)", ablation=True),
        Row("npcl", first=True)), Row("npcl_release", "NPCL, authors' code", first=True),
        Row("npcl_plus", first=True), after="xder_rpc")
    family = (name.replace("_", "-") for name in MODELS)
    estimate.COSTS.update(dict.fromkeys(family, _relative_cost))


def _relative_cost(backbone: str) -> float:
    """Beside ER: a few small layers, which an MLP feels most."""
    return {"identity": 4.0, "mlp": 4.0, "mnistmlp": 2.5, "smallconv": 1.7}.get(backbone, 1.1)
