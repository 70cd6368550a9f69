"""Find packages that add methods, benchmarks or networks (entry points `mammoth.plugins`).

An entry point names a module; importing it registers what it offers, by decorator or,
without importing torch, by `models.REGISTRY.declare("name", "package.module")`. A plugin may
also bring its models' settings: a model class names its YAML file in `CONFIG_PATH`.
The project's own `setup.cfg` is read too, so a checkout works without being installed.

The module may extend every run, of any model, by two functions (see `engine.extensions`):
`add_arguments(parser)` and `extend(args)`. It may name modules that its runs import late and long
in `IMPORTS`; sweeps import them once for all runs.
"""
import argparse
import configparser
import functools
import importlib
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.errors import UsageError

GROUP = "mammoth.plugins"
_CHECKOUT = Path(__file__).resolve().parents[2]
_loaded: dict[str, ModuleType] = {}


def declared_in_checkout(checkout: Path = _CHECKOUT) -> dict[str, str]:
    """name -> module of the plugins that the setup.cfg beside `mammoth/` declares."""
    settings = configparser.ConfigParser()
    settings.read(checkout / "setup.cfg", encoding="utf-8")
    lines = settings.get("options.entry_points", GROUP, fallback="").strip().splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {name.strip(): module.strip() for name, module in pairs}


@functools.cache  # every package on the path is looked into, a quarter of reading a command
def _installed(path: tuple[str, ...]) -> dict[str, str]:
    """name -> module of the plugins that packages on the import path bring."""
    return {point.name: point.value for point in entry_points(group=GROUP)}


def load_plugins() -> list[str]:
    """Import every plugin once.

    Returns:
        The names of the plugins.

    Raises:
        UsageError: a plugin cannot be imported; it is named, with how to go on without it.
    """
    found = declared_in_checkout()
    if found and str(_CHECKOUT) not in sys.path:
        sys.path.append(str(_CHECKOUT))
    found.update(_installed(tuple(sys.path)))
    for name, module in found.items():
        if name in _loaded:
            continue
        try:
            _loaded[name] = importlib.import_module(module.split(":")[0])
        except ImportError as error:
            raise UsageError(f"The plugin `{name}` ({module}) cannot be imported: {error}. Mend or "
                             "uninstall it.") from error
    return sorted(found)


def loaded_plugins() -> dict[str, ModuleType]:
    """name -> module of the plugins in use, in the order of their names."""
    return dict(sorted(_loaded.items()))


def add_plugin_arguments(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Let every plugin add arguments for all models.

    Returns:
        dest -> default of what was added.

    Raises:
        UsageError: a plugin's argument exists already.
    """
    before = {action.dest for action in parser._actions}
    for name, module in loaded_plugins().items():
        if hasattr(module, "add_arguments"):
            try:
                module.add_arguments(parser)
            except argparse.ArgumentError as error:
                raise UsageError(f"The plugin `{name}` adds an argument that exists already "
                                 f"({error}); mend or uninstall it.") from error
    return {action.dest: action.default for action in parser._actions
            if action.dest not in before}
