"""What makes two runs the same experiment, and what an experiment is called.

The harness's table (`engine.identity`) says which arguments count. Runs read from folders are
grouped by all their resolved arguments (`experiments_of`). Tables name a run by what its command
changed (`variant`, `protocol`), because records of older code keep no more than the command; where
resolved arguments are known and differ all the same, they are told apart too.
"""
import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import UsageError
from engine.identity import Role, experiment_settings, observations, role
from experiments.command_line import without_folder
from experiments.run import LeftOut, Run

# What makes a run something else than the published protocol: arguments of every method, and
# arguments of some (to which plugins add theirs).
PROTOCOL = ("n_epochs", "n_iters", "fitting_mode", "backbone", "stop_after", "start_from",
            "batch_size", "debug_mode", "label_perc", "label_perc_by_class", "validation",
            "noise_rate", "dataset_config", "drop_last", "features", "features_size",
            "features_weights")
OWN_PROTOCOL: list[str] = []
# (model, its settings as `name=value name=value`) -> the row's name, for variants with a name.
VARIANTS: dict[tuple[str, str], str] = {}

Key = tuple[str, int, str]  # dataset, buffer size, variant
Settings = dict[str, str]


def plain(value: Any) -> str:
    """One spelling of a value: 0.0, 0 and False are the same."""
    if isinstance(value, list):
        return " ".join(map(plain, value))
    if isinstance(value, bool):
        return str(int(value))
    try:
        return f"{float(value):g}"
    except (TypeError, ValueError, OverflowError):
        return str(value)


@functools.cache
def counts(name: str) -> bool:
    """Whether an argument makes an experiment another one (files count by their names)."""
    return name in ("loadcheck", "features", "features_weights") or role(name, _looking()) in (
        Role.SETTING, Role.STEERING, Role.PART)


@functools.cache
def _looking() -> dict[str, Any]:
    from engine.plugins import load_plugins

    load_plugins()
    return observations()


def changed_settings(run: Run) -> Settings:
    """What the command gave besides model, benchmark, buffer size and seed."""
    return {name: plain(without_folder(name, value) if isinstance(value, str) else value)
            for name, value in sorted(run.given.items())
            if value is not None and name not in ("model", "dataset", "buffer_size")
            and counts(name)}


@functools.cache
def defaults_of(dataset: str) -> Settings:
    """The published protocol of a benchmark: the values that need not be given."""
    from datasets import get_dataset_class
    from datasets.utils import default_args

    try:
        return {name: plain(value) for name, value
                in default_args(get_dataset_class(dataset)).items() if value is not None}
    except UsageError:
        return {}


def reductions(run: Run) -> tuple[Settings, Settings]:
    """What differs from the full protocol: arguments of every method, arguments of this one."""
    given = changed_settings(run)
    usual = defaults_of(run.dataset) if given else {}

    def differing(names: Sequence[str]) -> Settings:
        return {name: given[name] for name in sorted(names) if name in given
                and given[name] != usual.get(name) and given[name] not in ("0", "epochs")}

    return differing(PROTOCOL), differing(OWN_PROTOCOL)


def _listed(given: Settings) -> str:
    return ", ".join(f"{name} {value}" for name, value in given.items())


def protocol(run: Run) -> str:
    """`` for the full protocol, else what differs: `backbone reduced-resnet18, n_epochs 5`.

    What only some methods have makes a protocol when nothing else does; else it is named in
    the row (see `variant`), so that methods that were reduced alike share a table.
    """
    shared, own = reductions(run)
    return _listed(shared or own)


def variant(run: Run) -> str:
    """The name of the run's row: a method, a variant with a name of its own, or `er, lr 0.5`."""
    shared, own = reductions(run)
    special = own if shared else {}
    given = {name: value for name, value in changed_settings(run).items()
             if name in special or name not in (*PROTOCOL, *OWN_PROTOCOL)}
    model = run.model.replace("-", "_")
    words = " ".join(f"{name}={value}" for name, value in given.items())
    if not words:
        return model
    return VARIANTS.get((model, words)) or f"{model}, {_listed(given)}"


def by_row(runs: Iterable[Run]) -> dict[tuple[str, str, int, str], list[Run]]:
    """(protocol, dataset, buffer size, variant) -> its runs, one per seed.

    Of two runs with the same seed the one that also looked at uncertainty counts.
    """
    rows: dict[tuple[str, str, int, str], list[Run]] = {}
    for run in runs:
        idle = plain(run.given.get("joint")) == "1"  # all data at once: the buffer is not used
        key = (protocol(run), run.dataset, 0 if idle else run.buffer_size or 0, variant(run))
        rows.setdefault(key, []).append(run)
    return {(*key[:3], name): _one_per_seed(group) for key, together in rows.items()
            for name, group in _told_apart(key[3], together).items()}


