"""Lets `import torchvision` work beside a CPU build of torch.

PyPI's torchvision wheel is compiled against CUDA. Beside a CPU torch its binary part cannot be
loaded, so the operators that it registers are missing, and torchvision's Python part, which
describes two of them (`nms` and `qnms`) at import, stops with a RuntimeError. Nothing in this
project calls them; declaring their signatures is enough for datasets and transforms to work.

Importing this module costs nothing: it only puts a watcher before Python's import system, which
acts when somebody imports torchvision (a dataset, an upstream file, torchmetrics). Where
torchvision fits torch the watcher spares it the import of torch's compiler and changes nothing.
"""
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_MISSING = ("nms", "qnms")
_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_COMPILER = "torch._dynamo"
_KEPT_ALIVE: list[object] = []  # torch forgets a library's operators when it is collected


def _declare_operators() -> None:
    """Tell torch the signatures of the operators that the binary part would have brought."""
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in _MISSING:
        library.define(name + _SIGNATURE)
    _KEPT_ALIVE.append(library)


def _is_compile_supported(device_type: str) -> bool:
    """What the compiler says about it."""
    from torch._dynamo.utils import is_compile_supported

    answer: bool = is_compile_supported(device_type)
    return answer


@contextmanager
def _compiler_left_out() -> Iterator[None]:
    """torchvision imports torch's compiler for one function of it that it may never call.

    The import takes half as long as that of torch. Meanwhile a module stands in its place whose
    function asks the compiler when it is called.
    """
    name = f"{_COMPILER}.utils"
    if _COMPILER in sys.modules:
        yield
        return
    stand_in: Any = ModuleType(name)
    stand_in.is_compile_supported = _is_compile_supported
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]


class _RepairingLoader(SourceFileLoader):
    """Runs torchvision's `__init__`; on the known failure declares the operators and reruns."""

    def exec_module(self, module: ModuleType) -> None:
        try:
            with _compiler_left_out():
                self._repaired(module)
        except (ImportError, AttributeError):  # this version needs more of the compiler
            _forget_submodules()
            self._repaired(module)

    def _repaired(self, module: ModuleType) -> None:
        try:
            super().exec_module(module)
        except RuntimeError as error:
            if "torchvision::" not in str(error) or _KEPT_ALIVE:
                raise
            _declare_operators()
            _forget_submodules()
            super().exec_module(module)


def _forget_submodules() -> None:
    """So that they run again with the package."""
    for name in [name for name in sys.modules if name.startswith("torchvision.")]:
        del sys.modules[name]


class _TorchvisionWatcher(MetaPathFinder):
    """Answers for the top-level name `torchvision` only, with the repairing loader."""

    skipped_folder: str | None = None

    def find_spec(self, fullname: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != "torchvision":
            return None
        if self.skipped_folder is not None:
            path = [folder for folder in sys.path
                    if os.path.realpath(folder) != self.skipped_folder]
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _RepairingLoader(spec.loader.name, spec.loader.path)
        return spec


def install(skipped_folder: str | None = None) -> None:
    """Put the watcher first in line, once.

    Args:
        skipped_folder: a folder of the path where `torchvision` is not to be looked for.
    """
    watcher: Any = next((finder for finder in sys.meta_path
                         if type(finder).__name__ == "_TorchvisionWatcher"), None)
    if watcher is None:
        watcher = _TorchvisionWatcher()
        sys.meta_path.insert(0, watcher)
    if skipped_folder is not None:
        watcher.skipped_folder = os.path.realpath(skipped_folder)


install()
