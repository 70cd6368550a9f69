"""What plugins add: measures, figures, tables, names of variants, benchmarks of speed, pages.

A plugin's module (entry point `mammoth.plugins`) may have a function `add_experiments()`. It is
called once, before tables or a report are made, and registers what the plugin has to add:

    experiments.measures.register          numbers of a run
    experiments.report.figure.run_figure   figures of one run (decorator)
    experiments.report.figure.comparison_figure   figures over methods (decorator)
    experiments.report.claims.claim        claims of a paper, judged on the runs (decorator)
    experiments.report.answers.answer      answers in plain words at the top (decorator)
    experiments.report.figure.SCALES       which heat maps share a scale
    experiments.tables.sections.section    tables (decorator)
    experiments.tables.rows.add_rows       names and order of variants
    experiments.identity.VARIANTS, OWN_PROTOCOL   which arguments make such a variant
    experiments.tables.published.register  figures of a paper to stand beside ours
    experiments.sweeps.estimate.COSTS      how dear a method is beside ER
    experiments.commands.bench.job         benchmarks of speed (decorator)
    experiments.site.reference.REFERENCE   pages of the docs site's reference
"""
from engine.plugins import load_plugins, loaded_plugins

_called: set[str] = set()


def load_contributions() -> None:
    """Let every plugin register what it adds, once.

    Raises:
        UsageError: a plugin cannot be imported.
    """
    load_plugins()
    for name, module in loaded_plugins().items():
        if name not in _called and hasattr(module, "add_experiments"):
            _called.add(name)
            module.add_experiments()
