"""What answering costs, and what more context or more draws buy (appendices E and G.3).

Times are CPU seconds of this process, which other work on the machine does not lengthen; every
one includes encoding the context once. Where settings of one model are compared the images'
features are computed and timed once, and that time is part of each figure.
"""
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from npcl_plugin.contract import keeps_only_buffer
from npcl_plugin.inference import probabilities
from npcl_plugin.plan import Draws
from npcl_plugin.uncertainty.predictions import batch_size, is_np

CONTEXT_SHARES = (0.0, 0.025, 0.125, 0.25, 0.5, 1.0)
N_DRAWS = (1, 5, 10, 20, 50)
M_DRAWS = (1, 5, 10)


class Targets(NamedTuple):
    """Images as the neural process gets them: features (n, F), labels (n,), the features' time."""

    features: torch.Tensor
    labels: torch.Tensor
    seconds: float


def storage(model: Any, rows: int, n_classes: int) -> dict[str, float | None]:
    """Numbers stored besides images and labels, beside DER's (paper, section 5.2).

    DER: K logits per row of the buffer. The NP family: 2 |o| per task, 2 |o| globally, a task label
    per row, and with --dark_replay K logits per row too. Of a method that keeps other things
    nothing is known.

    Args:
        rows: size of the buffer.
    """
    der = rows * n_classes
    own: int | None = None
    if is_np(model) or keeps_only_buffer(model):
        own = rows * numbers_per_row(getattr(model, "buffer", None))
    if is_np(model):
        own += model.net.memory.numbers()
        for name in ("class_means", "input_memory", "recall"):
            if (kept := getattr(model, name, None)) is not None:
                own += kept.numbers()
    gain = None if own is None or not der else 100 * (1 - own / der)
    return {"stored": own, "der": der, "gain_percent": gain}


def numbers_per_row(buffer: Any) -> int:
    """Numbers that each row of a buffer in use holds besides its image and its label."""
    columns = [getattr(buffer, name) for name in getattr(buffer, "used_attributes", ())
               if name not in ("examples", "labels")]
    return sum(math.prod(column.shape[1:]) for column in columns)


def cpu_seconds(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function gives, and the time it took."""
    began = time.process_time()
    value = function()
    return value, time.process_time() - began


def measure(model: Any, images: torch.Tensor, labels: torch.Tensor, n_seen: int,
            answer: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Any]:
    """Everything that a trained model can be timed on.

    Args:
        images: (n, ...), of all tasks.
        labels: (n,).
        answer: the model's usual way to its outputs.
    """
    if is_np(model):
        model.predictor.forget()
    _, seconds = cpu_seconds(lambda: [answer(part) for part in images.split(256)])
    found: dict[str, Any] = {"answer": {"images": len(images), "seconds": seconds},
                             "context": None, "draws": None}
    if is_np(model) and not model.buffer.is_empty():
        features, seconds = cpu_seconds(lambda: torch.cat(
            [model.net.features(part) for part in images.split(256)]))
        targets = Targets(features, labels, seconds)
        found["context"] = by_context(model, targets, n_seen)
        found["draws"] = by_draws(model, targets, n_seen)
    return found


def by_context(model: Any, targets: Targets, n_seen: int) -> dict[str, list[Any]]:
    """Accuracy, mean entropy and time with parts of the buffer as context."""
    sizes = sorted({round(share * len(model.buffer)) for share in CONTEXT_SHARES})
    columns: dict[str, list[Any]] = {"size": sizes, "accuracy": [], "entropy": [], "seconds": []}
    usual = model.predictor.context_size
    try:
        for size in sizes:
            model.predictor.context_size = size
            probs, seconds = _timed(model, targets, model.predictor.draws)
            columns["accuracy"].append(_accuracy(probs, targets.labels, n_seen))
            columns["entropy"].append(float(torch.special.entr(probs).sum(1).mean()))
            columns["seconds"].append(seconds)
    finally:
        model.predictor.context_size = usual
        model.predictor.forget()
    return columns


def by_draws(model: Any, targets: Targets, n_seen: int) -> dict[str, Any]:
    """Accuracy and time for numbers of draws N and M: matrices [N][M]."""
    accuracy, taken = np.zeros((2, len(N_DRAWS), len(M_DRAWS)))
    for i, n_global in enumerate(N_DRAWS):
        for j, n_task in enumerate(M_DRAWS):
            probs, taken[i, j] = _timed(model, targets, Draws(n_global, n_task))
            accuracy[i, j] = _accuracy(probs, targets.labels, n_seen)
    model.predictor.forget()
    return {"N": list(N_DRAWS), "M": list(M_DRAWS), "accuracy": accuracy, "seconds": taken}


def _timed(model: Any, targets: Targets, draws: Draws) -> tuple[torch.Tensor, float]:
    """Probabilities (n, C) as the model's own answers, and the time from images to them."""

    def answers() -> torch.Tensor:
        model.predictor.forget()
        ready = model.predictor.prepared(draws)
        return torch.cat([probabilities(model.net, ready, model.predictor.mode, x)
                          for x in targets.features.split(batch_size(model, draws))])

    probs, seconds = cpu_seconds(answers)
    return probs, seconds + targets.seconds


def _accuracy(probs: torch.Tensor, labels: torch.Tensor, n_seen: int) -> float:
    return float((probs[:, :n_seen].argmax(1).cpu() == labels).double().mean())
