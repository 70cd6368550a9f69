"""Image files and arrays of any kind as the pixels that a benchmark works on."""
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine.errors import UsageError
from utils.conf import machine_memory

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"}
_LARGEST_SIDE = 20_000
_CHANNELS = (1, 3, 4)
_GREY_MODES = ("1", "L", "LA", "I", "I;16", "I;16L", "I;16B")


class Shape(NamedTuple):
    """What the images of a benchmark look like."""

    height: int
    width: int
    channels: int  # 1: grey, 3: colour
    pooling: int = 1  # how many pixels of the original, across, the benchmark averages into one

    @property
    def pixels(self) -> tuple[int, ...]:
        """The shape of one image: (H, W), or (H, W, 3)."""
        return tuple(self)[:2 if self.channels == 1 else 3]


def ensure_fits(path: Path, count: int, shape: Shape) -> None:
    """Refuse images that would take more than half of this machine's memory.

    Raises:
        UsageError: with what to do.
    """
    needed = count * math.prod(shape.pixels)
    if needed > machine_memory() / 2:
        raise UsageError(f"The {count} images in {path} would take {needed / 2**30:,.0f} GB at "
                         f"{shape.width}x{shape.height} pixels, more than half of this machine's "
                         f"{machine_memory() / 2**30:,.0f} GB of memory; lower --image_size.")


def image_files(folder: Path) -> list[Path]:
    """The image files below a folder, sorted; hidden files and other kinds are passed over.

    Links are followed, each folder being looked into once.

    Raises:
        UsageError: a folder cannot be read.
    """
    def stop(error: OSError) -> None:
        raise UsageError(f"Cannot read the folder {error.filename} ({error.strerror}).") from error

    found, seen = [], set()
    for top, folders, names in os.walk(folder, onerror=stop, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")
                      and os.path.realpath(os.path.join(top, name)) not in seen]
        seen |= {os.path.realpath(os.path.join(top, name)) for name in folders}
        found += [path for name in names if not name.startswith(".")
                  and (path := Path(top, name)).suffix.lower() in SUFFIXES and path.is_file()]
    return sorted(found)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The PIL image in a file, not yet decoded; what is wrong with it is said in a sentence."""
    from PIL import Image, UnidentifiedImageError

    if not path.is_file():
        raise UsageError(f"There is no file {path}." if not path.exists() else
                         f"{path} is no regular file.")
    try:
        with Image.open(path) as image:
            if max(image.size) > _LARGEST_SIDE:
                raise UsageError(f"{path} is an image of {image.width}x{image.height} pixels; "
                                 f"reduce it to at most {_LARGEST_SIDE} on a side.")
            yield image
    except UnidentifiedImageError as error:
        raise UsageError(f"{path} is no image that can be read (PNG, JPEG, ... are).") from error
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise UsageError(f"{path} is a damaged image ({error}).") from error


def open_image(path: Path) -> Any:
    """The PIL image in a file, upright and decoded.

    Raises:
        UsageError: there is no such file, or it is no image that can be used.
    """
    from PIL import ImageOps

    with _opened(path) as image:
        return ImageOps.exif_transpose(image)


def look_at(path: Path) -> tuple[tuple[int, int], bool]:
    """Width and height of the image in a file, and whether it is grey, without decoding it.

    Raises:
        UsageError: as `open_image`.
    """
    with _opened(path) as image:
        return image.size, is_grey(image)


def is_grey(image: Any) -> bool:
    """Whether a PIL image has no colours."""
    return image.mode in _GREY_MODES


def to_pixels(image: Any, shape: Shape) -> np.ndarray:
    """A PIL image as (H, W) or (H, W, 3) uint8 of a shape: converted and resized as needed.

    Transparent parts become white; 16-bit grey values are scaled to 8 bits.

    Raises:
        UsageError: its values have no known range.
    """
    from PIL import Image

    if image.mode == "F":
        raise UsageError("The image holds floating-point values of unknown range; save it with 8 "
                         "bits per channel.")
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.float64) / 257
        image = Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8))
    if "transparency" in image.info or image.mode in ("LA", "PA", "RGBA", "La", "RGBa"):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = image.convert("L" if shape.channels == 1 else "RGB")
    if image.size == (shape.width * shape.pooling, shape.height * shape.pooling):
        image = image.reduce(shape.pooling)
    elif image.size != (shape.width, shape.height):
        image = image.resize((shape.width, shape.height), Image.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.uint8)


def pixel_values(array: Any) -> np.ndarray:
    """Pixel values in 0 .. 255.

    Raises:
        UsageError: the values are no pixels.
    """
    values = array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)
    if values.dtype == np.uint8:
        return values
    if values.dtype.kind not in "fiub":
        raise UsageError(f"Expected an array of numbers as images, but got {values.dtype}.")
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    whole = values.dtype.kind in "iu"
    if not (low >= 0 and high <= (255 if whole else 1 + 1e-6)):  # NaN fails too
        raise UsageError(f"Expected images with values from 0 to {255 if whole else 1} (whole "
                         f"numbers: 0 to 255), but they lie in {low:g} to {high:g}; undo any "
                         "normalisation, it is done here.")
    return (values if whole else np.rint(values.astype(np.float64) * 255)).astype(np.uint8)


def image_batch(pixels: np.ndarray, channels: int) -> np.ndarray:
    """(B, H, W) or (B, H, W, C) from one image or several, channels first or last.

    Raises:
        UsageError: the shape is none of images.
    """
    shape = pixels.shape
    if pixels.ndim == 2:
        pixels = pixels[None]
    elif pixels.ndim == 3 and (shape[-1] in _CHANNELS or (shape[0] in _CHANNELS
                                                          and shape[0] == channels)):
        pixels = pixels[None]  # one image with channels
    if pixels.ndim == 4 and pixels.shape[-1] not in _CHANNELS and pixels.shape[1] in _CHANNELS:
        pixels = np.moveaxis(pixels, 1, -1)
    if pixels.ndim == 4 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    if pixels.ndim not in (3, 4) or 0 in pixels.shape[1:] or (
            pixels.ndim == 4 and pixels.shape[-1] not in _CHANNELS):
        raise UsageError(f"Expected images of shape (H, W), (H, W, C), (C, H, W) or a batch of "
                         f"them, but got {tuple(shape)}.")
    return pixels


def as_pil(pixels: np.ndarray) -> list[Any]:
    """PIL images of a batch (B, H, W) or (B, H, W, C) uint8."""
    from PIL import Image

    return [Image.fromarray(np.ascontiguousarray(image)) for image in pixels]
