"""Holding out a part of the training set."""
import math
from typing import Any

import numpy as np
import torch

from engine.errors import UsageError


def validation_fraction(validation: float | None) -> float:
    """The held-out fraction that `--validation` means: percent, or a fraction if below 1.

    Raises:
        UsageError: nothing would be left for training, or the value is negative.
    """
    value = float(validation or 0)
    if not 0 <= value < 100:
        raise UsageError(f"Expected --validation to be a percentage of at least 0 and below 100, "
                         f"but got {validation}.")
    return value / 100 if value >= 1 else value


def get_validation_indexes(validation: float, dataset: Any,
                           seed: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Split a dataset class by class.

    Args:
        validation: as given on the command line.
        dataset: has `targets`.
        seed: of the random choice; 0 when None.

    Returns:
        Positions that stay for training and those held out, both ascending: of each class with n
        samples, ceil(n * fraction) are held out.
    """
    fraction = validation_fraction(validation)
    targets = np.asarray(dataset.targets)
    generator = torch.Generator().manual_seed(0 if seed is None else seed)
    held_out = []
    for label in np.unique(targets):
        members = np.flatnonzero(targets == label)
        chosen = torch.randperm(len(members), generator=generator).numpy()
        held_out.append(members[chosen[:math.ceil(len(members) * fraction)]])
    validation_part = np.sort(np.concatenate(held_out))
    training_part = np.setdiff1d(np.arange(len(targets)), validation_part, assume_unique=True)
    return training_part, validation_part
