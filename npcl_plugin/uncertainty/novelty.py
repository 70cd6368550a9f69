"""Does the model notice data of another kind? Scores: the higher, the more novel."""
import numpy as np

from npcl_plugin.uncertainty.calibration import entropy, probabilities


def scores_of(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every score that a file of predictions has, (n,) each.

    `max_softmax` is 1 - the largest probability. Variances and distance exist for the NP family
    only.
    """
    probs = probabilities(arrays["log_probs"])
    found = {"max_softmax": 1.0 - probs.max(1, initial=0.0), "entropy": entropy(probs),
             "energy": arrays["energy"].astype(np.float64)}
    for name in ("variance_softmax", "variance_entropy", "distance"):
        if name in arrays:
            found[name] = arrays[name].astype(np.float64)
    return found


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """Probability that a novel sample has the higher score; ties count half."""
    if not len(inside) or not len(outside):
        return float("nan")
    ordered = np.sort(inside)
    wins = sum(ordered.searchsorted(outside, side).sum() for side in ("left", "right")) / 2
    return float(wins / (len(inside) * len(outside)))


def fpr_at_95(inside: np.ndarray, outside: np.ndarray) -> float:
    """Share of novel samples that pass as known where 95 % of the known ones do.

    The threshold is the smallest score that at least 95 % of the known samples do not exceed.
    """
    if not len(inside) or not len(outside):
        return float("nan")
    rank = int(np.ceil(round(0.95 * len(inside), 9))) - 1
    return float((outside <= np.sort(inside)[rank]).mean())


def histogram(inside: np.ndarray, outside: np.ndarray, bins: int = 20) -> dict[str, np.ndarray]:
    """Shares of both in common bins, from the lowest to the 99th percentile and beyond."""
    both = np.concatenate((inside, outside))
    low, high = (float(both.min()), float(np.quantile(both, 0.99))) if len(both) else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1.0, bins + 1)

    def shares(values: np.ndarray) -> np.ndarray:
        counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
        return counts / max(len(values), 1)

    return {"edges": edges, "id": shares(inside), "ood": shares(outside)}


def variances(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over S draws of probabilities (S, n, K): of the probabilities, of the entropies; (n,) each.

    The first is the mean over classes of the variance of a class's probability; both divide by
    S, so that one draw has variance 0.
    """
    safe = np.maximum(draws, np.finfo(draws.dtype).tiny)
    entropies = -(draws * np.log(safe)).sum(-1)  # (S, n)
    return draws.var(0).mean(-1), entropies.var(0)
