"""The settings files of the family (`models/config/*.yaml`), read without any harness."""
from pathlib import Path
from typing import Any


def read_settings(path: Path) -> dict[Any, Any]:
    """A settings file of the family."""
    import yaml

    return yaml.safe_load(path.read_text(encoding="utf-8"))


def published(path: Path, dataset: str, buffer_size: int | None) -> dict[str, Any]:
    """The settings for a benchmark; of several buffer sizes the nearest in ratio."""
    chosen = read_settings(path).get(dataset.replace("_", "-")) or {}
    sizes = [key for key in chosen if isinstance(key, int)]
    found = {k: v for k, v in chosen.items() if not isinstance(k, int) and k != "source"}
    if sizes and buffer_size:
        found.update(chosen[min(sizes, key=lambda s: max(s / buffer_size, buffer_size / s))])
    return found
