"""Whatever a person calls images, as the pixels that a benchmark works on."""
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from datasets.utils.image_files import (
    Shape,
    as_pil,
    image_batch,
    image_files,
    is_grey,
    open_image,
    pixel_values,
    to_pixels,
)
from engine.errors import UsageError


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
    mean = getattr(dataset, "MEAN", None)
    if hasattr(dataset, "embed"):  # on features: what counts is the images they are made of
        size, mean = (next((vars(kind)[name] for kind in type(dataset).__mro__
                            if vars(kind).get(name) is not None), None) for name in
                      ("SIZE", "MEAN"))
    if size is None or len(size) != 2:
        raise UsageError(f"{dataset.NAME} does not say the height and width of its images (SIZE), "
                         "so none can be prepared for it.")
    return Shape(int(size[0]), int(size[1]), 1 if mean is None else len(mean),
                 getattr(dataset, "pooling", 1))


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


def prepare_features(rows: Any, count: int) -> Prepared:
    """Samples that are features already: one row of `count` numbers, or several.

    Raises:
        UsageError: they are something else.
    """
    values = rows if torch.is_tensor(rows) else torch.as_tensor(np.asarray(rows)) \
        if isinstance(rows, (np.ndarray, list, tuple)) and np.asarray(rows).dtype.kind in "fiu" \
        else None
    if values is None or values.dim() not in (1, 2) or values.shape[-1] != count \
            or not values.numel():
        got = "something else" if values is None else f"shape {tuple(values.shape)}"
        raise UsageError(f"Expected rows of {count} features, as the model was trained on, but got "
                         f"{got}.")
    table = values.detach().cpu().float().reshape(-1, count)
    if not table.isfinite().all():
        raise UsageError("Expected finite features, but some are not.")
    return Prepared(table, [str(number) for number in range(len(table))], ())


def _is_list(images: Any) -> bool:
    return isinstance(images, Sequence) and not isinstance(images, (str, bytes))


def _expanded(item: Any, number: int) -> list[tuple[str, Any]]:
    """(name, PIL image) of everything that one item of a list stands for."""
    if isinstance(item, (str, Path)):
        if not str(item):
            raise UsageError("Expected the name of a file or folder, but got an empty one.")
        path = Path(item)
        if not path.is_dir():
            return [(str(item), open_image(path))]
        files = image_files(path)
        if not files:
            raise UsageError(f"The folder {path} holds no images.")
        return [(str(file), open_image(file)) for file in files]
    if torch.is_tensor(item) or isinstance(item, np.ndarray):
        batch = as_pil(image_batch(pixel_values(item), 3))
        return [(str(number + i), image) for i, image in enumerate(batch)]
    if hasattr(item, "convert") and hasattr(item, "size"):
        return [(getattr(item, "filename", "") or str(number), item)]
    raise UsageError(f"Expected images as arrays, tensors, PIL images or file names, but got a "
                     f"{type(item).__name__}.")


def _from_array(images: Any, shape: Shape) -> Prepared:
    pixels = image_batch(pixel_values(images), shape.channels)
    if not len(pixels):
        raise UsageError("There is no image to look at.")
    names = [str(number) for number in range(len(pixels))]
    if pixels.shape[1:] == shape.pixels:
        return Prepared(torch.from_numpy(np.ascontiguousarray(pixels)), names, ())
    rows = [to_pixels(image, shape) for image in as_pil(pixels)]
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
