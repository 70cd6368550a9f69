"""Samples of the task that has just been learned."""
from typing import Any

import torch

from datasets.utils.label_reduction import labelled_rows


def draw_samples(dataset: Any, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random training samples of the current task, at most as many as it has.

    Args:
        dataset: the benchmark; its training loader shuffles.
        count: how many.

    Returns:
        Augmented images (n, C, H, W), labels (n,) and the images without augmentation.
    """
    parts, found = [], 0
    for batch in dataset.train_loader:
        parts.append([part[:count - found] for part in labelled_rows(batch[:3])])
        found += len(parts[-1][1])
        if found >= count:
            break
    inputs, labels, not_aug_inputs = (torch.cat(part) for part in zip(*parts, strict=True))
    return inputs, labels, not_aug_inputs
