"""Tiny-ImageNet: as it is published, or as upstream keeps it.

Upstream's form is 20 numpy files per split with floats in [0, 1]; see `tiny_imagenet_official` for
the other.
"""
import functools
from pathlib import Path

import numpy as np
import torch

from datasets.utils.files import FileSet, damaged, is_there, locate
from datasets.utils.tiny_imagenet_official import find_official, read_official

_PARTS = 20
_CLASSES = 200
_COUNTS = {"train": 100_000, "val": 10_000}


def _names(split: str) -> tuple[str, ...]:
    return tuple(f"{kind}_{split}_{part:02d}.npy" for kind in "xy"
                 for part in range(1, _PARTS + 1))


TINY_IMAGENET = FileSet("Tiny-ImageNet", ("TINYIMG/processed",),
                        (*_names("train"), *_names("val")),
                        alternative="the official folder tiny-imagenet-200 or its zip into the "
                                    "base path")


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


@functools.lru_cache(maxsize=2)
def _official_split(path: Path, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = read_official(path, train)
    return torch.from_numpy(images), torch.from_numpy(labels)


def load_tiny_imagenet(train: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (N, 64, 64, 3) uint8 and labels (N,) int64 of one split."""
    split = "train" if train else "val"
    names = _names(split)
    official = None if is_there(TINY_IMAGENET, names) else find_official()
    if official is not None:
        return _official_split(official, train)
    found = locate(TINY_IMAGENET, names)
    paths = tuple(found[name] for name in names)
    return _read_split(paths[:_PARTS], paths[_PARTS:], _COUNTS[split])
