"""Augmentation of whole batches; every sample has its own randomness.

`to_batch_transform` turns a torchvision pipeline into one that works on (B, C, H, W) floats in
[0, 1], where crop, flip and normalisation are a few tensor operations for the whole batch.
Random numbers come from torch's global generator.
"""
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import utils.torchvision_compat  # noqa: F401  (torchvision may be imported from here on)
from engine.cutmix import cutmix_data  # noqa: F401  (these two: upstream's files look here)
from engine.image_pairs import (  # noqa: F401
    CustomRandomCrop,
    CustomRandomHorizontalFlip,
    DoubleCompose,
    DoubleTransform,
)
from utils.conf import warn_once


class BatchTransform:
    """Base of the transforms that work on a batch; a single image (C, H, W) is allowed too."""

    @torch.no_grad()
    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        if images.dim() == 3:
            return self.apply(images.unsqueeze(0)).squeeze(0)
        return self.apply(images)

    def apply(self, images: torch.Tensor) -> torch.Tensor:
        """Args: images (B, C, H, W). Returns: a new tensor; the given one is left as it is."""
        raise NotImplementedError


class BatchCompose(BatchTransform):
    """One transform after the other."""

    def __init__(self, transforms: Sequence[BatchTransform]) -> None:
        self.transforms = list(transforms)

    def apply(self, images: torch.Tensor) -> torch.Tensor:
        for transform in self.transforms:
            images = transform(images)
        return images


def crop_batch(images: torch.Tensor, tops: torch.Tensor, lefts: torch.Tensor,
               size: tuple[int, int]) -> torch.Tensor:
    """Cut one window out of each image.

    Args:
        images: (B, C, H, W), already padded.
        tops: (B,) first row of each window.
        lefts: (B,) first column of each window.
        size: height and width of the windows.

    Returns:
        (B, C, height, width)
    """
    windows = images.unfold(2, size[0], 1).unfold(3, size[1], 1)  # (B, C, rows, cols, h, w)
    samples = torch.arange(len(images), device=images.device)
    return windows[samples, :, tops.to(images.device), lefts.to(images.device)]