def _one_per_seed(runs: Iterable[Run]) -> list[Run]:
    seeds: dict[int, Run] = {}
    for run in runs:
        known = seeds.get(run.seed or 0)
        if known is None or (run.summary is not None and known.summary is None):
            seeds[run.seed or 0] = run
    return [seeds[seed] for seed in sorted(seeds)]


def _told_apart(name: str, runs: list[Run]) -> dict[str, list[Run]]:
    """Runs of one command under one name, unless their resolved arguments are known to differ."""
    known = [_resolved(run) for run in runs]
    differing = sorted({key for one in known for key in one
                        if len({other.get(key) for other in known if other}) > 1})
    if not differing:
        return {name: runs}
    found: dict[str, list[Run]] = {}
    for run, settings in zip(runs, known, strict=True):
        words = _listed({key: settings[key] for key in differing if key in settings})
        found.setdefault(f"{name}, {words or 'settings not kept'}", []).append(run)
    return found


def _resolved(run: Run) -> Settings:
    """The resolved arguments that decide the numbers, apart from the seed, as comparable text."""
    return {name: value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            for name, value in experiment_settings(run.arguments).items()}


@dataclass
class Experiment:
    """Runs that differ in nothing but the seed."""

    dataset: str
    model: str
    buffer: int | None
    runs: list[Run]
    variant: str = ""

    @property
    def label(self) -> str:
        """For a legend: the method and what tells it from its relatives."""
        return f"{self.model} ({self.variant})" if self.variant else self.model

    @property
    def title(self) -> str:
        """The label with the buffer."""
        return self.label if self.buffer is None else f"{self.label}, buffer {self.buffer}"


def evaluates_only(run: Run) -> bool:
    """Whether a run learned nothing itself (`--inference_only 1`)."""
    asked = run.arguments.get("inference_only", run.given.get("inference_only"))
    return asked is not None and plain(asked) in ("1", "True", "true")


def experiments_of(runs: Iterable[Run]) -> tuple[list[Experiment], list[LeftOut]]:
    """Runs by experiment; of repetitions the newest counts, and one with uncertainty before all.

    A run that only evaluates a checkpoint is no method, and is passed over.

    Returns:
        (experiments by benchmark, buffer and method; the runs that were passed over)
    """
    found: dict[tuple[Any, ...], dict[int | None, Run]] = {}
    repeated: list[LeftOut] = []
    for run in runs:
        if evaluates_only(run):
            repeated.append(LeftOut(run.name, "it evaluates a checkpoint and trains nothing "
                                    "(--inference_only 1), so it is no method of its own",
                                    run.command))
            continue
        place = (run.dataset, run.model, run.buffer_size,
                 json.dumps(_resolved(run), sort_keys=True))
        seeds = found.setdefault(place, {})
        other = seeds.get(run.seed)
        if other is not None:
            if other.summary and not run.summary:
                run, other = other, run
            repeated.append(LeftOut(other.name, f"the same experiment as {run.name}",
                                    other.command))
        seeds[run.seed] = run
    experiments = [Experiment(dataset, model, buffer, [seeds[s] for s in sorted(seeds, key=str)])
                   for (dataset, model, buffer, _), seeds in found.items()]
    experiments.sort(key=lambda e: (e.dataset, -1 if e.buffer is None else e.buffer, e.model))
    relatives: dict[tuple[Any, ...], list[Experiment]] = {}
    for one in experiments:
        relatives.setdefault((one.dataset, one.model, one.buffer), []).append(one)
    for family in relatives.values():
        if len(family) > 1:
            _name_variants(family)
    return experiments, repeated


def experiments_of_records(runs: Iterable[Run]) -> list[Experiment]:
    """The rows of the tables as experiments; a reduced protocol is a benchmark of its own.

    Old records keep what their command gave, not every argument, so they are told apart as the
    tables do it. Runs that were judged on a validation split are no results.
    """
    tested = [run for run in runs if not evaluates_only(run)
              and "validation" not in changed_settings(run)]
    found = []
    for (reduced, dataset, size, row), group in by_row(tested).items():
        model = group[0].model.replace("-", "_")
        special = "" if row == model else row.removeprefix(f"{model}, ")
        found.append(Experiment(f"{dataset} (reduced: {reduced})" if reduced else dataset, model,
                                size or None, group, special))
    return sorted(found, key=lambda e: (e.dataset, e.buffer or -1, e.model, e.variant))


def _name_variants(family: list[Experiment]) -> None:
    """Name what differs between experiments of one method, benchmark and buffer."""
    settings = [_resolved(one.runs[0]) for one in family]
    names = sorted({k for one in settings for k in one if len({s.get(k) for s in settings}) > 1})
    for experiment, one in zip(family, settings, strict=True):
        experiment.variant = ", ".join(f"{name}={one[name]}" for name in names if name in one)
