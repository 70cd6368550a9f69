"""Put methods side by side on one benchmark.

    python utils/compare.py --models er der --dataset seq-digits --buffer_size 200 --seeds 3

Runs what is missing (a finished run is never repeated), several at a time, and prints one
aligned table: mean and standard deviation over the seeds, the paper's figure where it has the
setting, best (*) and second best (+), and a paired t-test against the first method. The table is
also written as Markdown, CSV and LaTeX, below the results unless --out says where, and with
--report as a page with curves, calibration and novelty. Arguments that are not listed below go
to every run, e.g. --n_epochs 1.
"""
import hashlib
import re
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import UsageError
from engine.files import atomic_write, ensure_writable
from engine.heap import importing
from experiments.commands import command_parser, told
from experiments.commands.report import write_page
from experiments.identity import protocol, variant
from experiments.run import Run
from experiments.sweeps.display import Display
from experiments.sweeps.estimate import expected_time
from experiments.sweeps.execution import Outcome, done_before, log_file
from experiments.sweeps.grid import MOST_RUNS
from experiments.sweeps.launchers import policy_of
from experiments.sweeps.local import LocalLauncher
from experiments.sweeps.options import add_run_options, extra_arguments, folders_of, jobs_of
from experiments.sweeps.specification import RunSpec, check
from experiments.tables.comparison import compare
from experiments.tables.published import figures
from experiments.tables.table import Table
from experiments.words import counted, listed

_LONGEST = 120


def parse_args(argv: Sequence[str] | None = None) -> tuple[Namespace, list[str]]:
    """Our own arguments, and the rest for main.py."""
    parser = command_parser(__doc__, allow_abbrev=False)
    parser.add_argument("--models", nargs="+", required=True, help="methods, as for --model")
    parser.add_argument("--dataset", required=True, help="benchmark")
    parser.add_argument("--buffer_size", type=int, default=200,
                        help="samples that the buffer holds, for methods that have one (default "
                             "200)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0, 1, ... (default 3)")
    parser.add_argument("--out", type=Path, metavar="PREFIX",
                        help="write PREFIX.md, PREFIX.csv and PREFIX.tex (default: named after "
                             "the comparison, in comparisons/ below --results_path)")
    parser.add_argument("--report", action="store_true",
                        help="also write PREFIX.html, the report of these runs")
    parser.add_argument("--no_uncertainty", "--no-uncertainty", action="store_true",
                        help="leave out the calibration error, which costs some time")
    add_run_options(parser)
    options, rest = parser.parse_known_args(argv)
    # `er_ace` and `er-ace` are the same method.
    options.models = list(dict.fromkeys(name.replace("-", "_") for name in options.models))
    return options, rest


def arguments_of(model: str) -> set[str]:
    """The names of a method's own arguments, and of those that plugins give to all.

    Raises:
        UsageError: there is no such method.
    """
    from engine.parsing import general_parser
    from engine.plugins import load_plugins
    from models import get_model_class
    from utils.args import ArgumentParser

    load_plugins()
    method: Any = get_model_class(model)
    own = method.get_parser(ArgumentParser(add_help=False))
    return {action.dest for action in (*own._actions, *general_parser()._actions)}


def plan(options: Namespace, rest: Sequence[str]) -> list[RunSpec]:
    """A run for each method and seed; one that cannot be is kept with the reason.

    Raises:
        UsageError: none of them can be.
    """
    folders, extra, specs = folders_of(options), extra_arguments(rest), []
    known = {model: arguments_of(model) for model in options.models}
    for seed in range(options.seeds):
        for model in options.models:
            given = {"model": model, "dataset": options.dataset}
            if "buffer_size" in known[model]:
                given["buffer_size"] = options.buffer_size
            if "uncertainty" in known[model] and not options.no_uncertainty:
                given["uncertainty"] = 1
            spec = RunSpec({**given, **extra, "seed": seed}, folders, label=f"{model} seed {seed}")
            try:
                check(spec, "compare.py")
            except UsageError as error:
                spec.error = str(error)
            specs.append(spec)
    if all(spec.error for spec in specs):
        raise UsageError(specs[0].error)
    return specs


def run_all(specs: list[RunSpec], launcher: LocalLauncher) -> tuple[dict[int, Outcome], int]:
    """All the runs, `--jobs` at a time.

    Returns:
        (outcomes by place in `specs`, number of the signal that stopped it)
    """
    jobs, policy = launcher.jobs, launcher.policy
    outcomes: dict[int, Outcome] = {}
    for i, spec in enumerate(specs):
        known = done_before(spec, policy)
        if known is not None:
            outcomes[i] = known
    todo = [spec for i, spec in enumerate(specs) if i not in outcomes]
    seconds, words = expected_time(todo, jobs, [(specs[i], o) for i, o in outcomes.items()])
    print(f"{counted(len(specs), 'run')}, {len(todo)} to do: {words}.", flush=True)
    display = Display(len(specs), jobs, seconds)
    for i, outcome in sorted(outcomes.items()):
        display.ending(specs[i], outcome)
    places = {id(spec): i for i, spec in enumerate(specs)}

    def ended(spec: RunSpec, outcome: Outcome) -> None:
        outcomes[places[id(spec)]] = outcome
        display.ending(spec, outcome)

    return outcomes, launcher.run(todo, display, ended)


