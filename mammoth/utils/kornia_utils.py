"""Upstream's names for batched augmentation; ours needs no kornia."""
from collections.abc import Callable, Sequence
from typing import Any

import torch

from utils.augmentations import BatchTransform, to_batch_transform


def to_kornia_transform(transform: Any, apply: bool = True) -> Any:
    """A pipeline of torchvision's for whole batches (`utils.augmentations.to_batch_transform`).

    Args:
        apply: give one transform; otherwise the list of its steps.
    """
    batched = to_batch_transform(transform)
    return batched if apply else list(getattr(batched, "transforms", ()))


class KorniaMultiAug(BatchTransform):
    """Several augmented versions of a batch.

    Args:
        n_augs: how many.
        aug_list: transforms of batches, applied one after the other.
    """

    def __init__(self, n_augs: int, aug_list: Sequence[Callable]) -> None:
        self.n_augs = n_augs
        self.aug_list = list(aug_list)

    def apply(self, images: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W) -> (n_augs, B, C, H, W)"""
        versions = images.repeat(self.n_augs, 1, 1, 1)
        for augment in self.aug_list:
            versions = augment(versions)
        return versions.view(self.n_augs, len(images), *versions.shape[1:])
