"""Backward transfer of accuracy and of uncertainty, and whether they go together."""
from collections.abc import Sequence

import numpy as np


def backward_transfer(rows: Sequence[Sequence[float]]) -> np.ndarray:
    """Value at the end minus value when learned, of every task but the last one.

    Args:
        rows: rows[i][j] on task j after task i, j <= i; the first row may belong to a later
            task (`--start_from`), then it is where the tasks before it start.

    Returns:
        NaN where there is but one row: nothing is known of the time before it.
    """
    if not rows:
        return np.zeros(0)
    last, first_length = rows[-1], len(rows[0])
    if len(rows) == 1:
        return np.full(len(last) - 1, np.nan)
    learned = [rows[max(0, task + 1 - first_length)][task] for task in range(len(last) - 1)]
    return np.asarray(last[:-1], dtype=np.float64) - np.asarray(learned, dtype=np.float64)


def correlations(first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """Pearson's and Spearman's coefficient with p; NaN for fewer than three or equal values."""
    names = ("pearson", "pearson_p", "spearman", "spearman_p")
    known = np.isfinite(first) & np.isfinite(second)
    first, second = first[known], second[known]
    if len(first) < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return dict.fromkeys(names, float("nan"))
    values = (*_correlation(first, second), *_correlation(_ranks(first), _ranks(second)))
    return dict(zip(names, values, strict=True))


def _correlation(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Coefficient and two-sided p by Student's t; `scipy.stats` takes long to import."""
    from scipy.special import stdtr

    r, free = np.corrcoef(first, second)[0, 1].clip(-1, 1), len(first) - 2
    with np.errstate(divide="ignore"):
        t = np.abs(r) * np.sqrt(free / (1 - r * r))
    return float(r), float(2 * stdtr(free, -t))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Equal values share the mean of their places; all are twice as large as usual."""
    ordered = np.sort(values)
    return ordered.searchsorted(values, "left") + ordered.searchsorted(values, "right")
