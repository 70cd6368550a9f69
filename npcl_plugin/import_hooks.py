"""Help for an upstream checkout's imports, only where they would fail.

Two things stop every command of an upstream checkout before it starts: a torchvision whose binary
part does not fit torch, and a file of `datasets/` or `backbone/` that cannot be imported (for
want of a package or of the network), although nobody asked for it. With these hooks the first is
mended as in our harness, and such a file is left out, which is said in one line.

This file imports nothing of ours and nothing of Mammoth: a linked checkout runs it by its path,
in the middle of its own imports.
"""
import functools
import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

# The harness and the plugin stand side by side, in a checkout as in an installation.
_HARNESS = Path(__file__).resolve().parents[1] / "mammoth"
_OPEN_FOLDERS = ("datasets", "backbone")  # upstream imports every file of these


@functools.cache
def harness_file(name: str) -> ModuleType:
    """A self-sufficient module of our harness, such as `engine.settings`, also beside another one.

    It is run by itself: importing the harness would put it before an upstream checkout on the
    path.

    Raises:
        ModuleNotFoundError: our harness is not beside the plugin.
    """
    path = (_HARNESS / name.replace(".", "/")).with_suffix(".py")
    if not path.is_file():
        raise ModuleNotFoundError(f"The plugin needs mammoth's {name} of its own project; install "
                                  "the project or keep the plugin beside it.")
    spec = spec_from_file_location(f"npcl_harness_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mend_torchvision(stand_in: Path | None = None) -> None:
    """Before anybody imports torchvision: let a build for another torch work.

    Args:
        stand_in: a folder whose `torchvision.py` is not the real one, but what `link` wrote.
    """
    if "torchvision" not in sys.modules:
        mender = harness_file("utils.torchvision_compat")
        mender.install(None if stand_in is None else str(stand_in))


def help_imports(checkout: Path) -> None:
    """Both hooks for a checkout; our own harness imports only what is asked for and needs none."""
    if (checkout / "utils" / "torchvision_compat.py").is_file():
        return
    mend_torchvision(checkout)
    if not any(type(finder).__name__ == "_TolerantFinder" for finder in sys.meta_path):
        sys.meta_path.insert(0, _TolerantFinder(checkout.resolve()))


def hand_over(stand_in: str) -> None:
    """Called by the `torchvision.py` that `link` wrote: help, then be replaced by the real one."""
    sys.modules.pop("torchvision", None)
    help_imports(Path(stand_in).resolve().parent)
    importlib.import_module("torchvision")  # Python goes on with what stands in sys.modules


class _TolerantLoader(SourceFileLoader):
    """Runs a file; if it fails, the module is empty and one line says why."""

    def exec_module(self, module: ModuleType) -> None:
        try:
            super().exec_module(module)
        except Exception as error:  # noqa: BLE001  whatever it is, nobody asked for the file
            for name in [name for name in vars(module) if not name.startswith("__")]:
                delattr(module, name)
            folder, name = module.__name__.split(".")
            reason = (str(error) or type(error).__name__).splitlines()[0]
            print(f"left out: {folder}/{name}.py ({reason})", file=sys.stderr)


class _TolerantFinder(MetaPathFinder):
    """Answers for the files that stand directly in an open folder of the checkout."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout

    def find_spec(self, fullname: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        folder, _, name = fullname.partition(".")
        if folder not in _OPEN_FOLDERS or not name or "." in name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or type(spec.loader) is not SourceFileLoader:
            return None
        if Path(spec.origin).resolve() == self.checkout / folder / f"{name}.py":
            spec.loader = _TolerantLoader(spec.loader.name, spec.loader.path)
        return spec