def flip_batch(images: torch.Tensor, chosen: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Mirror the images where `chosen` (B,) is True; dim -1 is left-right, -2 upside-down."""
    mask = chosen.to(images.device).view(-1, 1, 1, 1)
    return torch.where(mask, images.flip(dim), images)


class RandomCrop(BatchTransform):
    """Zero-pads and cuts a window at a random place, its own for each image.

    Args:
        size: height and width of the result.
        padding: left, top, right, bottom.
    """

    def __init__(self, size: tuple[int, int], padding: Sequence[int] = (0, 0, 0, 0)) -> None:
        self.size = size
        self.padding = tuple(padding)

    def apply(self, images: torch.Tensor) -> torch.Tensor:
        left, top, right, bottom = self.padding
        padded = F.pad(images, (left, right, top, bottom))
        rows, cols = (padded.shape[2] - self.size[0] + 1, padded.shape[3] - self.size[1] + 1)
        if rows < 1 or cols < 1:
            raise ValueError(f"Expected images of at least {self.size} pixels after padding, but "
                             f"got {tuple(padded.shape[2:])}.")
        count = len(images)
        return crop_batch(padded, torch.randint(rows, (count,)), torch.randint(cols, (count,)),
                          self.size)


class RandomFlip(BatchTransform):
    """Mirrors each image with probability `p`."""

    def __init__(self, p: float = 0.5, dim: int = -1) -> None:
        self.p = p
        self.dim = dim

    def apply(self, images: torch.Tensor) -> torch.Tensor:
        return flip_batch(images, torch.rand(len(images)) < self.p, self.dim)


class RandomHorizontalFlip(RandomFlip):
    """Left-right mirror image with probability `p`."""


class Normalize(BatchTransform):
    """(x - mean) / std, channel by channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean = torch.as_tensor(mean, dtype=torch.float32).view(-1, 1, 1)
        self.std = torch.as_tensor(std, dtype=torch.float32).view(-1, 1, 1)

    def apply(self, images: torch.Tensor) -> torch.Tensor:
        return images.sub(self.mean.to(images)).div_(self.std.to(images))


class RandomApply(BatchTransform):
    """Applies a transform to a random part of the batch: each image with probability `p`."""

    def __init__(self, transform: BatchTransform, p: float = 0.5) -> None:
        self.transform = transform
        self.p = p

    def apply(self, images: torch.Tensor) -> torch.Tensor:
        chosen = (torch.rand(len(images)) < self.p).to(images.device)
        if not chosen.any():
            return images
        changed = images.clone()
        changed[chosen] = self.transform(images[chosen])
        return changed


class PerImage(BatchTransform):
    """Any transform, applied image by image.

    Args:
        transform: takes one image.
        on_pil: give it PIL images, as it would get before torchvision's ToTensor.
    """

    def __init__(self, transform: Callable, on_pil: bool = False) -> None:
        self.transform = transform
        self.on_pil = on_pil

    def apply(self, images: torch.Tensor) -> torch.Tensor:
        if not self.on_pil:
            return torch.stack([self.transform(image) for image in images])
        from torchvision.transforms import functional

        done = (self.transform(functional.to_pil_image(image)) for image in images.cpu())
        as_tensors = [image if torch.is_tensor(image) else functional.to_tensor(image)
                      for image in done]
        return torch.stack(as_tensors).to(images.device)


def _crop(transform: Any) -> BatchTransform | None:
    plain = transform.fill == 0 and transform.padding_mode == "constant"
    if not plain or transform.pad_if_needed:
        return None
    padding = transform.padding or 0
    padding = (padding,) if isinstance(padding, int) else tuple(padding)
    return RandomCrop(tuple(transform.size), padding * (4 // len(padding)))


# How torchvision's transforms are done for a batch; None means that this variant is not.
_BATCHED: dict[str, Callable[[Any], BatchTransform | None]] = {
    "RandomCrop": _crop,
    "RandomHorizontalFlip": lambda t: RandomHorizontalFlip(t.p),
    "RandomVerticalFlip": lambda t: RandomFlip(t.p, dim=-2),
    "Normalize": lambda t: Normalize(t.mean, t.std),
    # torchvision's own arithmetic on tensors, with the parameters drawn image by image.
    "ColorJitter": PerImage,
    "RandomApply": lambda t: RandomApply(to_batch_transform(t.transforms) or BatchCompose([]), t.p),
}
_CONVERSIONS = ("ToTensor", "ToPILImage", "PILToTensor", "Identity")


def _steps(transform: Any) -> Iterable[Any]:
    """The single transforms of a nested pipeline, in order."""
    inner = transform.transforms if type(transform).__name__ == "Compose" else transform
    if isinstance(inner, (list, tuple, nn.Sequential, nn.ModuleList)):
        for part in inner:
            yield from _steps(part)
    else:
        yield inner


def _batched(step: Any, on_pil: bool) -> BatchTransform:
    if isinstance(step, BatchTransform):
        return step
    known = type(step).__module__.startswith("torchvision.transforms")
    converter = _BATCHED.get(type(step).__name__) if known else None
    converted = converter(step) if converter is not None else None
    if converted is None:
        warn_once(f"{type(step).__name__} has no batched form here and is applied image by image: "
                  "correct, but slower.")
        converted = PerImage(step, on_pil)
    return converted


def to_batch_transform(transform: Any) -> BatchTransform | None:
    """The batched form of a torchvision pipeline.

    Args:
        transform: a Compose (`Compose([ToPILImage(), Compose([...])])` too), a list of
            transforms, a single one, or None.

    Returns:
        A transform of (B, C, H, W) floats in [0, 1]; None if there is nothing to do.
    """
    if transform is None or isinstance(transform, BatchTransform):
        return transform
    steps = list(_steps(transform))
    names = [type(step).__name__ for step in steps]
    to_tensor = names.index("ToTensor") if "ToTensor" in names else -1
    batched = [_batched(step, on_pil=place < to_tensor)
               for place, (step, name) in enumerate(zip(steps, names, strict=True))
               if name not in _CONVERSIONS]
    return BatchCompose(batched) if batched else None


def apply_transform(x: Any, transform: Callable | None, autosqueeze: bool = False) -> Any:
    """Apply a transform, batched or not, to a batch.

    Args:
        x: images (B, C, H, W), or one PIL image.
        transform: a BatchTransform gets the whole batch, anything else one image after the other.
        autosqueeze: drop the batch dimension of a batch of one.
    """
    if transform is None:
        return x
    if not torch.is_tensor(x):
        if not isinstance(transform, BatchTransform):
            return transform(x)
        from torchvision.transforms import functional

        x = functional.to_tensor(x).unsqueeze(0)
    batched = transform if isinstance(transform, BatchTransform) else None
    out = batched(x) if batched else torch.stack([transform(i) for i in x.cpu()]).to(x.device)
    return out.squeeze(0) if autosqueeze and out.shape[0] == 1 else out


class RepeatedTransform:
    """Several transforms of the same input, stacked along a new first dimension.

    Args:
        transform_list: at least one.
        autosqueeze: drop the batch dimension of a batch of one.
    """

    def __init__(self, transform_list: Sequence[Callable], autosqueeze: bool = False) -> None:
        if not transform_list:
            raise ValueError("Expected at least one transform.")
        self.transform_list = list(transform_list)
        self.autosqueeze = autosqueeze

    @torch.no_grad()
    def __call__(self, images: Any) -> torch.Tensor:
        return torch.stack([apply_transform(images, transform, self.autosqueeze)
                            for transform in self.transform_list])


class strong_aug(BatchTransform):  # noqa: N801 (upstream's name)
    """X-DER's augmentation for contrastive views: flip, crop of 20 to 100 %, jitter, greyscale.

    Args:
        size: of the result.
        mean: of the normalisation that ends it.
        std: likewise.
    """

    def __init__(self, size: Any, mean: Sequence[float], std: Sequence[float]) -> None:
        from torchvision import transforms

        jitter = transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)
        crop = transforms.RandomResizedCrop(size, scale=(0.2, 1.0), antialias=True)
        grey = transforms.RandomGrayscale(p=0.2)
        self.steps = BatchCompose([RandomHorizontalFlip(), PerImage(crop), PerImage(jitter),
                                   PerImage(grey), Normalize(mean, std)])

    def apply(self, images: torch.Tensor) -> torch.Tensor:
        return self.steps(images)
