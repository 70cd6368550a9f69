"""Labelled images in folders, one folder per class."""
import functools
import hashlib
from collections import Counter
from pathlib import Path

import numpy as np

from datasets.utils.image_files import (
    Shape,
    ensure_fits,
    image_files,
    look_at,
    open_image,
    to_pixels,
)
from datasets.utils.own_data import Samples
from engine.errors import UsageError

_SPLITS = ("train", "test")
_LARGEST = 64  # pixels on a side that images are reduced to where nobody says another size
_SAME_SIZE = 128  # images that all have one size of at most so many pixels keep it


def read_folder(path: Path, size: int | None) -> Samples:
    """All images below a folder.

    Args:
        path: with a folder per class; or with train/ and test/ above these; or with a folder per
            domain above these.
        size: pixels on a side to resize to; by default it follows from the images.

    Raises:
        UsageError: there is nothing to learn there, or a file is no image.
    """
    if not path.is_dir():
        raise UsageError(f"{path} is no folder (--data); give one with a folder of images for each "
                         "class.")
    files = image_files(path)
    if not files:
        raise UsageError(f"{path} holds no images (PNG, JPEG, ...); put them into a folder for "
                         "each class.")
    state = tuple((str(file.relative_to(path)), file.stat().st_size, file.stat().st_mtime_ns)
                  for file in files)
    return _read(path, size, state)


@functools.lru_cache(maxsize=2)
def _read(path: Path, size: int | None, state: tuple[tuple[str, int, int], ...]) -> Samples:
    files = [name for name, _, _ in state]
    is_test, parts = _split(path, [Path(name).parts for name in files])
    depth = {len(place) for place in parts}
    if not depth <= {2, 3} or len(depth) > 1:
        odd = next(name for name, place in zip(files, parts, strict=True)
                   if len(place) != max(depth & {2, 3}, default=2))
        raise UsageError(f"Expected the images in {path} in a folder per class, or all of them in "
                         f"a folder per class below a folder per domain, but there is {odd}.")
    domains = sorted({place[0] for place in parts}) if depth == {3} else []
    if len(domains) == 1:
        raise UsageError(f"{path} has a single folder {domains[0]} with folders of classes; give "
                         f"--data {path / domains[0]}.")
    names = sorted({place[-2] for place in parts})
    _check_empty(path, is_test, depth == {3}, parts)
    images, digest, resized = _images(path, files, size)
    return Samples(
        images, np.array([names.index(place[-2]) for place in parts]), is_test, names, digest,
        np.array([domains.index(place[0]) for place in parts]) if domains else None, domains,
        resized)


def _split(path: Path, places: list[tuple[str, ...]]
           ) -> tuple[np.ndarray | None, list[tuple[str, ...]]]:
    """Whether each file is for testing, and its place below train/ or test/."""
    tops = {place[0] for place in places}
    if not tops & {"train"}:
        return None, places
    if tops != set(_SPLITS):
        other = sorted(tops - set(_SPLITS))
        raise UsageError(f"{path} has a folder train/, so it must have test/ and nothing else "
                         f"beside it, but " + (f"there is {other[0]}." if other else
                                               "there is no test/ with images."))
    return np.array([place[0] == "test" for place in places]), [place[1:] for place in places]


def _check_empty(path: Path, is_test: np.ndarray | None, has_domains: bool,
                 parts: list[tuple[str, ...]]) -> None:
    """A class folder without an image is a mistake, not a class less."""
    tops = [path] if is_test is None else [path / split for split in _SPLITS]
    if has_domains:
        tops = [folder for top in tops for folder in top.iterdir()
                if folder.is_dir() and not folder.name.startswith(".")]
    known = {place[-2] for place in parts}
    for folder in (folder for top in tops for folder in sorted(top.iterdir())):
        if folder.is_dir() and not folder.name.startswith(".") and folder.name not in known:
            raise UsageError(f"The folder {folder} holds no images; fill it or remove it.")


def _images(path: Path, files: list[str],
            size: int | None) -> tuple[np.ndarray, str, str]:
    """Pixels of all files, a digest of their names and contents, and the size they had before."""
    sizes: Counter[tuple[int, int]] = Counter()
    colour = False
    for name in files:
        image_size, grey = look_at(path / name)
        sizes[image_size] += 1
        colour = colour or not grey
    (width, height), resized = _size(sizes, size)
    shape = Shape(height, width, 3 if colour else 1)
    ensure_fits(path, len(files), shape)
    pixels, digest = np.empty((len(files), *shape.pixels), dtype=np.uint8), hashlib.sha256()
    for row, name in enumerate(files):
        pixels[row] = to_pixels(open_image(path / name), shape)
        digest.update(f"{name}\0".encode() + hashlib.sha256((path / name).read_bytes()).digest())
    return pixels, digest.hexdigest()[:16], resized


def _size(sizes: Counter[tuple[int, int]],
          wanted: int | None) -> tuple[tuple[int, int], str]:
    """Width and height for all images, and what they had before if that is another one."""
    only = next(iter(sizes)) if len(sizes) == 1 else None
    if wanted is None and only is not None and max(only) <= _SAME_SIZE:
        return only, ""
    if wanted is None:
        sides = np.repeat([min(size) for size in sizes], list(sizes.values()))
        wanted = int(min(np.median(sides), _LARGEST))
    if only == (wanted, wanted):
        return only, ""
    return (wanted, wanted), f"{only[0]}x{only[1]}" if only else f"{len(sizes)} different sizes"
