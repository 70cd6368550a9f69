"""A run: the arguments it was given, the ones it ends up with, and its key."""
import difflib
import functools
import shlex
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import UsageError
from engine.identity import Role, names_of
from experiments.command_line import to_words
from experiments.run import Damaged, Run, read_run

ALWAYS = ("--resume", "--non_verbose", "1")
_FOLDERS = ("base_path", "results_path", "checkpoint_path")
RESERVED = {*names_of(Role.PROCESS), *_FOLDERS, "help"}  # what a sweep gives to its runs itself
_PARSED: dict[tuple[str, ...], Namespace] = {}


@dataclass(frozen=True)
class Folders:
    """Where data, results and checkpoints are, as absolute paths (a cluster has other folders)."""

    base: Path
    results: Path
    checkpoints: Path

    @classmethod
    def of(cls, base: str, results: str, checkpoints: str | None = None) -> "Folders":
        """main.py's rules: results below the base unless absolute; checkpoints in the results."""
        top = Path(base).resolve()
        found = (top / results).resolve()
        return cls(top, found, Path(checkpoints).resolve() if checkpoints else
                   found / "sweep" / "checkpoints")

    def words(self) -> list[str]:
        """The three of them as arguments of main.py."""
        return ["--base_path", str(self.base), "--results_path", str(self.results),
                "--checkpoint_path", str(self.checkpoints)]

    def of_sweep(self, kind: str, name: str) -> Path:
        """A file that belongs to sweeps and not to a run: a log, a lock, a progress note."""
        return self.results / "sweep" / kind / name


@dataclass
class RunSpec:
    """One run of main.py.

    Args:
        given: argument -> value, as the grid or the command line has it.
        folders: where it reads and writes.
        group: the block of the grid it comes from.
        args: all its arguments, once checked.
        error: why it cannot run, in one sentence (kept by `compare.py`, raised by `sweep.py`).
    """

    given: dict[str, Any]
    folders: Folders
    group: str = ""
    label: str = ""
    args: Namespace | None = field(default=None, repr=False)
    n_tasks: int = 1
    error: str = ""

    @property
    def key(self) -> str:
        """The harness's key of the run (the same for the same numbers)."""
        return self.args.conf_key if self.args is not None else ""

    @property
    def name(self) -> str:
        """Of its log and lock: readable, the same for all spellings of the same run."""
        found = self.given if self.args is None else vars(self.args)
        return f"{found['dataset']}_{found['model']}_{self.key}"

    def words(self) -> list[str]:
        """The arguments of main.py."""
        return [*to_words(self.given), *self.folders.words(), *ALWAYS]

    def shown(self) -> str:
        """The command as a person would type it."""
        return shlex.join(["python", "mammoth/main.py", *to_words(self.given)])


def check(spec: RunSpec, where: str) -> None:
    """Ask main.py's own parser for this model and benchmark, before anything is started.

    Args:
        where: the file or command that the arguments come from, for the sentence.

    Raises:
        UsageError: an argument is unknown or its value cannot work.
    """
    for name in ("model", "dataset"):
        if not spec.given.get(name):
            raise UsageError(f"{where} gives no `{name}`; add one, e.g. "
                             f"{name}: {'er' if name == 'model' else 'seq-digits'}.")
    for name in spec.given:
        if name in RESERVED:
            remedy = f"give --{name} instead" if name in _FOLDERS else "leave it out"
            raise UsageError(f"{where} sets `{name}`, which belongs to the sweep itself; {remedy}.")
    try:
        spec.args = _parsed(spec)
    except UsageError as error:
        _name_unknown_key(spec, where)
        raise UsageError(f"{where}, {spec.label or spec.shown()}: {error}") from error
    spec.n_tasks = _number_of_tasks(spec.args)


def _parsed(spec: RunSpec) -> Namespace:
    """What main.py makes of the arguments; runs that differ in the seed alone share the work."""
    from engine.identity import run_key
    from main import parse_args

    seed = spec.given.get("seed")
    words = [*to_words({**spec.given, "seed": None}), *spec.folders.words(), *ALWAYS]
    if seed is None or not str(seed).isdigit():
        return parse_args([*words, *to_words({"seed": seed})])
    shared = _PARSED.get(tuple(words))
    if shared is None:
        shared = _PARSED[tuple(words)] = parse_args([*words, "--seed", str(seed)])
    args = Namespace(**{**vars(shared), "seed": int(seed)})
    args.conf_key = run_key(args)
    return args


def _name_unknown_key(spec: RunSpec, where: str) -> None:
    """A key that the run does not have is named with the nearest one that it has."""
    known = known_arguments(str(spec.given["model"]), str(spec.given["dataset"]),
                            spec.given.get("backbone"))
    for name in spec.given:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            raise UsageError(
                f"{where}: `{name}` is no argument of {spec.given['model']} on "
                f"{spec.given['dataset']}{f'; did you mean `{near[0]}`?' if near else '.'}")


@functools.cache
def known_arguments(model: str, dataset: str, backbone: str | None = None) -> frozenset[str]:
    """The names of all arguments of a method on a benchmark.

    Raises:
        UsageError: there is no such method, benchmark or network.
    """
    from engine.parsing import SettingsBuilder
    from engine.plugins import load_plugins

    load_plugins()
    words = to_words({"model": model, "dataset": dataset, "backbone": backbone})
    options = SettingsBuilder(words).parser._option_string_actions
    return frozenset(option[2:] for option in options if option.startswith("--"))


def _number_of_tasks(args: Namespace) -> int:
    from datasets import get_dataset_class

    if args.joint:
        return 1
    tasks = getattr(get_dataset_class(args), "N_TASKS", None) or 1  # a file of features: unknown
    return max(1, min(tasks, args.stop_after if args.stop_after is not None else tasks))


def finished(spec: RunSpec) -> Run | None:
    """The run as its folder has it, if it was finished before.

    Raises:
        UsageError: the file is there but cannot be read.
    """
    from engine.run_folder import finished_result

    assert spec.args is not None, "only checked runs can be looked up"
    found = finished_result(spec.args, spec.key)
    if found is None:
        return None
    path, _ = found
    try:
        return read_run(path.parent)
    except Damaged as error:
        raise UsageError(f"{path} cannot be read; remove it to run again ({error}).") from error


def without_duplicates(specs: Iterable[RunSpec]) -> tuple[list[RunSpec], list[RunSpec]]:
    """The first run of each key, in order, and those that were left out."""
    kept: dict[str, RunSpec] = {}
    left_out = [spec for spec in specs if kept.setdefault(spec.key, spec) is not spec]
    return list(kept.values()), left_out
