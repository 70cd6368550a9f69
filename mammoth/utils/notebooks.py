"""Runs from Python instead of the command line.

    from mammoth import load_runner, train
    model, dataset = load_runner("er", "seq-digits", {"buffer_size": 200, "seed": 1})
    result = train(model, dataset)
"""
from typing import Any

from engine.parsing import SettingsBuilder
from main import initialize, parse_args
from utils.checkpoints import load_checkpoint, restore_method, restoring


def _words(model: str | None, dataset: str | None, args: dict[str, Any]) -> list[str]:
    named = {"model": model, "dataset": dataset, **args}
    words: list[str] = []
    for name, value in named.items():
        if value is not None:
            values = value if isinstance(value, (list, tuple)) else [value]
            words += [f"--{name}", *map(str, values)]
    return words


def load_runner(model: str | None, dataset: str | None,
                args: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """Build a method and a benchmark, ready for `train(model, dataset)`.

    With `loadcheck` the method is as it was trained, with its samples and at its task, and
    answers (`model(images)`) at once; settings and seed are those of the checkpoint, and so are
    model and benchmark where they are None.
    """
    built, benchmark, settings = initialize(parse_args(_words(model, dataset, args or {})))
    built.to(built.device)
    if settings.loadcheck:
        with restoring(settings.loadcheck):
            restore_method(built, benchmark, load_checkpoint(settings.loadcheck),
                           weights_only=settings.start_from == 0)
    return built, benchmark


def get_avail_args(dataset: str, model: str, args: dict[str, Any] | None = None
                   ) -> tuple[dict[str, dict], dict[str, dict]]:
    """The arguments that must be given, and the others with their defaults.

    Returns:
        (required, optional), each name -> {description[, default]}.
    """
    parser = SettingsBuilder(_words(model, dataset, args or {})).parser
    required, optional = {}, {}
    for name, action in parser.actions_by_dest().items():
        if name == "help":
            continue
        if action.required and name not in ("model", "dataset"):
            required[name] = {"description": action.help}
        else:
            optional[name] = {"description": action.help, "default": action.default}
    return required, optional
