"""CIFAR-10 and CIFAR-100: pickled arrays, read without ever running what a pickle asks for."""
import functools
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from datasets.utils.files import FileSet, damaged, locate

CIFAR10 = FileSet(
    "CIFAR-10", ("cifar-10-batches-py", "CIFAR10/cifar-10-batches-py"),
    (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"), "CIFAR10")
CIFAR100 = FileSet(
    "CIFAR-100", ("cifar-100-python", "CIFAR100/cifar-100-python"), ("train", "test"), "CIFAR100")

_COUNTS = {True: 50_000, False: 10_000}
_PIXELS = 3 * 32 * 32


def _encode(text: str, encoding: str) -> bytes:
    """How old pickles spell bytes; nothing but Latin-1 is needed."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"encoding {encoding}")
    return text.encode("latin-1")


class ArrayUnpickler(pickle.Unpickler):
    """Reads pickles of plain containers and numpy arrays; refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        """The few names that an array needs; any other one could run code."""
        package = module.replace("numpy._core", "numpy.core")
        if (package, name) == ("numpy.core.multiarray", "_reconstruct"):
            return np.array(0).__reduce__()[0]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        if (module, name) == ("_codecs", "encode"):
            return _encode
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")


def read_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in a CIFAR file.

    Raises:
        UsageError: the file is cut off, or holds anything but plain data.
    """
    try:
        content = ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except pickle.UnpicklingError as error:
        raise damaged(path, f"its pickle is refused: {error}") from error
    except (EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise damaged(path, "its pickle cannot be read") from error
    if not isinstance(content, dict) or not isinstance(content.get("data"), np.ndarray):
        raise damaged(path, "it holds no array `data`")
    return content


def _labels(path: Path, content: dict[str, Any], key: str, classes: int) -> np.ndarray:
    labels = np.asarray(content.get(key, []))
    valid = labels.ndim == 1 and labels.dtype.kind in "iu" and len(labels) == len(content["data"])
    if not valid or labels.min() < 0 or labels.max() >= classes:
        raise damaged(path, f"expected one label below {classes} for each image in `{key}`")
    return labels.astype(np.int64)


@functools.lru_cache(maxsize=4)
def _read_all(paths: tuple[Path, ...], key: str, classes: int, count: int,
              stamp: tuple) -> tuple[torch.Tensor, torch.Tensor]:
    """Checked images (N, 32, 32, 3) uint8 and labels (N,) int64; kept for the next dataset."""
    each = count // len(paths)
    images, labels = np.empty((len(paths), each, _PIXELS // 3, 3), np.uint8), []
    for path, place in zip(paths, images, strict=True):
        content = read_pickle(path)
        part = content["data"]
        if part.dtype != np.uint8 or part.shape != (each, _PIXELS):
            raise damaged(path, f"expected ({each}, {_PIXELS}) bytes, got {part.shape} "
                                f"{part.dtype}")
        np.stack(part.reshape(each, 3, -1).swapaxes(0, 1), axis=-1, out=place)
        labels.append(_labels(path, content, key, classes))
    return (torch.from_numpy(images.reshape(count, 32, 32, 3)),
            torch.from_numpy(np.concatenate(labels)))


def load_cifar(files: FileSet, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (N, 32, 32, 3) uint8 and labels (N,) int64 of one split."""
    names = files.names[:-1] if train else files.names[-1:]
    found = locate(files, names)
    paths = tuple(found[name] for name in names)
    stamp = tuple((path.stat().st_mtime_ns, path.stat().st_size) for path in paths)
    key, classes = ("labels", 10) if files is CIFAR10 else ("fine_labels", 100)
    return _read_all(paths, key, classes, _COUNTS[train], stamp)
