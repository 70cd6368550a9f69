"""A mixture of two beta distributions on [0, 1], fitted by expectation maximisation.

Used to tell clean from noisy labels by the sample's loss or centrality (Arazo et al., 2019).
"""
import numpy as np
from scipy.stats import beta

_EDGE = 1e-4
_TINY = 1e-12
_STEPS = 100


class BetaMixture1D:
    """Two components; the first has the smaller mean at the start.

    Args:
        max_iters: rounds of expectation and maximisation.
        alphas_init: first parameters of the two components.
        betas_init: their second parameters.
        weights_init: their shares.
    """

    def __init__(self, max_iters: int = 10, alphas_init: tuple[float, float] = (1, 2),
                 betas_init: tuple[float, float] = (2, 1),
                 weights_init: tuple[float, float] = (0.5, 0.5)) -> None:
        self.max_iters = max_iters
        self.alphas = np.array(alphas_init, dtype=float)
        self.betas = np.array(betas_init, dtype=float)
        self.weight = np.array(weights_init, dtype=float)
        self.lookup = np.zeros(_STEPS)

    @staticmethod
    def outlier_remove(x: np.ndarray) -> tuple[np.ndarray, float, float]:
        """Values between the 5th and the 95th percentile, and these bounds."""
        low, high = np.percentile(x, [5, 95])
        return x[(x >= low) & (x <= high)], low + 1e-5, high

    @staticmethod
    def normalize(x: np.ndarray, x_min: float, x_max: float) -> np.ndarray:
        """Move [x_min, x_max] to the open interval (0, 1); what lies outside goes to its ends."""
        return np.clip((x - x_min) / (x_max - x_min + 1e-6), 1e-3, 1 - 1e-3)

    def fit(self, x: np.ndarray) -> None:
        """Fit to values in [0, 1], (n,)."""
        x = np.clip(x, _EDGE, 1 - _EDGE)
        for _ in range(self.max_iters):
            joint = np.maximum(self._joint(x), _TINY)  # (2, n)
            shares = joint / joint.sum(axis=0)
            self._match_moments(x, shares)
            self.weight = shares.sum(axis=1) / shares.sum()

    def _match_moments(self, x: np.ndarray, shares: np.ndarray) -> None:
        """The parameters whose mean and variance are the weighted ones of the data."""
        mean = np.average(np.tile(x, (2, 1)), axis=1, weights=shares)  # (2,)
        variance = np.average((x - mean[:, None]) ** 2, axis=1, weights=shares)
        size = mean * (1 - mean) / np.maximum(variance, _TINY) - 1
        self.alphas, self.betas = mean * size, (1 - mean) * size

    def _joint(self, x: np.ndarray) -> np.ndarray:
        """Density of each component times its share, (2, n)."""
        return self.weight[:, None] * beta.pdf(x, self.alphas[:, None], self.betas[:, None])

    def posterior(self, x: np.ndarray, y: int) -> np.ndarray:
        """Probability that x, (n,), came from component y."""
        joint = np.nan_to_num(self._joint(np.asarray(x, dtype=float)), posinf=1 / _TINY)
        return joint[y] / (joint.sum(axis=0) + _TINY)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Whether the second component is the likelier one."""
        return self.posterior(x, 1) > 0.5

    def create_lookup(self, y: int) -> None:
        """Tabulate component y's posterior; beyond its peak it stays at the peak."""
        table = self.posterior(np.linspace(_TINY, 1 - _TINY, _STEPS), y)
        table[table.argmax():] = table.max()
        self.lookup = table

    def look_lookup(self, x: np.ndarray) -> np.ndarray:
        """The tabulated posterior of values in [0, 1]."""
        return self.lookup[np.clip((np.asarray(x) * _STEPS).astype(int), 0, _STEPS - 1)]
