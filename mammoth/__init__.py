"""A continual-learning benchmark with Mammoth's public interface.

The harness's own modules use upstream's top-level import names (`models`, `datasets`,
`backbone`, `utils`) and two of ours (`engine`, `asking`), so importing this package puts its
folder first on the path. What a notebook needs is offered here; each name is imported when it is
used.
"""
import importlib
import os
import sys
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_NAMES = ("asking", "backbone", "datasets", "engine", "models", "utils")


def _claim_names() -> None:
    """Make upstream's import names mean this folder, whatever the current folder has of its own.

    Raises:
        ImportError: another module of that name was imported before.
    """
    sys.path[:] = [_HERE, *(path for path in sys.path if path != _HERE)]
    for name in _NAMES:
        module = sys.modules.get(name)
        places = [*getattr(module, "__path__", ()), getattr(module, "__file__", None) or ""]
        if module is not None and not any(os.path.abspath(place).startswith(_HERE + os.sep)
                                          for place in places):
            raise ImportError(f"mammoth needs the import name `{name}`, which {places[0]} has "
                              "already; import mammoth before it.")


_claim_names()

_OFFERED = {
    "asking": ("Answer", "Explanation", "load_model"),
    "backbone": ("MammothBackbone", "ReturnTypes", "get_backbone_names", "register_backbone"),
    "datasets": ("get_dataset_names", "register_dataset"),
    "datasets.utils": ("set_default_from_args",),
    "datasets.utils.continual_dataset": ("ContinualDataset", "store_masked_loaders"),
    "models": ("get_model_names", "register_model"),
    "models.utils.continual_model": ("ContinualModel",),
    "utils.args": ("add_rehearsal_args",),
    "utils.buffer": ("Buffer",),
    "utils.conf": ("base_path", "get_device"),
    "utils.notebooks": ("get_avail_args", "load_runner"),
    "utils.training": ("train",),
}
_WHERE = {name: module for module, names in _OFFERED.items() for name in names}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    """Import an offered name from the module that defines it."""
    if name not in _WHERE:
        raise AttributeError(f"module `mammoth` has no attribute `{name}`")
    return getattr(importlib.import_module(_WHERE[name]), name)
