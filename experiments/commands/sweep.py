"""Run every combination of a grid of arguments, here or on a cluster.

    python utils/sweep.py GRID.yaml                      on this machine, all cores
    python utils/sweep.py GRID.yaml --dry_run            what would be run, and for how long
    python utils/sweep.py GRID.yaml --launcher ray       on a Ray cluster
    python utils/sweep.py GRID.yaml --launcher slurm --partition gpu --time 240

A finished run is never repeated; a killed sweep goes on where it stopped when the same command
is given again; a failed run is reported at the end and stops no other. Arguments that are not
listed below go to every run, e.g. --n_epochs 1. docs/sweeps.md explains the grid file.
"""
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.errors import UsageError
from engine.heap import importing
from engine.identity import one_spelling
from experiments.commands import command_parser, told
from experiments.sweeps.display import Display
from experiments.sweeps.estimate import expected_time
from experiments.sweeps.execution import Outcome, done_before, log_file, look_up
from experiments.sweeps.grid import plan, shorten_labels
from experiments.sweeps.launchers import (
    LAUNCHERS,
    add_cluster_options,
    make_launcher,
    policy_of,
    runs_at_a_time,
)
from experiments.sweeps.options import add_run_options, extra_arguments, folders_of
from experiments.sweeps.specification import RunSpec, without_duplicates
from experiments.words import counted, listed


def parse_args(argv: Sequence[str] | None = None) -> tuple[Namespace, list[str]]:
    """Our own arguments, and the rest for every run."""
    parser = command_parser(__doc__, allow_abbrev=False)
    parser.add_argument("grids", type=Path, nargs="+", metavar="GRID.yaml", help="grid files")
    parser.add_argument("--launcher", choices=LAUNCHERS, default="local",
                        help="where the runs go (default: local)")
    add_run_options(parser)
    parser.add_argument("--only", metavar="GLOB",
                        help="only blocks or runs whose name fits, e.g. 'few-shot*', '* seed 0'")
    parser.add_argument("--limit", type=int, help="largest number of unfinished runs to start")
    parser.add_argument("--dry_run", action="store_true", help="show the runs and start none")
    add_cluster_options(parser)
    return parser.parse_known_args(argv)


def read_plan(options: Namespace, rest: Sequence[str]) -> list[RunSpec]:
    """The runs of all grid files, checked before anything starts."""
    folders, extra = folders_of(options), extra_arguments(rest)
    specs, repeated = without_duplicates(
        spec for path in options.grids for spec in plan(path, folders, extra, options.only))
    if repeated:
        print(said_of_repeated(specs, repeated))
    shorten_labels(specs)
    return specs


def said_of_repeated(specs: Sequence[RunSpec], repeated: Sequence[RunSpec]) -> str:
    """How many runs are done once, and which arguments do not make another run."""
    first = {spec.key: spec.given for spec in specs}
    idle = {name for spec in repeated for name in (*spec.given, *first[spec.key])
            if one_spelling(name, spec.given.get(name))
            != one_spelling(name, first[spec.key].get(name))}
    many = len(repeated) > 1
    said = (f"{counted(len(repeated), 'run')} {'stand' if many else 'stands'} in the grid more "
            f"than once and {'are' if many else 'is'} done once")
    names = listed([f"--{name}" for name in sorted(idle)]) if idle else ""
    return f"{said}; a run is the same with another {names}." if idle else f"{said}."


def report(specs: Sequence[RunSpec], outcomes: Mapping[str, Outcome], signal_number: int) -> int:
    """The last words: what failed, with its log, and how to go on; returns the exit code."""
    states = Counter(outcome.state for outcome in outcomes.values())
    new = sum(o.new and o.state == "finished" for o in outcomes.values())
    print(f"{states['finished']} of {len(specs)} runs finished ({new} now), {states['failed']} "
          f"failed.")
    for spec in specs:
        outcome = outcomes.get(spec.key)
        if outcome is not None and outcome.state == "failed":
            log = log_file(spec)
            where = f"; log: {log}" if log.exists() else ""
            print(f"failed: {spec.label}: {outcome.words}{where}", file=sys.stderr)
    if signal_number:
        print("error: Interrupted; the same command goes on where the runs were stopped.",
              file=sys.stderr)
        return 128 + signal_number
    return 1 if states["failed"] else 0


def dry_run(specs: Sequence[RunSpec], todo: Sequence[RunSpec]) -> int:
    """List the runs."""
    waiting = {spec.key for spec in todo}
    for spec in specs:
        print(f"{'to do   ' if spec.key in waiting else 'finished'}  {spec.shown()}")
    return 0


def sweep(options: Namespace, rest: Sequence[str]) -> int:
    """Plan, say how long it takes, run, report."""
    if options.limit is not None and options.limit < 0:
        raise UsageError(f"Expected --limit to be at least 0, but got {options.limit}.")
    jobs = runs_at_a_time(options)
    launcher = None if options.dry_run else make_launcher(options, jobs)
    with importing():  # torch, to know what the methods take
        specs = read_plan(options, rest)
    outcomes: dict[str, Outcome] = {}
    for spec in specs:
        known = look_up(spec) if options.dry_run else done_before(spec, policy_of(options))
        if known is not None:
            outcomes[spec.key] = known
    todo = [spec for spec in specs if spec.key not in outcomes]
    cut = todo[:options.limit] if options.limit is not None else todo
    seconds, words = expected_time(cut, jobs, [(spec, outcomes[spec.key]) for spec in specs
                                               if spec.key in outcomes])
    limited = f" (of {len(todo)}; --limit)" if len(cut) < len(todo) else ""
    print(f"{counted(len(specs), 'run')}, {len(specs) - len(todo)} finished already, {len(cut)} to "
          f"do{limited}: {words}.", flush=True)
    if launcher is None:
        return dry_run(specs, cut)
    display = Display(len(cut), jobs, seconds)

    def ended(spec: RunSpec, outcome: Outcome) -> None:
        outcomes[spec.key] = outcome
        display.ending(spec, outcome)

    return report(specs, outcomes, launcher.run(cut, display, ended) if cut else 0)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    return told(lambda: sweep(*parse_args(argv)))