def table_of(options: Namespace, specs: Sequence[RunSpec], outcomes: Mapping[int, Outcome]
             ) -> Table:
    """The table, with the paper's figures where these are runs of its protocol."""
    results: dict[str, dict[int, Run]] = {model: {} for model in options.models}
    names: dict[str, tuple[str, str]] = {}
    dataset = options.dataset.replace("_", "-")
    for i, spec in enumerate(specs):
        model = spec.given["model"]
        asked = Run(model, dataset, "", {}, "", given=spec.given)
        names[model] = ("" if protocol(asked) else variant(asked),
                        str(spec.given.get("buffer_size", 0)))
        run = outcomes[i].run if i in outcomes else None
        if run is not None:
            results[model][spec.given["seed"]] = run

    def paper(measure: str, model: str) -> list[float]:
        name, size = names[model]
        found: list[float] = figures(measure).get(dataset, {}).get(size, {}).get(name, [])
        return found

    return compare(results, paper)


def threads_of(outcomes: Mapping[int, Outcome]) -> str:
    """`1 thread`, or `1 and 2 threads` where runs that were finished before had others."""
    found = sorted({outcome.run.versions.get("threads", "1") for outcome in outcomes.values()
                    if outcome.run is not None} or {"1"})
    return f"{listed(found)} thread{'s' if found != ['1'] else ''}"


def default_prefix(options: Namespace, rest: Sequence[str]) -> Path:
    """Where the table goes: the same comparison writes the same files."""
    words = [options.dataset, str(options.buffer_size), *options.models, *rest]
    name = re.sub(r"[^\w.]+", "-", " ".join(words).replace("--", ""))
    if len(name) > _LONGEST:  # a file's name has at most 255 bytes
        name = f"{name[:_LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return folders_of(options).results / "comparisons" / name


def write(prefix: Path, table: Table, title: str) -> None:
    """The table in three formats beside each other."""
    for suffix, text in ((".md", f"{title}\n\n{table.markdown()}\n"),
                         (".csv", table.csv()), (".tex", table.latex())):
        atomic_write(prefix.with_name(prefix.name + suffix), text.encode())
    print(f"Written: {prefix}.md, {prefix}.csv, {prefix}.tex")


def refuse_impossible(options: Namespace, rest: Sequence[str]) -> None:
    """Say what cannot work before anything is planned.

    Raises:
        UsageError: no or too many runs, or an argument that the comparison itself gives.
    """
    if options.seeds < 1:
        raise UsageError(f"Expected --seeds to be at least 1, but got {options.seeds}.")
    count = options.seeds * len(options.models)
    if count > MOST_RUNS:
        raise UsageError(f"{count:,} runs are more than the {MOST_RUNS:,} of one comparison; give "
                         "fewer --seeds or --models.")
    for name in ("model", "seed"):
        if name in extra_arguments(rest):
            raise UsageError(f"--{name} belongs to the comparison itself; give --{name}s instead.")


def run_and_show(options: Namespace, rest: Sequence[str]) -> int:
    """Run, then print the table; exit code 1 if a run failed."""
    refuse_impossible(options, rest)
    launcher = LocalLauncher(jobs_of(options), policy_of(options))
    with importing():  # torch, to know what the methods take
        specs = plan(options, rest)
    prefix = options.out or default_prefix(options, rest)
    ensure_writable(prefix.parent, "--out or --results_path")
    outcomes, signal_number = run_all(specs, launcher)
    if signal_number:
        print("error: Interrupted; the same command goes on where the runs were stopped.",
              file=sys.stderr)
        return 128 + signal_number
    table = table_of(options, specs, outcomes)
    title = (f"{options.dataset}, buffer {options.buffer_size}, {counted(options.seeds, 'seed')}, "
             f"{threads_of(outcomes)} per run{', ' + ' '.join(rest) if rest else ''}")
    print(f"\n{title}\n* best, + second best; p: paired t-test against {options.models[0]}; "
          "seconds without start-up and uncertainty\n")
    print(table.text() + "\n")
    write(prefix, table, title)
    runs = [outcome.run for _, outcome in sorted(outcomes.items()) if outcome.run is not None]
    if options.report and runs:
        write_page(runs, [], folders_of(options).results, prefix.with_name(prefix.name + ".html"))
    failed = [i for i in sorted(outcomes) if outcomes[i].state == "failed"]
    for i in failed:
        log = log_file(specs[i]) if not specs[i].error else None
        where = f"; log: {log}" if log is not None and log.exists() else ""
        print(f"failed: {specs[i].label}: {outcomes[i].words}{where}", file=sys.stderr)
    return 1 if failed else 0


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    return told(lambda: run_and_show(*parse_args(argv)))
