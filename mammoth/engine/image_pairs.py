"""Transforms of an image together with maps that belong to it, e.g. attention maps."""
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

Maps = list[torch.Tensor]


class DoubleTransform:
    """Changes the image and leaves the maps alone.

    Args:
        tf: takes an image.
    """

    def __init__(self, tf: Callable) -> None:
        self.transform = tf

    def __call__(self, img: Any, other_img: Maps) -> tuple[Any, Maps]:
        return self.transform(img), other_img


class CustomRandomHorizontalFlip:
    """Mirrors the image (C, H, W) and all maps (..., h, w), or none of them.

    Args:
        p: how often.
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, img: torch.Tensor, other_img: Maps) -> tuple[torch.Tensor, Maps]:
        if np.random.rand() >= self.p:
            return img, other_img
        return img.flip(-1), [each.flip(-1) for each in other_img]


class CustomRandomCrop:
    """Pads and cuts image and maps at the same place, in proportion to their sizes.

    Args:
        size: height and width of the image, which stay.
        padding: zeros on each side of the image.
        resize: double small maps for the cut, so that the place is hit more exactly.
        min_resize_index: the last map to which that applies; None: all.
    """

    def __init__(self, size: Sequence[int], padding: int = 0, resize: bool = False,
                 min_resize_index: int | None = None) -> None:
        self.size = tuple(size)
        self.padding = padding
        self.resize = resize
        self.min_resize_index = min_resize_index

    def __call__(self, img: torch.Tensor, other_img: Maps) -> tuple[torch.Tensor, Maps]:
        padded = F.pad(img, (self.padding,) * 4)
        top, left = (np.random.randint(have - want + 1)
                     for have, want in zip(padded.shape[-2:], self.size, strict=True))
        cut = padded[..., top:top + self.size[0], left:left + self.size[1]]
        return cut, [self._cut(each, place, top, left) for place, each in enumerate(other_img)]

    def _cut(self, each: torch.Tensor, place: int, top: int, left: int) -> torch.Tensor:
        """The part of a map (h, w) that lies under the image's."""
        doubled = self.resize and (self.min_resize_index is None or place <= self.min_resize_index)
        shown = each.repeat_interleave(2, -1).repeat_interleave(2, -2) if doubled else each
        rate = max(self.size[0] // shown.shape[-1], 1)  # pixels of the image per cell of the map
        height, width = (side // rate for side in self.size)
        padded = F.pad(shown, (self.padding // rate,) * 4)
        cut = padded[..., top // rate:top // rate + height, left // rate:left // rate + width]
        return cut[..., ::2, ::2] if doubled else cut


class DoubleCompose:
    """One transform of image and maps after the other; what is given stays as it is."""

    def __init__(self, transforms: Sequence[Callable]) -> None:
        self.transforms = list(transforms)

    def __iter__(self) -> Any:
        return iter(self.transforms)

    def __getitem__(self, i: int) -> Callable:
        return self.transforms[i]

    def __len__(self) -> int:
        return len(self.transforms)

    @torch.no_grad()
    def __call__(self, img: Any, other_img: Maps) -> tuple[Any, Maps]:
        img = img.clone() if torch.is_tensor(img) else img.copy()
        maps = [each.clone() for each in other_img]
        for transform in self.transforms:
            img, maps = transform(img, maps)
        return img, maps
