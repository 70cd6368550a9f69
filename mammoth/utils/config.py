"""Settings kept as YAML: published values beside the models, variants beside the datasets.

`models/config/<model>.yaml` holds an optional `default` map and one map a dataset; in it,
integer keys are buffer sizes and the key `source` says where the values come from.
"""
import math
from pathlib import Path
from typing import Any

from utils.errors import UsageError
from utils.registry import dashed

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED = "published"


def read_yaml(path: Path) -> dict[Any, Any]:
    """A YAML file's mapping.

    Raises:
        UsageError: the file is no YAML mapping.
    """
    from utils.bounded import Unreadable, read_yaml_value

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


def model_settings(model: str, dataset: str, buffer_size: int | None, wanted: str,
                   path: Path | None = None) -> tuple[dict[str, Any], str]:
    """What a model's YAML says for this benchmark.

    Args:
        wanted: "base" (its `default` map only), "default" (published values where they exist,
            the nearest buffer size if need be) or "best" (the exact entry must exist).
        path: the YAML; looked up by the model's name when not given.

    Returns:
        The settings and a phrase that says where they come from.

    Raises:
        UsageError: "best" is wanted and there is no entry.
    """
    path = path or model_config_path(model)
    content = {str(k): v for k, v in read_yaml(path).items()} if path else {}
    settings = dict(content.get("default") or {})
    label = f"{path.name}: default" if path else ""
    if wanted == "base":
        return settings, label
    chosen = next((v for k, v in content.items() if dashed(k) == dashed(dataset)), None)
    if chosen is None:
        if wanted == "best":
            raise UsageError(f"There are no published settings of {model} on {dataset}; give --lr "
                             "and the rest yourself, without --model_config best.")
        return settings, label
    sizes = {key: value for key, value in chosen.items() if isinstance(key, int)}
    source = chosen.get("source", PUBLISHED)
    settings.update({k: v for k, v in chosen.items()
                     if not isinstance(k, int) and k != "source"})
    label = f"{source}: {dataset}"
    if sizes and buffer_size is not None:
        size = _nearest(buffer_size, sizes)
        if size != buffer_size and wanted == "best":
            raise UsageError(f"There are no published settings of {model} on {dataset} for buffer "
                             f"size {buffer_size}; there are {', '.join(map(str, sorted(sizes)))}.")
        settings.update(sizes[size] or {})
        label += f", buffer {size}" + (f" (nearest to {buffer_size})" if size != buffer_size
                                       else "")
    return settings, label


def _nearest(size: int, sizes: dict[int, Any]) -> int:
    """The entry whose buffer size is closest in ratio: 1000 is nearer to 500 than to 5120."""
    return min(sizes, key=lambda known: abs(math.log(max(known, 1) / max(size, 1))))


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
