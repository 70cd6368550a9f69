"""What happens after a run: sweeps of many runs, tables over them, a report to look at.

    run.py       one run, read from its folder or from a compact record
    identity.py  what makes two runs the same experiment
    measures.py  every number that is shown: its name, meaning, digits and direction
    sweeps/      many runs from a grid of arguments, here or on a cluster
    tables/      the paper's tables, cost, comparison, search, headline
    report/      one HTML page of figures and tables
    commands/    the command lines; the scripts in utils/ and the installed commands call them

The package knows the harness and no method in particular; a plugin adds measures, figures and
tables of its own (see `contributions.py`).
"""
import mammoth  # noqa: F401  (makes the harness's modules importable by upstream's names)
