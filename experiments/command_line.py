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


def portable(command: str) -> str:
    """A command without what belongs to one machine or process: folders, resuming, progress bars.

    Weights that a run starts from stay, by their file's name.

    Raises:
        ValueError: the command cannot be split into words.
    """
    local = names_of(Role.PLACE, Role.PROCESS)
    kept: list[str] = []
    name = ""
    for word in shlex.split(command):
        if word.startswith("--"):
            name = word[2:].partition("=")[0]
            if name not in local or name == "loadcheck":
                kept.append(word)
            elif name == "base_path":
                kept += [word.partition("=")[0], "DATA"]
        elif name == "loadcheck":
            kept.append(PurePath(word).name)
        elif name not in local:
            kept.append(word)
    return shlex.join(kept)
