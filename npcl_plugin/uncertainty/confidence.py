"""Confidence in a single prediction: interval widths and t-tests over the draws (appendix G.6).

Reference: Han et al., CARD (2022); Fan et al., contextual dropout (2021).
"""
from typing import Any

import numpy as np

SIGNIFICANCE = 0.05


def interval_width(draws: np.ndarray) -> np.ndarray:
    """Width of [2.5, 97.5] percent over the draws: (S, n) -> (n,), linear interpolation."""
    low, high = np.quantile(draws, (0.025, 0.975), axis=0)
    width: np.ndarray = high - low
    return width


def votes(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two classes most often predicted by the draws: (S, n, K) -> (n,), (n,).

    Equally frequent classes are ordered by their mean probability, then by number. With one
    class the second is the first.
    """
    n_classes = draws.shape[-1]
    chosen = draws.argmax(-1)  # (S, n)
    counts = (chosen[..., None] == np.arange(n_classes)).sum(0)  # (n, K)
    rank = counts + draws.mean(0) / 2.0  # a mean probability never makes up for a vote
    first = rank.argmax(-1)
    rest = rank.copy()
    rest[np.arange(len(first)), first] = -1.0
    return first, rest.argmax(-1)


def paired_p(differences: np.ndarray) -> np.ndarray:
    """Two-sided p of the paired t-test from differences (S, n); NaN for fewer than two draws.

    Draws that all differ by the same amount leave no doubt: p is 0, or 1 if the amount is 0.
    """
    from scipy.special import stdtr

    n_draws = len(differences)
    if n_draws < 2:
        return np.full(differences.shape[1], np.nan)
    mean, error = differences.mean(0), differences.std(0, ddof=1) / np.sqrt(n_draws)
    certain = error <= np.finfo(np.float64).eps * np.abs(mean)
    t = mean / np.where(certain, 1.0, error)
    p = 2 * stdtr(n_draws - 1, -np.abs(t))
    return np.where(certain, np.where(mean == 0, 1.0, 0.0), p)


def instance_values(draws: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """What is kept of the draws (S, n, K) of one head: `piw`, `vote`, `t_p`, (n,) each.

    Also `differences` (S, n), between the two most predicted classes, for Q-Q plots.
    """
    rows = np.arange(draws.shape[1])
    draws = draws.astype(np.float64)
    first, second = votes(draws)
    differences = draws[:, rows, first] - draws[:, rows, second]
    return {"piw": interval_width(draws[:, rows, labels]), "vote": first,
            "t_p": paired_p(differences), "differences": differences}


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def grouped(piw: np.ndarray, vote: np.ndarray, t_p: np.ndarray,
            labels: np.ndarray) -> dict[str, Any]:
    """Widths by correctness and accuracy by the test's outcome, (n,) each.

    A sample is `rejected` when the test rejects that both classes have equal probability.
    """
    correct, rejected = vote == labels, t_p < SIGNIFICANCE
    tested = np.isfinite(t_p)
    return {"accuracy": _mean(correct), "piw_correct": _mean(piw[correct]),
            "piw_incorrect": _mean(piw[~correct]), "n_correct": int(correct.sum()),
            "n_incorrect": int((~correct).sum()),
            "accuracy_rejected": _mean(correct[rejected]),
            "accuracy_not_rejected": _mean(correct[tested & ~rejected]),
            "n_rejected": int(rejected.sum()), "n_not_rejected": int((tested & ~rejected).sum())}


def by_class(piw: np.ndarray, vote: np.ndarray, t_p: np.ndarray,
             labels: np.ndarray) -> dict[str, list[Any]]:
    """`grouped` for each class that occurs, as columns."""
    present = np.unique(labels)
    rows = [grouped(*(part[labels == label] for part in (piw, vote, t_p, labels)))
            for label in present]
    return {"label": present.tolist(),
            **{name: [row[name] for row in rows] for name in (rows[0] if rows else {})}}


def qq_points(differences: np.ndarray) -> dict[str, Any]:
    """A Q-Q plot against the normal distribution: (S,) -> quantiles and their correlation.

    The quantiles are those of the medians of ordered uniform numbers, as Filliben estimates them;
    `scipy.stats`, which has the plot, takes long to import.
    """
    ordered = np.sort(differences.astype(np.float64))
    if len(ordered) < 3 or np.ptp(ordered) == 0:
        return {"theoretical": [], "ordered": [], "correlation": float("nan")}
    from scipy.special import ndtri

    count = len(ordered)
    medians = (np.arange(1, count + 1) - 0.3175) / (count + 0.365)
    medians[-1] = 0.5 ** (1 / count)
    medians[0] = 1 - medians[-1]
    theoretical = ndtri(medians)
    return {"theoretical": theoretical, "ordered": ordered,
            "correlation": float(np.corrcoef(theoretical, ordered)[0, 1])}
