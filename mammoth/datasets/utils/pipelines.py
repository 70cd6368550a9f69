"""The torchvision pipelines of the colour benchmarks."""
from collections.abc import Sequence
from typing import Any

from torchvision import transforms


def augmented(size: int, mean: Sequence[float], std: Sequence[float],
              *more: Any) -> transforms.Compose:
    """Random crop (4 pixels of zero padding) and flip, `more`, then tensor and normalisation."""
    return transforms.Compose([transforms.RandomCrop(size, padding=4),
                               transforms.RandomHorizontalFlip(), *more,
                               transforms.ToTensor(), transforms.Normalize(mean, std)])


def normalised(mean: Sequence[float], std: Sequence[float]) -> transforms.Compose:
    """Tensor and normalisation only, for testing."""
    return transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean, std)])


def colour_jitter() -> transforms.ColorJitter:
    """The additional augmentation of the `strong` pipelines."""
    return transforms.ColorJitter(0.2, 0.2, 0.2, 0.1)
