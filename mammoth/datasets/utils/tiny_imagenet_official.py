"""Tiny-ImageNet as it is published: the folder `tiny-imagenet-200` of JPEG files, or its zip.

All images are decoded once and kept as one file of bytes, whose checksums numpy's zip format
verifies. Classes are numbered as `wnids.txt` lists them, which is the order of the arrays that
upstream distributes.
"""
import io
import os
import sys
import zipfile
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from tqdm import tqdm

from datasets.utils.files import damaged
from engine.errors import RunError, UsageError
from utils.conf import base_path

NAME = "tiny-imagenet-200"
CLASSES, IMAGES_PER_CLASS, VALIDATION_IMAGES = 200, 500, 10_000
_SHAPE = (64, 64, 3)
_PLACES = ("", "TINYIMG/")  # below the base path
_DECODED = "TINYIMG/tiny-imagenet-200-uint8.npz"

Reader = Callable[[str], bytes]
Split = tuple[np.ndarray, np.ndarray]


def find_official() -> Path | None:
    """The decoded file, the folder or the zip, whichever is there; the first is fastest."""
    candidates = [_DECODED, *(place + NAME for place in _PLACES),
                  *(f"{place}{NAME}.zip" for place in _PLACES)]
    paths = (Path(base_path(), candidate) for candidate in candidates)
    return next((path for path in paths if path.is_file() or (path / "wnids.txt").is_file()), None)


def read_official(path: Path, train: bool) -> Split:
    """Images (N, 64, 64, 3) uint8 and labels (N,) int64 of one split.

    Args:
        path: what `find_official` gave; a folder or zip is decoded and kept first.

    Raises:
        UsageError: something in it is missing or damaged.
    """
    decoded = Path(base_path(), _DECODED)
    if path != decoded:
        _decode(path, decoded)
    split = "train" if train else "val"
    try:
        with np.load(decoded, allow_pickle=False) as file:
            return file[f"{split}_x"], file[f"{split}_y"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise damaged(decoded, "its checksums do not fit") from error


def _decode(source: Path, target: Path) -> None:
    """Write all images of a folder or zip into one file."""
    if source.is_dir():
        arrays = _read_all(source, lambda name: (source / name).read_bytes())
    else:
        try:
            with zipfile.ZipFile(source) as archive:
                arrays = _read_all(source, lambda name: archive.read(f"{NAME}/{name}"))
        except (zipfile.BadZipFile, zlib.error) as error:
            raise damaged(source, "it cannot be unpacked") from error
    part = target.with_suffix(f".{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RunError(f"Cannot write {target}: {error.strerror}; free some space or choose "
                       "another --base_path.") from error


def _read_all(source: Path, read: Reader) -> dict[str, np.ndarray]:
    """`train_x`, `train_y`, `val_x`, `val_y` of the whole dataset."""
    classes = _text(source, read, "wnids.txt").split()
    if len(set(classes)) != CLASSES:
        raise damaged(source / "wnids.txt", f"expected {CLASSES} classes, got {len(set(classes))}")
    number = {wnid: label for label, wnid in enumerate(classes)}
    train = [f"train/{wnid}/images/{wnid}_{i}.JPEG" for wnid in classes
             for i in range(IMAGES_PER_CLASS)]
    rows = [line.split("\t") for line in
            _text(source, read, "val/val_annotations.txt").splitlines()]
    labelled = {row[0]: number.get(row[1]) for row in rows if len(row) > 1}
    val = [f"val_{i}.JPEG" for i in range(VALIDATION_IMAGES)]
    if any(labelled.get(name) is None for name in val):
        raise damaged(source / "val/val_annotations.txt",
                      f"expected a known class for each of {VALIDATION_IMAGES} images")
    images = _read_images(source, read, [*train, *(f"val/images/{name}" for name in val)])
    return {"train_x": images[:len(train)], "val_x": images[len(train):],
            "train_y": np.repeat(np.arange(CLASSES), IMAGES_PER_CLASS),
            "val_y": np.array([labelled[name] for name in val])}


def _text(source: Path, read: Reader, name: str) -> str:
    try:
        return read(name).decode("utf-8")
    except (OSError, KeyError, UnicodeDecodeError) as error:
        raise damaged(source / name, "it is missing or no text") from error


def _read_images(source: Path, read: Reader, names: list[str]) -> np.ndarray:
    """(N, 64, 64, 3) uint8; decoding leaves Python's lock, so threads help."""
    images = np.empty((len(names), *_SHAPE), np.uint8)

    def decode(row: int) -> None:
        images[row] = _pixels(source, read, names[row])

    print(f"The {len(names)} images of {source} are decoded once.", file=sys.stderr)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for _ in tqdm(pool.map(decode, range(len(names)), chunksize=100), total=len(names),
                          desc="Tiny-ImageNet", unit=" images", mininterval=0.5, disable=None):
                pass
        except UsageError:
            pool.shutdown(cancel_futures=True)
            raise
    return images


def _pixels(source: Path, read: Reader, name: str) -> np.ndarray:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(read(name))) as image:
            if image.size != _SHAPE[:2]:
                raise damaged(source / name, f"expected 64 x 64 pixels, got {image.size}")
            return np.asarray(image.convert("RGB"))
    except (OSError, KeyError, SyntaxError, ValueError) as error:
        raise damaged(source / name, "it is missing or no JPEG image") from error
