"""Images in memory, turned into batches of floats without a Python step per image."""
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import Dataset

from utils.augmentations import to_batch_transform


class Domain(Protocol):
    """What makes a task out of the same images: a permutation or a rotation."""

    def on_batch(self, images: torch.Tensor) -> torch.Tensor:
        """Args: images (B, C, H, W). Returns: the task's version of them."""
        ...

    def moves(self, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Where each pixel comes from (H*W,), and which ones come from inside the image (H*W,)."""
        ...


def to_float(rows: torch.Tensor) -> torch.Tensor:
    """What torchvision's ToTensor gives, for many images at once.

    Args:
        rows: (B, H, W) or (B, H, W, C); uint8 is scaled to [0, 1], floats are left as they are;
            or features (B, F).

    Returns:
        (B, C, H, W), or (B, F) for features; float32, contiguous.
    """
    if rows.dim() == 2:
        return rows.to(torch.float32, copy=True)
    channels_first = rows.unsqueeze(1) if rows.dim() == 3 else rows.permute(0, 3, 1, 2)
    images = channels_first.to(torch.float32, memory_format=torch.contiguous_format, copy=True)
    return images.div_(255) if rows.dtype == torch.uint8 else images


def average_pooled(images: torch.Tensor, factor: int) -> torch.Tensor:
    """Smaller images, each pixel the rounded average of `factor` x `factor` pixels.

    Args:
        images: (N, H, W, C) uint8; `factor` divides both extents.

    Returns:
        (N, H / factor, W / factor, C) uint8
    """
    count, height, width, channels = images.shape
    rows = images.reshape(count, height // factor, factor, width * channels)
    total = rows.sum(2, dtype=torch.int32).view(count, height // factor, width // factor, factor,
                                                channels).sum(3, dtype=torch.int32)
    return total.add_(factor**2 // 2).div_(factor**2, rounding_mode="floor").to(torch.uint8)


def image_to_float(image: Any) -> torch.Tensor:
    """ToTensor for one image: PIL, array or tensor (H, W) or (H, W, C) -> (C, H, W)."""
    pixels = image if torch.is_tensor(image) else torch.from_numpy(np.array(image))
    return to_float(pixels.unsqueeze(0)).squeeze(0)


class ImageDataset(Dataset):
    """Images and labels of one split.

    Items are those of an ordinary torchvision dataset of this harness: `(augmented, label,
    image)` for training, `(image, label)` for testing. `fetch` gives the same for many at once.

    Args:
        data: (N, H, W) or (N, H, W, C) uint8.
        targets: (N,) labels.
        transform: augmentation and normalisation (torchvision's), None for neither.
        train: whether the image without augmentation is returned too.
        domain: applied before everything else, to the un-augmented image too.
    """

    def __init__(self, data: Any, targets: Any, transform: Callable | None = None,
                 train: bool = False, domain: Domain | None = None) -> None:
        self.data = data
        self.targets = targets
        self.train = train
        self.domain = domain
        self.transform = transform
        if train:
            self.not_aug_transform = image_to_float

    @property
    def transform(self) -> Callable | None:
        """The transform as it was given; setting it replaces the batched form too."""
        return self._transform

    @transform.setter
    def transform(self, transform: Callable | None) -> None:
        self._transform = transform
        self._on_batch = to_batch_transform(transform)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple:
        position = index + len(self) if index < 0 else int(index)
        if not 0 <= position < len(self):
            raise IndexError(f"Expected an index below {len(self)}, but got {index}.")
        image, label, *rest = self.fetch(slice(position, position + 1))
        return (image[0], int(label[0]), *(part[0] for part in rest))

    def fetch(self, index: torch.Tensor | slice) -> tuple[torch.Tensor, ...]:
        """The rows `index` as one batch.

        Returns:
            (augmented, labels, images) for training, (images, labels) for testing; the images
            are (B, C, H, W) floats. Without a transform both image tensors are the same object.
        """
        images = self._images(index)
        augmented = images if self._on_batch is None else self._on_batch(images)
        labels = torch.as_tensor(self.targets)[index].long()
        return (augmented, labels, images) if self.train else (augmented, labels)

    def _images(self, index: torch.Tensor | slice) -> torch.Tensor:
        """The rows `index` as the task shows them, (B, C, H, W)."""
        data = torch.as_tensor(self.data)
        images = to_float(data[index] if isinstance(index, slice) else data.index_select(0, index))
        return images if self.domain is None else self.domain.on_batch(images)
