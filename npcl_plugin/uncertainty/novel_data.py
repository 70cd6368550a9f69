"""Data of another kind than the benchmark's, seen as the newest task would show it."""
import copy
from typing import Any, NamedTuple

import numpy as np
import torch

from npcl_plugin import contract

COUNTERPART = {
    "seq-mnist": "fashion-mnist", "perm-mnist": "fashion-mnist", "rot-mnist": "fashion-mnist",
    "mnist-360": "fashion-mnist", "seq-fmnist": "mnist", "seq-cifar10": "cifar100",
    "seq-cifar10-small": "cifar100",
    "seq-cifar100": "cifar10", "seq-digits": "inverted", "perm-digits": "inverted",
    "rot-digits": "inverted",
}
TITLES = {
    "mnist": "MNIST's test set", "fashion-mnist": "Fashion-MNIST's test set",
    "cifar10": "CIFAR-10's test set", "cifar100": "the first ten classes of CIFAR-100's test set",
    "inverted": "the benchmark's own test images with bright and dark exchanged",
    "shuffled": "the benchmark's own test images with their pixels in one random order",
}


class Novel(NamedTuple):
    """A test set of novel images; `data` is None where there are none, and `why` says it."""

    name: str
    data: Any
    description: str
    why: str = ""


def novel_for(wanted: str, dataset: Any) -> Novel:
    """The novel test set for a benchmark, through the pipeline of its newest task.

    Args:
        wanted: the value of `--novel_data`.
    """
    name = COUNTERPART.get(dataset.NAME, "none") if wanted == "auto" else wanted
    if name == "none":
        return Novel(name, None, "", "" if wanted == "none" else
                     f"There is no novel data for {dataset.NAME}; --novel_data chooses some.")
    newest: Any = getattr(dataset.test_loaders[-1].dataset, "dataset", None)
    if not hasattr(newest, "fetch" if contract.resolves_settings() else "data"):
        return Novel(name, None, "", f"{dataset.NAME} is not held in memory, so no novel data "
                                     "can take its images' place.")
    try:
        images = _images(name, dataset, newest)
        if images is not None and hasattr(dataset, "embed"):  # a benchmark on features of images
            images = dataset.embed(images, f"novel-{name}")
    except contract.usage_error_type() as error:
        return Novel(name, None, "", f"There is no novel data: {error}")
    images = _as_small(images, newest.data)
    if images is None or images.shape[1:] != newest.data.shape[1:]:
        return Novel(name, None, "", f"The images of {name} do not have the shape of "
                                     f"{dataset.NAME}'s, so there is no novel data.")
    changed = copy.copy(newest)
    changed.data, changed.targets = images, torch.zeros(len(images), dtype=torch.long)
    if isinstance(newest.data, np.ndarray):  # upstream's colour images
        changed.data = images.numpy()
    domain = getattr(newest, "domain", None)
    through = ", as features" if hasattr(dataset, "embed") else \
        f", through the newest task's {type(domain).__name__.lower()}" if domain else ""
    return Novel(name, changed, TITLES[name] + through)


def _as_small(images: Any, own: Any) -> Any:
    """Colour images averaged down to the benchmark's, if that has smaller ones (`--image_size`)."""
    if images is None or images.dim() != 4 or len(own.shape) != 4:
        return images
    factor, rest = divmod(images.shape[1], own.shape[1])
    return images if rest or factor < 2 else contract.average_pooled(images, factor)


def _images(name: str, dataset: Any, newest: Any) -> Any:
    """uint8 images (n, H, W) or (n, H, W, 3); None if there are none."""
    if not contract.resolves_settings():
        from npcl_plugin.uncertainty.upstream import novel_images

        return _altered(name, novel_images(name, newest.data))
    if name in ("mnist", "fashion-mnist"):
        files = contract.MNIST if name == "mnist" else contract.FASHION_MNIST
        return contract.load_idx(files, False)[0]
    if name == "cifar10":
        return contract.load_cifar(contract.CIFAR10, False)[0]
    if name == "cifar100":
        images, labels = contract.load_cifar(contract.CIFAR100, False)
        return images[labels < 10]
    load = getattr(dataset, "load_images", getattr(dataset, "load_split", None))
    images = None if load is None else load(False)[0]
    return None if images is None else _altered(name, images)


def _altered(name: str, images: torch.Tensor) -> torch.Tensor | None:
    """Images with bright and dark exchanged or their pixels in another order, if that is meant."""
    if images.dtype != torch.uint8:
        return None
    if name not in ("inverted", "shuffled"):
        return images
    if name == "inverted":
        return 255 - images
    height, width = images.shape[1:3]
    order = torch.from_numpy(np.random.default_rng(0).permutation(height * width))
    return images.flatten(1, 2)[:, order].reshape(images.shape)
