"""Norms, active units and drift of latent distributions (figure 3, appendix G.1), from arrays."""
import numpy as np

ACTIVE = 0.01  # nats; a unit whose KL is below it says nothing


def l1_norms(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of `distributions`: `global_mean`, `global_sd` () and `task_mean`, `task_sd` (H,)."""
    of_global, of_tasks = (np.abs(values[name]).sum(-1) for name in ("now_global", "now_task"))
    return {"global_mean": of_global[0], "global_sd": of_global[1],
            "task_mean": of_tasks[0], "task_sd": of_tasks[1]}


def drift(now: np.ndarray, then: np.ndarray) -> dict[str, np.ndarray]:
    """Distances between Gaussians (2, ..., O) of means and sds: `kl` of now from then, `w2`."""
    (mean, sd), (old_mean, old_sd) = now.astype(np.float64), then.astype(np.float64)
    kl = np.log(old_sd / sd) + (sd ** 2 + (mean - old_mean) ** 2) / (2 * old_sd ** 2) - 0.5
    squared = (mean - old_mean) ** 2 + (sd - old_sd) ** 2
    return {"kl": kl.sum(-1), "w2": np.sqrt(squared.sum(-1))}


def active_units(kl: np.ndarray) -> np.ndarray:
    """How many units (..., O) say something; NaN where the latent does not exist."""
    count = (kl > ACTIVE).sum(-1).astype(np.float64)
    return np.where(np.isnan(kl).all(-1), np.nan, count)


def sorted_log_kl(kl: np.ndarray, points: int = 64) -> np.ndarray:
    """log10 of the units' KL, largest first, at most `points` of them, evenly spaced."""
    values: np.ndarray = np.sort(np.log10(np.maximum(kl.astype(np.float64), 1e-12)))[::-1]
    if len(values) <= points:
        return values
    chosen: np.ndarray = values[np.linspace(0, len(values) - 1, points).round().astype(int)]
    return chosen
