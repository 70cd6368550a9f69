"""A temperature after each task, fitted on samples that were never trained on (`--calibrate N`).

Replayed samples are known by heart, so how sure a method is of them says little about new ones.
N samples of the tasks so far are kept apart instead (`datasets.utils.masking`).
"""
import math
from typing import Any

import torch
from torch.nn import functional as F

from engine.errors import UsageError
from utils.evaluate import evaluation_mode, outputs_of

# log T is normal around 0 before any sample is seen: twenty samples alone tell too little.
PRIOR_SD = 0.5
_RANGE = (-3.0, 3.0)


def fit_temperature(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """T of softmax(outputs / T): the mode of its posterior, given some samples.

    Args:
        outputs: (n, K) scores of the classes.
        labels: (n,).
    """
    from scipy.optimize import minimize_scalar

    outputs = outputs.double()

    def cost(log_t: float) -> float:
        nats = F.cross_entropy(outputs * math.exp(-log_t), labels, reduction="sum")
        return float(nats) + 0.5 * (log_t / PRIOR_SD) ** 2

    return math.exp(minimize_scalar(cost, bounds=_RANGE, method="bounded",
                                    options={"xatol": 1e-6}).x)


def calibrate(model: Any, dataset: Any) -> None:
    """Set the temperature at which a method answers from now on.

    Raises:
        UsageError: the benchmark keeps nothing apart.
    """
    if not dataset.kept_apart:
        raise UsageError(f"--calibrate needs samples of {dataset.NAME} that are not trained on, "
                         "but it makes its loaders without store_masked_loaders(); leave it out.")
    model.temperature = 1.0
    n_seen = dataset.get_offsets()[1]
    outputs, labels = [], []
    with evaluation_mode(model):
        for task, loader in enumerate(dataset.kept_apart):
            for batch in loader:
                found = outputs_of(model, batch[0].to(model.device), task)
                outputs.append(found[:, :n_seen].cpu())
                labels.append(batch[1])
    model.temperature = fit_temperature(torch.cat(outputs), torch.cat(labels))
