"""The family's settings files (`models/config/*.yaml`) where the harness does not resolve them.

Our harness resolves settings before a model is built. Upstream's does not know our files: there,
an argument that nobody typed stays None until `complete` gives it the value that our harness
would have given it.
"""
import argparse
import copy
import functools
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from npcl_plugin.contract import resolver, usage_error

FOLDER = Path(__file__).resolve().parent / "models" / "config"
_NEVER_POSTPONED = ("help", "buffer_size", "minibatch_size")
_postponed: dict[str, tuple[argparse.Action, Any, bool]] = {}


def postpone(actions: Iterable[argparse.Action]) -> None:
    """Let the arguments be None until `complete`, so that what was typed can be told apart."""
    for action in actions:
        if action.dest not in _NEVER_POSTPONED:
            _postponed[action.dest] = (action, action.default, action.required)
            action.default, action.required = None, False


def resolved(model: str, *, dataset: str, setting: str, buffer_size: int | None,
             typed: Mapping[str, Any], which: str = "default") -> dict[str, Any]:
    """argument -> value of the settings files, for what was not typed."""
    files = resolver()
    query = files.Query(model, dataset.replace("_", "-"), setting, buffer_size, which)
    try:
        layers = files.file_layers(FOLDER / f"{model.replace('-', '_')}.yaml", query, read_settings)
    except files.SettingsError as error:
        raise usage_error(str(error)) from error
    return {name: value for name, (value, _) in files.fold(layers, typed).items()
            if name not in typed}


def complete(args: Namespace, model: str, dataset: Any) -> None:
    """Give every postponed argument that nobody typed its value, in place.

    Raises:
        UsageError: no settings file names a value that is needed.
    """
    typed = {name: getattr(args, name) for name in _postponed
             if getattr(args, name, None) is not None}
    found = resolved(model, dataset=dataset.NAME, setting=dataset.SETTING,
                     buffer_size=args.buffer_size,
                     typed={**typed, "backbone": getattr(args, "backbone", None)})
    for name, (action, default, required) in _postponed.items():
        if name in typed:
            continue
        value = found.get(name, default)
        if value is None and required:
            raise usage_error(f"--{name} is needed: the settings of {model} name no value of it "
                              f"for {dataset.NAME}; give one.")
        setattr(args, name, action.type(value) if value is not None and callable(action.type)
                else value)
    # Upstream has overwritten --minibatch_size with --batch_size by now.
    args.minibatch_size = args.batch_size if args.replay_size is None else args.replay_size


def own_settings(args: Namespace) -> dict[str, Any]:
    """The values of the family's arguments, after `complete`; not what only looks at a run."""
    aside = ("uncertainty", "novel_data")
    return {name: getattr(args, name) for name in ("buffer_size", *_postponed)
            if not name.startswith(aside)}


def read_settings(path: Path) -> dict[Any, Any]:
    """A settings file of the family."""
    return copy.deepcopy(_content(path.read_text(encoding="utf-8")))


@functools.cache  # what a method extends is read again for every benchmark and buffer
def _content(text: str) -> dict[Any, Any]:
    import yaml

    content: dict[Any, Any] = yaml.safe_load(text)
    return content
