"""Numbers and counts as people write them: right plurals, thousands apart, no idle decimals."""
from collections.abc import Sequence
from math import isfinite

MINUS = "\u2212"


def counted(count: int, one: str, many: str = "") -> str:
    """`1 run`, `2 runs`, `12,000 runs`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def amount(value: object, digits: int = 2) -> str:
    """A number without idle decimals and with its thousands apart; other values as they are."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return str(value)
    if float(value).is_integer():
        return f"{int(value):,}".replace("-", MINUS)
    if abs(value) < 10 ** -digits:
        return f"{value:.2g}".replace("-", MINUS)
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".").replace("-", MINUS)


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
