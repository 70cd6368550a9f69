"""The headline on the screen: a short table after a run, or every number with its definition."""
import shlex
import textwrap
from pathlib import Path
from typing import Any

from npcl_plugin.uncertainty.measures import MEASURES

_WIDTH = 100
_COLUMNS = 3
_DEFINITIONS = {measure.name: measure.definition for measure in MEASURES}


def table(values: dict[str, Any], folder: Path) -> str:
    """All numbers in few lines, and where their definitions are.

    Args:
        values: the headline and notes of a summary.
        folder: of the run.
    """
    pairs = [(name, _show(value)) for name, value in values["headline"].items()]
    first = max((len(name) for name, _ in pairs), default=0)
    second = max((len(value) for _, value in pairs), default=0)
    cells = [f"{name:<{first}}  {value:>{second}}" for name, value in pairs]
    n_rows = -(-len(cells) // _COLUMNS)
    lines = ["  " + "    ".join(cells[row::n_rows]) for row in range(n_rows)]
    lines += [f"  note: {note}" for note in values["notes"]]
    return "\n".join([*lines, f"  what each is: python -m npcl_plugin.uncertainty "
                              f"{shlex.quote(str(folder))}"])


def describe(summary: dict[str, Any]) -> str:
    """An aligned table: name, value, what it is."""
    values = {name: _show(value) for name, value in summary["headline"].items()}
    first = max(map(len, values), default=0)
    second = max(map(len, values.values()), default=0)
    indent = first + second + 6
    lines = []
    for name, value in values.items():
        text = textwrap.wrap(_DEFINITIONS[name], max(_WIDTH - indent, 30))
        lines.append(f"  {name:<{first}}  {value:>{second}}  {text[0]}")
        lines += [" " * indent + more for more in text[1:]]
    lines += [line for note in summary["notes"]
              for line in textwrap.wrap(f"note: {note}", _WIDTH, initial_indent="  ",
                                        subsequent_indent="    ")]
    return "\n".join(lines)


def _show(value: Any) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4g}"
