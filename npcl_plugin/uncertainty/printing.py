"""The end of a run on the screen: every number beside its definition."""
import textwrap
from typing import Any

from npcl_plugin.uncertainty.measures import MEASURES

_WIDTH = 100
_DEFINITIONS = {measure.name: measure.definition for measure in MEASURES}


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
