"""Tiny-ImageNet as upstream keeps it: 20 numpy files a split, floats in [0, 1]."""
import functools
from pathlib import Path

import numpy as np
import torch

from datasets.utils.files import FileSet, damaged, locate

_PARTS = 20
_CLASSES = 200
_COUNTS = {"train": 100_000, "val": 10_000}


def _names(split: str) -> tuple[str, ...]:
    return tuple(f"{kind}_{split}_{part:02d}.npy" for kind in "xy"
                 for part in range(1, _PARTS + 1))


TINY_IMAGENET = FileSet("Tiny-ImageNet", ("TINYIMG/processed",),
                        (*_names("train"), *_names("val")))


def _read_array(path: Path) -> np.ndarray:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise damaged(path, "it is no complete numpy array") from error


def _read_images(path: Path) -> np.ndarray:
    """(n, 64, 64, 3) uint8."""
    array = _read_array(path)
    if array.ndim != 4 or array.shape[1:] != (64, 64, 3):
        raise damaged(path, f"expected images of shape (64, 64, 3), got {array.shape}")
    return array if array.dtype == np.uint8 else np.rint(array * 255).astype(np.uint8)


@functools.lru_cache(maxsize=2)
def _read_split(x_paths: tuple[Path, ...], y_paths: tuple[Path, ...],
                count: int) -> tuple[torch.Tensor, torch.Tensor]:
    images = np.concatenate([_read_images(path) for path in x_paths])
    labels = np.concatenate([_read_array(path).reshape(-1) for path in y_paths]).astype(np.int64)
    if len(images) != count:
        raise damaged(x_paths[0].parent, f"expected {count} images, got {len(images)}")
    if len(labels) != count or labels.min() < 0 or labels.max() >= _CLASSES:
        raise damaged(y_paths[0].parent, f"expected {count} labels below {_CLASSES}")
    return torch.from_numpy(images), torch.from_numpy(labels)


def load_tiny_imagenet(train: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (N, 64, 64, 3) uint8 and labels (N,) int64 of one split."""
    split = "train" if train else "val"
    names = _names(split)
    found = locate(TINY_IMAGENET, names)
    paths = tuple(found[name] for name in names)
    return _read_split(paths[:_PARTS], paths[_PARTS:], _COUNTS[split])
