"""Image files and arrays of any kind as the pixels that a benchmark works on."""
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from utils.errors import UsageError

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"}
_LARGEST_SIDE = 20_000
_GREY_MODES = ("1", "L", "LA", "I", "I;16", "I;16L", "I;16B")


class Shape(NamedTuple):
    """What the images of a benchmark look like."""

    height: int
    width: int
    channels: int  # 1: grey, 3: colour

    @property
    def pixels(self) -> tuple[int, ...]:
        """The shape of one image: (H, W), or (H, W, 3)."""
        return (self.height, self.width) if self.channels == 1 else tuple(self)


def image_files(folder: Path) -> list[Path]:
    """The image files below a folder, sorted; hidden files and other kinds are passed over.

    Raises:
        UsageError: the folder cannot be read.
    """
    def is_image(path: Path) -> bool:
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        return not hidden and path.suffix.lower() in SUFFIXES and path.is_file()

    try:
        return sorted(filter(is_image, folder.rglob("*")))
    except OSError as error:
        raise UsageError(f"Cannot read the folder {folder} ({error.strerror}).") from error


def open_image(path: Path) -> Any:
    """The PIL image in a file, upright and decoded.

    Raises:
        UsageError: there is no such file, or it is no image that can be used.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    if not path.is_file():
        raise UsageError(f"There is no file {path}." if not path.exists() else
                         f"{path} is no regular file.")
    try:
        with Image.open(path) as image:
            if max(image.size) > _LARGEST_SIDE:
                raise UsageError(f"{path} is an image of {image.width}x{image.height} pixels; "
                                 f"reduce it to at most {_LARGEST_SIDE} on a side.")
            return ImageOps.exif_transpose(image)
    except UnidentifiedImageError as error:
        raise UsageError(f"{path} is no image that can be read (PNG, JPEG, ... are).") from error
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise UsageError(f"{path} is a damaged image ({error}).") from error


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
    if image.size != (shape.width, shape.height):
        image = image.resize((shape.width, shape.height), Image.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.uint8)
