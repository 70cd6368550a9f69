"""Labelled images in an .npz file."""
import functools
from pathlib import Path

import numpy as np

from datasets.utils.image_files import (
    Shape,
    as_pil,
    ensure_fits,
    image_batch,
    pixel_values,
    to_pixels,
)
from datasets.utils.npz import read_npz, wrong
from datasets.utils.own_data import Samples
from engine.errors import UsageError
from engine.identity import file_digest

_NEEDED = ("train_x", "train_y")
_OPTIONAL = ("test_x", "test_y", "class_names")


def read_arrays(path: Path, size: int | None) -> Samples:
    """All images of a file.

    Args:
        path: an .npz file with `train_x` (N, H, W) or (N, H, W, C) or (N, C, H, W), `train_y`
            (N,) numbers or names and, if there are any, `test_x`, `test_y`, `class_names`.
        size: pixels on a side to resize to.

    Raises:
        UsageError: something is wrong with it.
    """
    if not path.is_file():
        raise UsageError(f"There is no file {path} (--data); give an .npz file.")
    return _read(path, size, file_digest(path))


@functools.lru_cache(maxsize=2)
def _read(path: Path, size: int | None, digest: str) -> Samples:
    arrays = read_npz(path, _NEEDED, _OPTIONAL)
    if ("test_x" in arrays) != ("test_y" in arrays):
        raise wrong(path, "there must be both of test_x and test_y, or neither")
    splits = ("train", "test") if "test_x" in arrays else ("train",)
    images = {split: _images(path, split, arrays[f"{split}_x"], size) for split in splits}
    shapes = {part.shape[1:] for part in images.values()}
    if len(shapes) > 1:
        raise wrong(path, f"the images of train_x and test_x have different shapes ({shapes})")
    labels = {split: _labels(path, split, arrays[f"{split}_y"], len(images[split]))
              for split in splits}
    names, numbers = _classes(path, np.concatenate(list(labels.values())),
                              arrays.get("class_names"))
    is_test = None if len(splits) == 1 else np.repeat(
        [False, True], [len(images["train"]), len(images["test"])])
    had = arrays["train_x"].shape
    resized = "" if size is None or size in had[1:] else f"shape {had[1:]}"
    return Samples(np.concatenate(list(images.values())), numbers, is_test, names, digest,
                   resized_from=resized)


def _images(path: Path, split: str, values: np.ndarray, size: int | None) -> np.ndarray:
    """(N, H, W) or (N, H, W, 3) uint8."""
    if values.ndim not in (3, 4) or 0 in values.shape:
        hint = "; for rows of features use --dataset features" if values.ndim == 2 else ""
        raise wrong(path, f"{split}_x must be images of shape (N, H, W), (N, H, W, 3) or (N, 3, H, "
                          f"W), but has shape {values.shape}{hint}")
    try:
        # One image more than one axis: (N, 3, W) is N grey images, never one of three channels.
        pixels = image_batch(pixel_values(values)[:, None] if values.ndim == 3
                             else pixel_values(values), 1)
    except UsageError as error:
        raise wrong(path, f"{split}_x: {str(error).rstrip('.')}") from error
    coloured = pixels.ndim == 4
    if size is None and not (coloured and pixels.shape[-1] == 4):
        return pixels
    height, width = (size, size) if size else pixels.shape[1:3]
    shape = Shape(height, width, 3 if coloured else 1)
    ensure_fits(path, len(pixels), shape)
    return np.stack([to_pixels(image, shape) for image in as_pil(pixels)])


def _labels(path: Path, split: str, labels: np.ndarray, count: int) -> np.ndarray:
    if labels.shape != (count,):
        raise wrong(path, f"{split}_x has {count} images, so {split}_y must have shape ({count},), "
                          f"but has {labels.shape}")
    if labels.dtype.kind not in "iuU":
        raise wrong(path, f"{split}_y must hold whole numbers or names, but holds {labels.dtype}")
    return labels


def _classes(path: Path, labels: np.ndarray,
             names: np.ndarray | None) -> tuple[list[str], np.ndarray]:
    """Class names, and each label as a position among them."""
    found, numbers = np.unique(labels, return_inverse=True)
    if names is None:
        return [str(value) for value in found.tolist()], numbers
    if names.ndim != 1 or names.dtype.kind != "U" or len(set(names.tolist())) < len(names):
        raise wrong(path, "class_names must be different texts, one for each class")
    if labels.dtype.kind == "U" or found[0] < 0 or found[-1] >= len(names):
        raise wrong(path, f"class_names has {len(names)} names, so labels must be numbers from 0 "
                          f"to {len(names) - 1}")
    return [str(names[value]) for value in found.tolist()], numbers
