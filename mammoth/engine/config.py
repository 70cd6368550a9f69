"""Where settings are kept: a YAML file per method, and one per variant of a benchmark.

`engine.settings` says what a method's file may hold.
"""
from pathlib import Path
from typing import Any

from engine.errors import UsageError
from engine.settings import (
    Layer,
    Query,
    SettingsError,
    dashed,
    file_layers,
    named_configs,
)

ROOT = Path(__file__).resolve().parent.parent


def read_yaml(path: Path) -> dict[Any, Any]:
    """A YAML file's mapping.

    Raises:
        UsageError: the file is no YAML mapping.
    """
    from engine.bounded import Unreadable, read_yaml_value

    try:
        content = read_yaml_value(path)
    except (FileNotFoundError, Unreadable) as error:
        words = "is not there" if isinstance(error, FileNotFoundError) else error
        raise UsageError(f"{path} {words}; mend or remove it.") from error
    if content is not None and not isinstance(content, dict):
        raise UsageError(f"Expected {path} to hold a YAML mapping, but got "
                         f"{type(content).__name__}.")
    return content or {}


def model_config_path(model: str) -> Path | None:
    """The YAML of a model, whatever its spelling with dashes or underscores."""
    for path in sorted((ROOT / "models" / "config").glob("*.yaml")):
        if dashed(path.stem) == dashed(model):
            return path
    return None


def method_layers(query: Query, path: Path | None) -> list[Layer]:
    """What a method's settings file, and those it extends, say for a benchmark; weakest first.

    Raises:
        UsageError: a file makes no sense, names a benchmark that does not exist, or lacks the
            best settings where these are asked for.
    """
    from datasets import get_dataset_names

    try:
        return file_layers(path, query, read_yaml, find=model_config_path,
                           benchmarks=get_dataset_names(names_only=True))
    except SettingsError as error:
        raise UsageError(str(error)) from error


def config_names(path: Path | None) -> list[str]:
    """What --model_config takes for the method of a settings file, beside what it always takes.

    Raises:
        UsageError: a file makes no sense.
    """
    try:
        return named_configs(path, read_yaml, model_config_path)
    except SettingsError as error:
        raise UsageError(str(error)) from error


def dataset_settings(dataset: str, variant: str | None) -> tuple[dict[str, Any], str]:
    """A benchmark variant's YAML (`default.yaml` when present and none is asked for).

    Raises:
        UsageError: there is no such variant.
    """
    folder = ROOT / "datasets" / "configs" / dashed(dataset)
    path = folder / f"{variant or 'default'}.yaml"
    if not path.exists():
        if variant is None:
            return {}, ""
        there = sorted(p.stem for p in folder.glob("*.yaml"))
        raise UsageError(f"{dataset} has no variant `{variant}`; "
                         f"{'there are ' + ', '.join(there) if there else 'it has none'}.")
    return read_yaml(path), f"variant {path.stem}"
