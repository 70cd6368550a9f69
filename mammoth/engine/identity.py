"""Which arguments make a run what it is: the one list of those that do not, and why.

An argument that is not in the table counts: it decides the numbers of a run. Everything that has
to know whether two runs are the same run, seeds of one experiment or different experiments asks
here.
"""
import errno
import hashlib
import json
import math
from argparse import Namespace
from collections.abc import Container, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from engine.plugins import add_plugin_arguments
from utils.args import ArgumentParser, add_management_args
from utils.loggers import literal


class Role(Enum):
    """What an argument is to a run."""

    SETTING = "decides the numbers"
    SEED = "tells the repetitions of one experiment apart"
    PART = "decides the numbers by naming the part of the work that this run does"
    STEERING = "decides the numbers, but only how training goes on, not what network and data are"
    OBSERVATION = "looks at a run without changing its training"
    FILE = "names a file or network; what that holds counts, as a digest of its own"
    PLACE = "names where files are"
    MACHINE = "decides roundings; counts in the key where it is not left to the machine (`auto`)"
    PROCESS = "belongs to whoever starts the process"
    BOOKKEEPING = "changes neither training nor evaluation"


class Entry(NamedTuple):
    """An argument's role and why it has it."""

    role: Role
    reason: str


_LIST = {
    Role.SEED: {
        "seed": "what two runs of one experiment differ in",
        "data_seed": "derived: the seed of the data where no seed was given",
    },
    Role.PART: {
        "start_from": "the first task to train",
        "stop_after": "the task to stop before",
        "inference_only": "evaluation without training",
        "debug_mode": "a smoke test instead of an experiment",
    },
    Role.STEERING: {
        "lr": "the rate of further steps",
        "batch_size": "the samples of further steps",
        "minibatch_size": "the samples replayed in further steps",
        "drop_last": "the batches of further epochs",
        "n_epochs": "the length of further training",
        "n_iters": "the length of further training",
        "fitting_mode": "the end of further training",
        "early_stopping_patience": "the end of further training",
        "early_stopping_metric": "the end of further training",
        "early_stopping_freq": "the end of further training",
        "early_stopping_epsilon": "the end of further training",
        "optimizer": "made anew for each task",
        "optim_wd": "made anew for each task",
        "optim_mom": "made anew for each task",
        "optim_nesterov": "made anew for each task",
        "lr_scheduler": "made anew for each task",
        "scheduler_mode": "made anew for each task",
        "lr_milestones": "made anew for each task",
        "sched_multistep_lr_gamma": "made anew for each task",
        "model_config": "names the file of such settings; their values are arguments too",
    },
    Role.OBSERVATION: {
        "enable_other_metrics": "evaluates more; training draws no number from it",
        "eval_epochs": "evaluates more often",
    },
    Role.FILE: {
        "data": "the images there count, as `data_facts`",
        "tasks": "the tasks in the file count, in `data_facts`",
        "features": "what the network or file holds counts, as `features_digest`",
        "features_weights": "what the file holds counts, in `features_digest`",
    },
    Role.PLACE: {
        "base_path": "where the data is",
        "results_path": "where results go",
        "checkpoint_path": "where checkpoints go",
        "cache_path_noisy_labels": "where wrong labels are kept",
    },
    Role.MACHINE: {
        "kernels": "which functions compute",
    },
    Role.PROCESS: {
        "resume": "an interrupted run goes on as if it had not been interrupted",
        "loadcheck": "a path; what the file holds counts, as `loadcheck_digest`",
        "non_verbose": "what is shown",
        "verbose": "what is shown",
        "disable_log": "whether results are written",
        "conf_*": "derived: names and times of this process",
    },
    Role.BOOKKEEPING: {
        "notes": "free text",
        "device": "the machine's",
        "num_workers": "the machine's",
        "threads": "the machine's",
        "step_graphs": "the same numbers, sooner",
        "savecheck": "when checkpoints are written",
        "ckpt_name": "what checkpoints are called",
        "save_checkpoint_mode": "how checkpoints are written",
        "save_after_interrupt": "when checkpoints are written",
        "tensorboard": "where curves are shown",
        "wandb_name": "where curves are shown",
        "wandb_entity": "where curves are shown",
        "wandb_project": "where curves are shown",
        "disable_noisy_labels_cache": "the same wrong labels are drawn anew",
        "load_best_args": "another spelling of `model_config`",
        "class_order": "derived: from the seed and the arguments that order classes",
    },
}
TABLE: dict[str, Entry] = {name: Entry(role, reason) for role, entries in _LIST.items()
                           for name, reason in entries.items()}
