"""MNIST and Fashion-MNIST: files in the IDX format, plain or gzipped."""
import functools
import gzip
import zlib
from pathlib import Path

import numpy as np
import torch

from datasets.utils.files import FileSet, damaged, locate

_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte",
          "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
MNIST = FileSet("MNIST", ("MNIST/raw", "MNIST/MNIST/raw", "MNIST/MyMNIST/raw"), _NAMES, "MNIST")
FASHION_MNIST = FileSet(
    "Fashion-MNIST",
    ("FashionMNIST/raw", "FashionMNIST/FashionMNIST/raw", "FMNIST/FashionMNIST/raw"), _NAMES,
    "FashionMNIST")

_COUNTS = {True: 60_000, False: 10_000}
_UNSIGNED_BYTES = 8
_CLASSES = 10


def read_idx(path: Path) -> np.ndarray:
    """The array in an IDX file of unsigned bytes.

    Raises:
        UsageError: the file is cut off or is no such file.
    """
    try:
        content = bytearray(gzip.decompress(path.read_bytes()) if path.suffix == ".gz"
                            else path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, "it cannot be unpacked") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTES:
        raise damaged(path, "it does not start as an IDX file of bytes")
    header = 4 + 4 * content[3]
    shape = tuple(np.frombuffer(content[4:header], dtype=">u4").astype(int).tolist())
    if len(content) != header + int(np.prod(shape)):
        raise damaged(path, f"{len(content)} bytes instead of {header + int(np.prod(shape))}")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)


@functools.lru_cache(maxsize=8)
def _read_pair(images: Path, labels: Path, count: int,
               stamp: tuple) -> tuple[torch.Tensor, torch.Tensor]:
    """Checked images (N, 28, 28) uint8 and labels (N,) int64; kept for the next dataset."""
    pixels, classes = read_idx(images), read_idx(labels)
    if pixels.shape != (count, 28, 28):
        raise damaged(images, f"expected shape ({count}, 28, 28), got {pixels.shape}")
    if classes.shape != (count,) or classes.max() >= _CLASSES:
        raise damaged(labels, f"expected {count} labels below {_CLASSES}, got {classes.shape}")
    return torch.from_numpy(pixels), torch.from_numpy(classes.astype(np.int64))


def load_idx(files: FileSet, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (N, 28, 28) uint8 and labels (N,) int64 of one split."""
    names = files.names[:2] if train else files.names[2:]
    found = locate(files, names)
    images, labels = (found[name] for name in names)
    stamp = tuple((path.stat().st_mtime_ns, path.stat().st_size) for path in (images, labels))
    return _read_pair(images, labels, _COUNTS[train], stamp)


class MnistImages:
    """What the MNIST benchmarks have in common, whatever tasks they make of the images."""

    N_CLASSES = 10
    SIZE: tuple[int, ...] = (28, 28)
    CLASS_NAMES: tuple[str, ...] | None = tuple(str(digit) for digit in range(10))

    def load_split(self, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Images (N, 28, 28) uint8 and labels (N,)."""
        return load_idx(MNIST, train)
