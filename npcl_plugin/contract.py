"""The one file that names Mammoth modules: all the plugin needs of a harness.

Works with this project's harness and, unmodified, with an upstream checkout. Names are looked
up when they are used, so importing the plugin costs nothing and pure parts work without either.
"""
import importlib
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from npcl_plugin.import_hooks import harness_file, help_imports

if TYPE_CHECKING:
    import torch

_HOME = {
    "ContinualModel": "models.utils.continual_model",
    "register_model": "models",
    "MammothBackbone": "backbone",
    "register_backbone": "backbone",
    "get_backbone_class": "backbone",
    "Buffer": "utils.buffer",
    "apply_transform": "utils.augmentations",
    "bool01": "utils",
    "get_dataset": "datasets",
    "Explanation": "asking.explanation",  # ours alone, for `explain`
    # ours alone, for novel data
    "locate": "datasets.utils.files",
    "base_path": "utils.conf",
    "RunError": "engine.errors",
    "MNIST": "datasets.utils.idx",
    "FASHION_MNIST": "datasets.utils.idx",
    "load_idx": "datasets.utils.idx",
    "CIFAR10": "datasets.utils.cifar",
    "CIFAR100": "datasets.utils.cifar",
    "load_cifar": "datasets.utils.cifar",
    "average_pooled": "datasets.utils.images",
}
_RENAMED = {"bool01": "binary_to_boolean_type"}


def __getattr__(name: str) -> Any:
    """The harness's object of that name."""
    if name not in _HOME:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return getattr(importlib.import_module(_HOME[name]), _RENAMED.get(name, name))


def offer(models: Mapping[str, str], backbones: Mapping[str, str]) -> None:
    """Make names known to the harness: lazily where it can, else by importing the modules.

    Args:
        models: name -> module of ours that registers it.
        backbones: likewise.
    """
    if "models" not in sys.modules and (found := find_spec("models")) and found.origin:
        help_imports(Path(found.origin).parents[1])
    for package, names in (("models", models), ("backbone", backbones)):
        try:
            harness = importlib.import_module(package)
        except ModuleNotFoundError as error:
            if error.name != package:
                raise
            return  # no harness on the path: the pure parts are being used on their own
        registry = getattr(harness, "REGISTRY", None)
        for name, module in names.items():
            if registry is not None:
                registry.declare(name, module)
            else:
                importlib.import_module(module)  # its decorators register


def resolves_settings() -> bool:
    """Whether the harness gives every argument its value before a model is built, as ours does."""
    return hasattr(importlib.import_module("models"), "REGISTRY")


def resolver() -> ModuleType:
    """The harness's module that reads settings files; it needs nothing else of the harness."""
    return harness_file("engine.settings")


def keeps_only_buffer(model: Any) -> bool:
    """Whether a method says that its buffer is all it keeps of the past; upstream's say nothing."""
    return bool(getattr(model, "KEEPS_ONLY_BUFFER", False))


def evaluation_mode(net: Any) -> AbstractContextManager[None]:
    """Every module in evaluation mode and no gradients for a while; afterwards as it was."""
    mode: AbstractContextManager[None] = harness_file("utils.evaluate").evaluation_mode(net)
    return mode


def outputs_of(model: Any, images: "torch.Tensor", task: int | None) -> "torch.Tensor":
    """Scores (B, C) of all classes, as the evaluation asks for them; some methods need the task."""
    scores: torch.Tensor = harness_file("utils.evaluate").outputs_of(model, images, task)
    return scores


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; also where the harness has no such function."""
    try:
        write = importlib.import_module("engine.files").atomic_write
    except ModuleNotFoundError:
        unfinished = path.with_name(f".{path.name}.unfinished")
        unfinished.write_bytes(content)
        unfinished.replace(path)
    else:
        write(path, content)


def number(kind: type, **bounds: float) -> Any:
    """The type of an argument that takes numbers of a range; upstream takes any number.

    Args:
        kind: int or float.
        bounds: `least`, `above`, `most`, `below`.
    """
    try:
        types = importlib.import_module("engine.argument_types")
    except ModuleNotFoundError:
        return kind
    return types.Range(kind, **bounds)


def usage_error(message: str) -> Exception:
    """The harness's exception for a mistake of the user; upstream has none of its own."""
    try:
        errors = importlib.import_module("engine.errors")
    except ModuleNotFoundError:
        return ValueError(message)
    error: Exception = errors.UsageError(message)
    return error


def usage_error_type() -> type[Exception]:
    """What `usage_error` makes here."""
    return type(usage_error(""))
