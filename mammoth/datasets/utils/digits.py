"""The handwritten digits that come with scikit-learn: 1797 real 8x8 images, no download."""
import functools
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from engine.errors import UsageError

_TEST_SHARE = 0.2
_SPLIT_SEED = 0  # the split is part of the benchmark, not of a run
_BRIGHTEST = 16


def _read_table() -> tuple[np.ndarray, np.ndarray]:
    """Pixels (1797, 64) in 0 .. 16 and labels (1797,).

    Importing scikit-learn takes longer than a whole run on these data, so its file is read
    directly; where a version keeps it elsewhere, its own loader does it.
    """
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise UsageError("The digits benchmarks need scikit-learn, which is not installed; run "
                         "`pip install scikit-learn`.")
    table = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if table.is_file():
        values = np.loadtxt(table, delimiter=",")
        return values[:, :-1], values[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits as sklearn_digits

    return sklearn_digits(return_X_y=True)


@functools.lru_cache(maxsize=1)
def _splits() -> dict[bool, tuple[torch.Tensor, torch.Tensor]]:
    """Both splits, stratified: a fifth of each class is for testing."""
    pixels, labels = _read_table()
    images = np.rint(pixels * (255 / _BRIGHTEST)).astype(np.uint8).reshape(-1, 8, 8)
    rng = np.random.default_rng(_SPLIT_SEED)
    is_test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        is_test[members[:round(len(members) * _TEST_SHARE)]] = True
    return {train: (torch.from_numpy(images[is_test != train]),
                    torch.from_numpy(labels[is_test != train].astype(np.int64)))
            for train in (True, False)}


def load_digits(train: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (N, 8, 8) uint8 and labels (N,) int64 of one split."""
    return _splits()[train]


class DigitsImages:
    """What the digits benchmarks have in common, whatever tasks they make of the images.

    The defaults let a task be learned in well under a second.
    """

    N_CLASSES = 10
    SIZE: tuple[int, ...] = (8, 8)
    CLASS_NAMES: tuple[str, ...] | None = tuple(str(digit) for digit in range(10))
    DEFAULTS = {"backbone": "mnistmlp", "batch_size": 32, "n_epochs": 5}

    def load_split(self, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Images (N, 8, 8) uint8 and labels (N,)."""
        return load_digits(train)
