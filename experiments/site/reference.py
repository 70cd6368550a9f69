"""Which modules the reference of the docs site shows; a plugin adds its own page."""

# Page -> (title, what stands first, modules).
REFERENCE: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "mammoth": ("In Python", "What `from mammoth import ...` gives, and what it returns.", (
        "mammoth", "asking.learner", "asking.answer", "asking.abstaining", "asking.images",
        "utils.notebooks")),
    "harness": ("Interfaces of the harness", "What a method, a benchmark, a network or a plugin "
                "builds on. The names under `utils`, `models`, `datasets` and `backbone` are "
                "upstream's.", (
                    "models.utils.continual_model", "datasets.utils.continual_dataset",
                    "datasets.utils.builtin", "backbone.base", "utils.buffer", "utils.evaluate",
                    "utils.checkpoints", "asking.explanation", "engine.plugins",
                    "engine.extensions", "engine.settings", "engine.identity")),
    "experiments": ("Experiments", "Reading runs, measures, figures, claims and sweeps.", (
        "experiments.run", "experiments.identity", "experiments.measures",
        "experiments.contributions", "experiments.report.figure", "experiments.report.claims",
        "experiments.report.answers", "experiments.sweeps.grid")),
}
