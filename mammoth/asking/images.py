"""Whatever a person calls images, as the pixels that a benchmark works on."""
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from datasets.utils.image_files import Shape, image_files, is_grey, open_image, to_pixels
from utils.errors import UsageError

_CHANNELS = (1, 3, 4)


class Prepared(NamedTuple):
    """Images that fit a benchmark.

    Attributes:
        rows: (B, H, W) or (B, H, W, 3) uint8.
        names: of the images: file names, or numbers.
        notes: what was done to them, in sentences.
    """

    rows: torch.Tensor
    names: list[str]
    notes: tuple[str, ...]


def shape_of(dataset: Any) -> Shape:
    """What the images of a benchmark look like.

    Raises:
        UsageError: it does not say.
    """
    size = getattr(dataset, "SIZE", None)
    if size is None or len(size) != 2:
        raise UsageError(f"{dataset.NAME} does not say the height and width of its images (SIZE), "
                         "so none can be prepared for it.")
    mean = getattr(dataset, "MEAN", None)
    return Shape(int(size[0]), int(size[1]), 1 if mean is None else len(mean))


def prepare(images: Any, shape: Shape) -> Prepared:
    """Make images fit.

    Args:
        images: a file name, a folder, a PIL image, an array or tensor of one or several images,
            or a list of any of these.

    Raises:
        UsageError: something is no image, or there is none.
    """
    if torch.is_tensor(images) or isinstance(images, np.ndarray):
        return _from_array(images, shape)
    found: list[tuple[str, Any]] = []
    for item in images if _is_list(images) else [images]:
        found += _expanded(item, len(found))
    if not found:
        raise UsageError("There is no image to look at.")
    rows, seen = [], []
    for name, image in found:
        seen.append((image.width, image.height, is_grey(image)))
        try:
            rows.append(to_pixels(image, shape))
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
    return Prepared(torch.from_numpy(np.stack(rows)), [name for name, _ in found],
                    _notes(seen, shape))


def _is_list(images: Any) -> bool:
    return isinstance(images, Sequence) and not isinstance(images, (str, bytes))


def _expanded(item: Any, number: int) -> list[tuple[str, Any]]:
    """(name, PIL image) of everything that one item of a list stands for."""
    if isinstance(item, (str, Path)):
        path = Path(item)
        if not path.is_dir():
            return [(str(item), open_image(path))]
        files = image_files(path)
        if not files:
            raise UsageError(f"The folder {path} holds no images.")
        return [(str(file), open_image(file)) for file in files]
    if torch.is_tensor(item) or isinstance(item, np.ndarray):
        return [(f"{number + i}", image) for i, image in enumerate(_as_pil(_uint8(item)))]
    if hasattr(item, "convert") and hasattr(item, "size"):
        return [(getattr(item, "filename", "") or str(number), item)]
    raise UsageError(f"Expected images as arrays, tensors, PIL images or file names, but got a "
                     f"{type(item).__name__}.")


def _uint8(array: Any) -> np.ndarray:
    """Pixel values in 0 .. 255.

    Raises:
        UsageError: the values are no pixels.
    """
    values = array.detach().cpu().numpy() if torch.is_tensor(array) else array
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


def _several(pixels: np.ndarray, channels: int) -> np.ndarray:
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


def _as_pil(values: np.ndarray, channels: int = 3) -> list[Any]:
    from PIL import Image

    return [Image.fromarray(np.ascontiguousarray(image)) for image in _several(values, channels)]


def _from_array(images: Any, shape: Shape) -> Prepared:
    pixels = _several(_uint8(images), shape.channels)
    if not len(pixels):
        raise UsageError("There is no image to look at.")
    names = [str(number) for number in range(len(pixels))]
    if pixels.shape[1:] == shape.pixels:
        return Prepared(torch.from_numpy(np.ascontiguousarray(pixels)), names, ())
    rows = [to_pixels(image, shape) for image in _as_pil(pixels, shape.channels)]
    seen = [(pixels.shape[2], pixels.shape[1], pixels.ndim == 3)]
    return Prepared(torch.from_numpy(np.stack(rows)), names, _notes(seen, shape))


def _notes(seen: list[tuple[int, int, bool]], shape: Shape) -> tuple[str, ...]:
    """What had to be done to images of these widths, heights and colours."""
    notes = []
    sizes = {f"{width}x{height}" for width, height, _ in seen
             if (width, height) != (shape.width, shape.height)}
    if sizes:
        from_sizes = sizes.pop() if len(sizes) == 1 else f"{len(sizes)} sizes"
        notes.append(f"Images were resized from {from_sizes} to {shape.width}x{shape.height}.")
    coloured = sum(not grey for _, _, grey in seen)
    if shape.channels == 1 and coloured:
        notes.append("Colours were turned into grey.")
    if shape.channels == 3 and coloured < len(seen):
        notes.append("Grey images were given three equal channels.")
    return tuple(notes)
