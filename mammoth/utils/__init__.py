"""Argument types and path helpers that method files import from `utils`, as upstream."""
import argparse
import os
from collections.abc import Callable, Mapping, Sequence

_TRUE = {"true", "1", "t", "y", "yes"}
_FALSE = {"false", "0", "f", "n", "no"}


def binary_to_boolean_type(value: object) -> bool:
    """Argument type for switches: 1/0, true/false, yes/no, in any case."""
    word = str(value).lower()
    if word not in _TRUE | _FALSE:
        raise argparse.ArgumentTypeError(f"expected 0 or 1, but got `{value}`")
    return word in _TRUE


def custom_str_underscore(value: object) -> str:
    """Argument type for names: `er_ace` and `er-ace` are the same."""
    return str(value).strip().replace("_", "-")


def field_with_aliases(choices: Mapping[str, Sequence[str]]) -> Callable[[object], str]:
    """Argument type for a choice in which each value has several spellings."""
    meaning = {alias: key for key, aliases in choices.items() for alias in (key, *aliases)}

    def resolve(value: object) -> str:
        if str(value) not in meaning:
            raise argparse.ArgumentTypeError(
                f"expected one of {', '.join(sorted(meaning))}, but got `{value}`")
        return meaning[str(value)]

    return resolve


def none_or_float(value: object) -> float | None:
    """Argument type for a number that may be switched off with `None`."""
    return None if str(value) == "None" else float(value)  # type: ignore[arg-type]


def smart_joint(*paths: str) -> str:
    """Join path parts with forward slashes on every system."""
    return os.path.join(*paths).replace(os.sep, "/")


def create_if_not_exists(path: str) -> None:
    """Make a folder, with its parents, unless it is there."""
    os.makedirs(path, exist_ok=True)