_IN_THE_KEY = {Role.SETTING, Role.STEERING, Role.PART, Role.SEED, Role.OBSERVATION}
_OF_AN_EXPERIMENT = {Role.SETTING, Role.STEERING, Role.PART}
_NAMES = {"model", "dataset", "backbone"}

Args = Namespace | Mapping[str, Any]


def role(name: str, looking: Container[str] | None = None) -> Role:
    """What an argument is to a run.

    Args:
        looking: `observations()`, for a caller that asks about many names.
    """
    if name.startswith("conf_"):
        name = "conf_*"
    if name in TABLE:
        return TABLE[name].role
    looking = observations() if looking is None else looking
    return Role.OBSERVATION if name in looking else Role.SETTING


def names_of(*roles: Role) -> set[str]:
    """The listed arguments that have one of these roles."""
    return {name for name, entry in TABLE.items() if entry.role in roles} | (
        set(observations()) if Role.OBSERVATION in roles else set())


def observations() -> dict[str, Any]:
    """Argument -> default of everything that only looks, the plugins' arguments included.

    A plugin adds arguments for its extensions, whose contract is to look and not to touch.
    """
    parser = ArgumentParser(add_help=False)
    add_management_args(parser)
    own = {name: action.default for name, action in parser.actions_by_dest().items()
           if name in TABLE and TABLE[name].role is Role.OBSERVATION}
    return own | add_plugin_arguments(parser)


def canonical(value: Any) -> Any:
    """One plain form of a value: False, 0 and 0.0 are the same, so are a tuple and a list."""
    value = literal(value)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [canonical(v) for v in value]
    if isinstance(value, dict):
        return {name: canonical(v) for name, v in value.items()}
    return value


def one_spelling(name: str, value: Any) -> Any:
    """A value of an argument as we write it: `er_ace` and `er-ace` are the same method."""
    return value.strip().replace("_", "-") if name in _NAMES and isinstance(value, str) else value


def run_settings(args: Args) -> dict[str, Any]:
    """What makes a run this run, as plain data; an argument without a value says nothing.

    An observation counts only where it differs from its default, so that installing a plugin
    does not make strangers of the runs that were there before.
    """
    unused = observations()
    kept = _canonical(args, _IN_THE_KEY)
    return {name: value for name, value in kept.items()
            if not (name in unused and value == canonical(unused[name]))}


def run_key(args: Args) -> str:
    """Eight hex digits of the run's resolved settings: the same run has the same key."""
    asked = {name: value for name, value in _canonical(args, {Role.MACHINE}).items()
             if value != "auto"}
    text = json.dumps({**run_settings(args), **asked}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def experiment_settings(args: Args) -> dict[str, Any]:
    """What the seeds of one experiment share: no seed, place, bookkeeping or observation."""
    return _canonical(args, _OF_AN_EXPERIMENT)


def same_experiment(one: Args, other: Args) -> bool:
    """Whether two runs differ in nothing but their seeds and what does not count."""
    return experiment_settings(one) == experiment_settings(other)


def differences(one: Args, other: Args) -> dict[str, tuple[Any, Any]]:
    """Argument -> (value in one, value in the other) where runs differ in what counts."""
    first, second = run_settings(one), run_settings(other)
    return {name: (first.get(name), second.get(name)) for name in sorted({*first, *second})
            if first.get(name) != second.get(name)}


def file_digest(path: str | Path) -> str:
    """Sixteen hex digits of what a file holds: how a run that starts from it knows it.

    Raises:
        OSError: it cannot be read, or is a pipe or device, which might never end.
    """
    if Path(path).exists() and not Path(path).is_file():
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _canonical(args: Args, roles: set[Role]) -> dict[str, Any]:
    given = vars(args) if isinstance(args, Namespace) else args
    looking = observations()
    kept = {name: canonical(value) for name, value in given.items()
            if value is not None and role(name, looking) in roles}
    return {name: one_spelling(name, value) for name, value in kept.items()}
