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


def for_smaller_images(pipeline: transforms.Compose, factor: int) -> transforms.Compose:
    """The same pipeline for images of 1 / `factor` of the extent: crops and padding shrink too."""
    return transforms.Compose([_smaller_crop(step, factor)
                               if isinstance(step, transforms.RandomCrop) else step
                               for step in pipeline.transforms])


def _smaller_crop(crop: transforms.RandomCrop, factor: int) -> transforms.RandomCrop:
    padding = crop.padding or 0
    smaller = padding // factor if isinstance(padding, int) else [p // factor for p in padding]
    return transforms.RandomCrop([extent // factor for extent in crop.size], smaller,
                                 crop.pad_if_needed, crop.fill, crop.padding_mode)
