"""Command lines of main.py: arguments as words, words as arguments, commands without a machine."""
import shlex
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from engine.errors import UsageError
from engine.identity import Role, names_of


def to_words(given: Mapping[str, Any]) -> list[str]:
    """{'lr': 0.1, 'lr_milestones': [3, 5]} as a command line; None leaves an argument out."""
    words: list[str] = []
    for name, value in given.items():
        if value is None:
            continue
        if name == "load_best_args":
            words += ["--load_best_args"] if value else []
            continue
        values = value if isinstance(value, list) else [value]
        words += [f"--{name}", *(str(int(v)) if isinstance(v, bool) else str(v) for v in values)]
    return words


def from_words(words: Iterable[str]) -> dict[str, Any]:
    """The inverse of `to_words` for words that no parser knows yet.

    Raises:
        UsageError: the words do not start with a flag.
    """
    given: dict[str, Any] = {}
    name = None
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            given[name] = [value] if value else []
        elif name is None:
            raise UsageError(f"Expected an argument such as --n_epochs 1, but got `{word}`.")
        else:
            given[name].append(word)
    return {name: values[0] if len(values) == 1 else (values or True)
            for name, values in given.items()}


def given_by(command: str) -> dict[str, Any]:
    """The arguments that a recorded command gives; none of one that cannot be split."""
    try:
        return from_words(shlex.split(command)[2:])
    except (ValueError, UsageError):
        return {}


def without_folder(name: str, value: str) -> str:
    """The value of an argument; of a file on one machine its name."""
    local = name == "loadcheck" or (PurePath(value).is_absolute() and name in names_of(Role.FILE))
    return PurePath(value).name if local else value


def portable(command: str, seed: int | None = None) -> str:
    """A command without what belongs to one machine or process: folders, resuming, progress bars.

    Files that a run starts from stay, by their names.

    Args:
        seed: what the run drew, for a command that names none.

    Raises:
        ValueError: the command cannot be split into words.
    """
    local = names_of(Role.PLACE, Role.PROCESS) - {"loadcheck"}
    kept: list[str] = []
    name, names = "", set()
    for word in shlex.split(command):
        flag, equals, value = word.partition("=")
        if not word.startswith("--"):
            kept += [] if name in local else [without_folder(name, word)]
            continue
        name = flag[2:]
        names.add(name)
        if name not in local:
            kept.append(f"{flag}={without_folder(name, value)}" if equals else word)
        elif name == "base_path":
            kept += [flag, "DATA"]
    drawn = seed is not None and "seed" not in names
    return shlex.join([*kept, *(["--seed", str(seed)] if drawn else [])])
