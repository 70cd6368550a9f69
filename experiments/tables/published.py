"""Published figures that stand beside ours; plugins bring those of their papers."""
from collections.abc import Mapping
from typing import Any

SOURCES: list[str] = []
_FIGURES: dict[str, dict[str, Any]] = {}


def register(figures: Mapping[str, Any], source: str) -> None:
    """Add a paper's figures: kind -> dataset -> buffer size -> variant -> [mean, sd].

    Args:
        source: the file that they stand in, for readers.
    """
    if source not in SOURCES:
        SOURCES.append(source)
    for kind, tables in figures.items():
        if isinstance(tables, dict):
            _FIGURES.setdefault(kind, {}).update(tables)


def figures(kind: str) -> dict[str, Any]:
    """All published figures of a kind, by dataset."""
    return _FIGURES.get(kind, {})


def cell(values: list[float] | float | None, digits: int = 2) -> str:
    """`72.37 ± 0.87`, `36.60`, or nothing."""
    if values is None or values == []:
        return ""
    return " ± ".join(f"{v:.{digits}f}" for v in (values if isinstance(values, list)
                                                  else [values]))
