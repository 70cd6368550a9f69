"""Asking a model: from images to the compact arrays of task_XX.npz and novel_XX.npz.

For any model the answer is the softmax of `model(x)` over the classes seen so far. That is the
definition also where the outputs are no logits: log-probabilities (the NP family) come back as
they are, minus squared distances (iCaRL) become those of a Gaussian around each class mean.
"""
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from npcl_plugin.answers import Prediction
from npcl_plugin.contract import outputs_of
from npcl_plugin.plan import Draws
from npcl_plugin.uncertainty.confidence import instance_values
from npcl_plugin.uncertainty.novelty import variances
from npcl_plugin.uncertainty.np_context import head_count

BATCH = 256
QQ_SAMPLES = 16
# Numbers in all heads' logits of a batch: more leave the caches, and take two to three times as
# long for each image.
_LARGEST = 2 ** 20
_SMALLEST_LOG = -100.0


def is_np(model: Any) -> bool:
    """Whether a model is of the NP family: it answers with heads and draws."""
    return hasattr(model, "predict") and hasattr(model, "predictor")


def evenly_spaced(total: int, count: int) -> torch.Tensor:
    """`count` of `total` row numbers, the same every time; all of them for 0."""
    if count <= 0 or count >= total:
        return torch.arange(total)
    return torch.linspace(0, total - 1, count, dtype=torch.float64).round().long()


def batches(data: Any, rows: torch.Tensor, size: int = BATCH) \
        -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Images and labels of a test set's rows, `size` at a time."""
    for part in rows.split(size):
        if hasattr(data, "fetch"):
            yield data.fetch(part)[:2]
        else:
            items = [data[int(row)][:2] for row in part]
            yield (torch.stack([item[0] for item in items]),
                   torch.tensor([int(item[1]) for item in items]))


def answers(model: Any, data: Any, rows: torch.Tensor, task: int,
            n_seen: int) -> dict[str, np.ndarray]:
    """`log_probs`, `predicted`, `energy` and `labels` of a test set's rows.

    Args:
        task: told to models that know the task only.
        n_seen: K.
    """
    found: dict[str, list[np.ndarray]] = {
        name: [] for name in ("log_probs", "predicted", "energy", "labels")}
    for images, labels in batches(data, rows):
        images = images.to(model.device)
        outputs = outputs_of(model, images, task)[:, :n_seen].double()
        log_probs = outputs.log_softmax(1).clamp_min(_SMALLEST_LOG)
        found["log_probs"].append(log_probs.cpu().numpy().astype(np.float16))
        found["predicted"].append(outputs.argmax(1).cpu().numpy())
        found["energy"].append(-outputs.logsumexp(1).cpu().numpy())
        found["labels"].append(labels.numpy())
    return {name: np.concatenate(parts) for name, parts in found.items() if parts}


def compact(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Wide integers as int16 (classes, heads, tasks), double precision as single."""
    small = {"int64": np.int16, "float64": np.float32}
    return {name: value.astype(small.get(value.dtype.name, value.dtype))
            for name, value in arrays.items()}


def batch_size(model: Any, draws: Draws) -> int:
    """How many images all heads of a neural process answer at a time."""
    numbers = head_count(model) * draws.total * model.net.plan.n_classes
    return int(min(BATCH, max(8, _LARGEST // numbers)))


def head_arrays(model: Any, data: Any, rows: torch.Tensor, draws: Draws, n_seen: int,
                true_heads: torch.Tensor | None = None) -> dict[str, np.ndarray]:
    """What the NP family adds, for the same rows (at least one).

    Args:
        true_heads: (n,) head of each row's task; None for novel data, which has none. With it
            `differences` (n, S) between the two most predicted classes are there too.
    """
    size = batch_size(model, draws)
    parts: list[dict[str, np.ndarray]] = []
    done = 0
    for images, labels in batches(data, rows, size):
        prediction = model.predict(images.to(model.device), draws)
        values = _of_heads(prediction, n_seen)
        if true_heads is not None:
            own = true_heads[done:done + len(labels)].to(prediction.head.device)
            values |= _of_instances(prediction, labels.numpy(), own)
        parts.append(values)
        done += len(labels)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def choose_for_qq(arrays: dict[str, np.ndarray]) -> None:
    """Keep the differences of a few evenly spaced samples only, in place."""
    rows = evenly_spaced(len(arrays["head"]), QQ_SAMPLES).numpy()
    arrays |= {"qq_rows": rows.astype(np.int32),
               "qq_differences": arrays.pop("differences")[rows].astype(np.float32)}


def _of_heads(prediction: Prediction, n_seen: int) -> dict[str, np.ndarray]:
    """For novel and known data alike, (B, ...) each; `distance` where there is a context."""
    logits, batch = prediction.logits, torch.arange(len(prediction.head))
    chosen = logits[prediction.head, :, batch.to(logits.device)]  # (B, S, C)
    of_probs, of_entropies = variances(prediction.draws.cpu().double().numpy())
    far = {} if prediction.distance is None else {"distance": prediction.distance.cpu().numpy()}
    return {**far, "head": prediction.head.cpu().numpy(),
            "head_entropy": prediction.entropy.T.cpu().numpy().astype(np.float16),
            "head_predicted": prediction.head_probs[..., :n_seen].argmax(-1).T.cpu().numpy(),
            "energy": -chosen.double().logsumexp(-1).mean(1).cpu().numpy(),
            "variance_softmax": of_probs, "variance_entropy": of_entropies}


def _of_instances(prediction: Prediction, labels: np.ndarray,
                  true_heads: torch.Tensor) -> dict[str, np.ndarray]:
    """Widths, votes and tests, (B, 2) each: under the true head, under the answering one."""
    batch = torch.arange(len(labels), device=true_heads.device)
    own = prediction.logits[true_heads, :, batch].softmax(-1).transpose(0, 1)  # (S, B, C)
    both = [instance_values(draws.cpu().double().numpy(), labels)
            for draws in (own, prediction.draws)]
    stacked = {name: np.stack([values[name] for values in both], axis=1)
               for name in ("piw", "vote", "t_p")}
    return {**stacked, "differences": both[0]["differences"].T}  # (B, S)
