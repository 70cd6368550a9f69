"""Defaults that a benchmark brings along: `@set_default_from_args('n_epochs')` and the like."""
import functools
import inspect
from collections.abc import Callable
from typing import Any

# {benchmark NAME: {argument: default}}, filled as the classes are defined.
DEFAULT_ARGS: dict[str, dict[str, Any]] = {}

_MARK = "_default_for_argument"


def set_default_from_args(arg_name: str) -> Callable:
    """Decorator: what this function returns is the benchmark's default for `--<arg_name>`.

    The function takes nothing or `self`, and may be called on the class as well as on an object.
    The decorator only marks it; `ContinualDataset` collects the marks, those of the base classes
    included, once the class (and so its `NAME`) is complete.
    """

    def mark(function: Callable) -> Callable:
        wants_self = len(inspect.signature(function).parameters) > 0

        @functools.wraps(function)
        def call(*owner: Any) -> Any:
            if not wants_self:
                return function()
            return function(owner[0] if owner else None)

        setattr(call, _MARK, arg_name)
        return call

    return mark


def collect_defaults(dataset_class: type) -> dict[str, Any]:
    """The `DEFAULTS` and the marked defaults of a class; the nearest class in its ancestry wins.

    A function that needs a real `self` gives no default here.

    Raises:
        ValueError: one class body marks two functions for the same argument.
    """
    values: dict[str, Any] = {}
    found: dict[str, Callable] = {}
    for ancestor in reversed(dataset_class.__mro__):
        values.update(vars(ancestor).get("DEFAULTS", {}))
        own: dict[str, Callable] = {}
        for member in vars(ancestor).values():
            argument = getattr(member, _MARK, None)
            if argument in own:
                raise ValueError(f"Expected one default for `{argument}` in "
                                 f"{ancestor.__name__}, but two functions give it.")
            if argument is not None:
                own[argument] = member
        found.update(own)
    for argument, function in found.items():
        try:
            values[argument] = function()
        except (AttributeError, TypeError):
            continue
    return values


def default_args(dataset_class: type) -> dict[str, Any]:
    """Defaults of a benchmark class for the parser; also keeps `DEFAULT_ARGS` up to date."""
    values = collect_defaults(dataset_class)
    name = getattr(dataset_class, "NAME", None)
    if isinstance(name, str):
        DEFAULT_ARGS[name] = values
    return dict(values)


def get_default_args_for_dataset(dataset_name: str) -> dict[str, Any]:
    """Defaults of a benchmark whose class has been defined, by its NAME."""
    return dict(DEFAULT_ARGS.get(dataset_name, {}))
