"""Rotations: the tasks of Rotated MNIST.

A nearest-neighbour rotation only moves pixels, so a batch is rotated by one gather. Where each
pixel comes from is computed with the fixed-point arithmetic of PIL, which torchvision's `rotate`
uses: the result is equal bit for bit (zero fill, same size).
"""
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from datasets.transforms.permutation import private_rng

_ONE = 65536  # PIL's fixed-point numbers have 16 binary places


def _fixed(values: np.ndarray) -> NDArray[np.int32]:
    """Nearest fixed-point numbers, (n,) -> (n, 1, 1)."""
    return np.floor(values * _ONE + 0.5).astype(np.int32).reshape(-1, 1, 1)


def rotation_maps(degrees: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each pixel of images turned by `degrees` (n,) comes from.

    Returns:
        source: (n, H*W) int64, flat position in the original; 0 where there is none.
        inside: (n, H*W) bool, False where the rotated image shows the zero fill.
    """
    turn = -np.radians(np.asarray(degrees, dtype=np.float64) % 360)
    cos, sin = np.round(np.cos(turn), 15), np.round(np.sin(turn), 15)
    # The centre of the image stays; half a pixel leads to the centre of the first pixel.
    x, y = 0.5 - width / 2, 0.5 - height / 2
    columns, rows = np.arange(width, dtype=np.int32), np.arange(height, dtype=np.int32)[:, None]
    start_x = _fixed(cos * x + sin * y + width / 2)
    start_y = _fixed(cos * y - sin * x + height / 2)
    from_x = (start_x + _fixed(sin) * rows + _fixed(cos) * columns) >> 16  # (n, H, W)
    from_y = (start_y + _fixed(cos) * rows + _fixed(-sin) * columns) >> 16
    inside = (from_x >= 0) & (from_x < width) & (from_y >= 0) & (from_y < height)
    source = np.where(inside, from_y * width + from_x, 0).astype(np.int64)
    return source.reshape(len(turn), -1), inside.reshape(len(turn), -1)


def rotate_each(images: np.ndarray, degrees: np.ndarray, at_once: int = 1024) -> np.ndarray:
    """Turn image i by degrees[i].

    Args:
        images: (N, H, W).
        degrees: (N,).
        at_once: how many at a time, to bound the memory for the maps.
    """
    turned = np.empty_like(images)
    for first in range(0, len(images), at_once):
        part = images[first:first + at_once]
        source, inside = rotation_maps(degrees[first:first + at_once], *images.shape[1:])
        moved = np.take_along_axis(part.reshape(len(part), -1), source, axis=1) * inside
        turned[first:first + at_once] = moved.reshape(part.shape)
    return turned


class FixedAngle:
    """Rotates by `degrees`: tensors by a gather, PIL images by PIL."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees
        self._maps: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, image: Any) -> Any:
        """Args: a PIL image or a tensor (..., H, W). Returns: the same kind, rotated."""
        if isinstance(image, Image.Image):
            return image.rotate(self.degrees)
        return self.on_batch(image)

    def on_batch(self, images: torch.Tensor) -> torch.Tensor:
        """Args: images (..., H, W). Returns: all rotated by the same angle."""
        size = (images.shape[-2], images.shape[-1])
        source, inside = (part.to(images.device) for part in self.moves(*size))
        flat = images.reshape(-1, size[0] * size[1])  # (B*C, H*W)
        return flat.index_select(1, source).mul_(inside).view(images.shape)

    def moves(self, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Where each pixel comes from (H*W,), and which ones come from inside the image (H*W,)."""
        size = (height, width)
        if size not in self._maps:
            source, inside = rotation_maps(np.array([self.degrees]), *size)
            self._maps[size] = torch.from_numpy(source[0]), torch.from_numpy(inside[0])
        return self._maps[size]


class Rotation(FixedAngle):
    """One angle for all samples, drawn uniformly from [deg_min, deg_max) when made.

    Args:
        rng: where the angle comes from; from torch's generator when not given.
    """

    def __init__(self, deg_min: float = 0, deg_max: float = 180,
                 rng: np.random.Generator | None = None) -> None:
        self.deg_min, self.deg_max = deg_min, deg_max
        super().__init__(float((rng or private_rng()).uniform(deg_min, deg_max)))


class FixedRotation(Rotation):
    """A rotation whose angle depends on `seed` only."""

    def __init__(self, seed: int, deg_min: float = 0, deg_max: float = 180) -> None:
        self.seed = seed
        super().__init__(deg_min, deg_max, np.random.default_rng(seed))


class IncrementalRotation:
    """Turns a little further with every image: the i-th by init_deg + i * increase degrees."""

    def __init__(self, init_deg: float = 0, increase_per_iteration: float = 0.006) -> None:
        self.degrees = init_deg
        self.increase_per_iteration = increase_per_iteration
        self.iteration = 0

    def set_iteration(self, iteration: int) -> None:
        """Continue as if `iteration` images had been seen."""
        self.iteration = iteration

    def angles(self, count: int) -> np.ndarray:
        """The next `count` angles, in [0, 360); they count as used."""
        steps = np.arange(self.iteration, self.iteration + count)
        self.iteration += count
        return (steps * self.increase_per_iteration + self.degrees) % 360

    def __call__(self, image: Any) -> Any:
        """Rotate one PIL image or tensor (..., H, W) by the next angle."""
        return FixedAngle(float(self.angles(1)[0]))(image)
