"""Numbers for people: mean and spread, columns of one width."""
import math
import statistics
from collections.abc import Iterable, Sequence


def spread(values: Iterable[float | None], digits: int = 2) -> str:
    """`mean ± sd` (sample deviation); the mean alone for one value, `-` for none."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return "-"
    text = f"{statistics.mean(known):.{digits}f}"
    return text if len(known) < 2 else f"{text} ± {statistics.stdev(known):.{digits}f}"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], markdown: bool = False) -> str:
    """A table whose columns line up: the first to the left, the others to the right.

    Args:
        markdown: with the bars that Markdown wants.
    """
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    rule = ["-" * width for width in widths]
    if markdown:
        rule = [rule[0], *(dashes[:-1] + ":" for dashes in rule[1:])]
    lines = []
    for line in (header, rule, *rows):
        cells = [line[0].ljust(widths[0]),
                 *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        lines.append(f"| {' | '.join(cells)} |" if markdown else "  ".join(cells))
    return "\n".join(lines)
