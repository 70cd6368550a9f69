"""Do probabilities mean what they say?

Three quantities are called calibration error here, each by its definition:
    ece                  predicted class, bins of equal width (Guo et al. 2017, as in torchmetrics)
    ace_top_equal_mass   predicted class, bins of equal mass
    ace_classwise        every class, bins of equal mass (Nixon et al. 2019)
Samples with equal scores are interchangeable, so none of them depends on their order.
"""
import numpy as np

BINS = 15


def probabilities(log_probs: np.ndarray) -> np.ndarray:
    """(n, K) stored logarithms -> probabilities that sum to 1."""
    values = log_probs.astype(np.float64)
    values = np.exp(values - values.max(1, keepdims=True, initial=-np.inf))
    shares: np.ndarray = values / values.sum(1, keepdims=True)
    return shares


def ece(probs: np.ndarray, labels: np.ndarray, bins: int = BINS) -> float:
    """Mean over equal-width bins of |accuracy - confidence|, weighted by samples.

    Args:
        probs: (n, K).
        labels: (n,).
    """
    if not len(probs):
        return float("nan")
    parts = reliability(probs.max(1), probs.argmax(1) == labels, equal_mass=False, bins=bins)
    gap = np.nan_to_num(np.abs(parts["accuracy"] - parts["confidence"]))  # empty bins weigh nothing
    return float(np.average(gap, weights=parts["count"]))


def share_ties(scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values in ascending order of scores, (n,); equal scores share their mean value."""
    order = np.argsort(scores, kind="stable")
    scores, values = scores[order], values[order].astype(np.float64)
    group = np.cumsum(np.r_[False, scores[1:] != scores[:-1]]) if len(scores) else order
    means: np.ndarray = np.bincount(group, values) / np.maximum(np.bincount(group), 1)
    shared: np.ndarray = means[group]
    return shared


def _equal_mass(scores: np.ndarray, hits: np.ndarray, bins: int) -> dict[str, np.ndarray]:
    """Bins of (nearly) as many samples each: mean score, mean hit, count, lowest, highest."""
    parts = min(bins, len(scores))
    edges = np.linspace(0, len(scores), parts + 1).round().astype(int)
    count = np.diff(edges)
    ordered, shared = np.sort(scores, kind="stable"), share_ties(scores, hits)

    def mean(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, edges[:-1]) / count

    return {"low": ordered[edges[:-1]], "high": ordered[edges[1:] - 1], "count": count,
            "confidence": mean(ordered), "accuracy": mean(shared)}


def ace_top_equal_mass(confidence: np.ndarray, correct: np.ndarray, bins: int = BINS) -> float:
    """As `ece` with bins of equal mass: (n,) probability of the predicted class, (n,) bool."""
    if not len(confidence):
        return float("nan")
    parts = _equal_mass(confidence, correct, bins)
    gap = np.abs(parts["accuracy"] - parts["confidence"])
    return float(np.average(gap, weights=parts["count"]))


def ace_classwise(probs: np.ndarray, labels: np.ndarray, bins: int = BINS) -> float:
    """Mean over classes and equal-mass bins of |frequency - probability| (Nixon et al. 2019).

    With K classes most probabilities are near 0, hence small values: 1/K is the scale.
    """
    if not len(probs):
        return float("nan")
    gaps = []
    for label in range(probs.shape[1]):
        parts = _equal_mass(probs[:, label], labels == label, bins)
        gaps.append(np.abs(parts["accuracy"] - parts["confidence"]).mean())
    return float(np.mean(gaps))


def nll(log_probs: np.ndarray, labels: np.ndarray) -> float:
    """Mean negative logarithm of the true class's probability, nats."""
    if not len(labels):
        return float("nan")
    return float(-log_probs.astype(np.float64)[np.arange(len(labels)), labels].mean())


def brier(probs: np.ndarray, labels: np.ndarray) -> float:
    """Mean squared distance to the one-hot label, summed over classes: in [0, 2]."""
    if not len(labels):
        return float("nan")
    true = probs[np.arange(len(labels)), labels]
    return float((np.square(probs).sum(1) - 2 * true + 1).mean())


def entropy(probs: np.ndarray) -> np.ndarray:
    """(n, K) -> (n,) nats."""
    nats: np.ndarray = -(probs * np.log(np.maximum(probs, np.finfo(np.float64).tiny))).sum(1)
    return nats


def rejection(confidence: np.ndarray, correct: np.ndarray, points: int = 51) \
        -> dict[str, np.ndarray]:
    """Accuracy of the rest when the least confident are left out.

    Returns:
        `rejected` shares, `accuracy` of the rest, `best`: if the wrong ones went first.
    """
    total = len(confidence)
    rejected = np.linspace(0, 0.98, points)
    if not total:
        return {"rejected": rejected, "accuracy": np.full(points, np.nan),
                "best": np.full(points, np.nan)}
    kept = np.maximum(((1 - rejected) * total).round().astype(int), 1)
    right = np.cumsum(share_ties(-confidence, correct))  # most confident first
    best = np.minimum(correct.sum() / kept, 1.0)
    return {"rejected": rejected, "accuracy": right[kept - 1] / kept, "best": best}


def rejection_area(confidence: np.ndarray, correct: np.ndarray) -> float:
    """Mean accuracy over all numbers of samples kept: 1 only if everything is right."""
    if not len(confidence):
        return float("nan")
    right = np.cumsum(share_ties(-confidence, correct))
    return float((right / np.arange(1, len(right) + 1)).mean())


def reliability(confidence: np.ndarray, correct: np.ndarray, equal_mass: bool,
                bins: int = BINS) -> dict[str, np.ndarray]:
    """The bins of a reliability diagram; means of empty bins are NaN."""
    if equal_mass:
        if not len(confidence):
            return {name: np.zeros(0) for name in ("low", "high", "count", "confidence",
                                                   "accuracy")}
        return _equal_mass(confidence, correct, bins)
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    means = {}
    for name, values in (("confidence", confidence), ("accuracy", correct.astype(np.float64))):
        sums = np.bincount(place, values, minlength=bins)
        means[name] = np.divide(sums, count, out=np.full(bins, np.nan), where=count > 0)
    return {"low": edges[:-1], "high": edges[1:], "count": count, **means}
