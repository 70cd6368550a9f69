"""`python -m npcl_plugin doctor PATH`: what a checkout and this environment lack, line by line.

`ok` is as it should be, `note` works with a restriction, `missing` stops every run.
"""
import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from npcl_plugin import MODELS
from npcl_plugin.kernels.build import NoKernels, library
from npcl_plugin.upstream import HERE, linked_files

# What every run imports, and folders of which a file that cannot be imported is left out.
_ESSENTIAL = ("main.py", "utils/*.py", "models/__init__.py", "models/utils/*.py",
              "datasets/__init__.py", "datasets/utils/*.py", "backbone/__init__.py")
_OPEN = ("datasets/*.py", "datasets/*_utils/*.py", "backbone/*.py")
_DISTRIBUTIONS = {"PIL": "pillow", "yaml": "pyyaml", "sklearn": "scikit-learn",
                  "open_clip": "open_clip_torch", "dotenv": "python-dotenv", "git": "gitpython"}
_DATA = {"MNIST": ("MNIST/MyMNIST/raw/train-images-idx3-ubyte",
                   "MNIST/MNIST/raw/t10k-images-idx3-ubyte"),
         "CIFAR-10": ("CIFAR10/cifar-10-batches-py/test_batch",),
         "CIFAR-100": ("CIFAR100/cifar-100-python/test",),
         "Tiny ImageNet": ("TINYIMG/processed/x_train_01.npy",)}
_HOOKS = f"import runpy; hooks = runpy.run_path({str(HERE / 'import_hooks.py')!r}); "


class Finding(NamedTuple):
    """One line of the report."""

    verdict: Literal["ok", "note", "missing"]
    text: str

    def __str__(self) -> str:
        return f"{self.verdict:<8} {self.text}"


def examine(checkout: Path, data: Path) -> Iterator[Finding]:
    """Everything that a run in the checkout needs, one finding at a time.

    Args:
        checkout: a folder with main.py and models/.
        data: what will be given as --base_path.
    """
    yield Finding("ok", f"checkout: {checkout}")
    lacking = list(_packages(checkout))
    yield from lacking or [Finding("ok", "packages: all that every run imports")]
    yield from _left_out(checkout)
    yield _torchvision()
    yield _kernels()
    if not lacking:
        yield _registration(checkout)
    yield _link(checkout)
    yield from _data(data)


def _packages(checkout: Path) -> Iterator[Finding]:
    for name, files in _absent(checkout, _ESSENTIAL).items():
        yield Finding("missing", f"package {name}: {files[0]} imports it; "
                                 f"pip install {_DISTRIBUTIONS.get(name, name)}")


def _left_out(checkout: Path) -> Iterator[Finding]:
    for name, files in _absent(checkout, _OPEN).items():
        yield Finding("note", f"package {name}: without it {', '.join(files)} "
                              f"{'are' if len(files) > 1 else 'is'} left out; "
                              f"pip install {_DISTRIBUTIONS.get(name, name)}")


def _absent(checkout: Path, patterns: tuple[str, ...]) -> dict[str, list[str]]:
    """package -> files that import it, of packages that are not installed."""
    known = {path.stem for path in checkout.iterdir()} | set(sys.stdlib_module_names)
    absent = defaultdict(list)
    for path in sorted(path for pattern in patterns for path in checkout.glob(pattern)):
        for name in sorted(_imports(ast.parse(path.read_text(encoding="utf-8")))):
            if name not in known and find_spec(name) is None:
                absent[name].append(str(path.relative_to(checkout)))
    return dict(absent)


def _imports(tree: ast.Module) -> set[str]:
    """Top-level packages that the code cannot do without: nothing inside `try`, `with` or `if`."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    found: set[str] = set()
    for node in [*tree.body, *(inner for function in functions for inner in function.body)]:
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").split(".")[0])
    return found


def _torchvision() -> Finding:
    """Whether torchvision fits torch, needs mending, or is beyond it."""
    if find_spec("torchvision") is None:
        return Finding("missing", "package torchvision: pip install torchvision")
    version = "import torch, torchvision; print(torchvision.__version__, 'beside torch', " \
              "torch.__version__)"
    plain, _ = _try(version, HERE)
    if plain:
        return Finding("ok", f"torchvision {plain}")
    mended, error = _try(f"{_HOOKS} hooks['mend_torchvision'](); {version}", HERE)
    if mended:
        return Finding("ok", f"torchvision {mended}: its binary part does not fit, which both "
                             "routes mend")
    return Finding("missing", f"torchvision cannot be imported ({error}); install the build that "
                              "fits torch")


def _kernels() -> Finding:
    """Whether what torch does slowly can be compiled."""
    try:
        library()
    except NoKernels as error:
        return Finding("note", f"functions in C: {error}; without them steps take a third longer")
    return Finding("ok", "functions in C: compiled for this processor")


def _registration(checkout: Path) -> Finding:
    """Whether the models can be registered, by doing so in a process of its own."""
    code = (f"import sys; sys.path[:0] = [{str(checkout)!r}]; sys.path.append({str(HERE.parent)!r})"
            "; import npcl_plugin; from models import get_model_names; "
            "print(*sorted(set(get_model_names()) & "
            f"{ {name.replace('_', '-') for name in MODELS}!r}))")
    names, error = _try(code, checkout)
    if names:
        return Finding("ok", f"models: {names.splitlines()[-1]} can be registered")
    return Finding("missing", f"models: they cannot be registered ({error})")


def _link(checkout: Path) -> Finding:
    """Whether upstream's own main.py knows the models, with today's settings."""
    files = linked_files(checkout)
    states = {path: path.read_text(encoding="utf-8") == text if path.exists() else None
              for path, text in files.items()}
    settings = [path for path in states if path.suffix == ".yaml"]
    command = f"`python -m npcl_plugin link {checkout}`"
    if all(states[path] is None for path in settings):
        return Finding("ok", "settings: read from the plugin; for upstream's own main.py there "
                             f"is {command}")
    stale = [path.name for path in settings if not states[path]]
    if stale:
        return Finding("missing", f"settings: {', '.join(stale)} of the checkout are not the "
                                  f"plugin's of today; {command} writes them anew")
    return Finding("ok", "settings: linked, as in the plugin")


def _data(folder: Path) -> Iterator[Finding]:
    for name, files in _DATA.items():
        absent = [file for file in files if not (folder / file).exists()]
        if absent:
            yield Finding("note", f"data: no {name} ({folder / absent[0]}); upstream downloads it "
                                  "when it is first used")
        else:
            yield Finding("ok", f"data: {name} in {folder}")


def _try(code: str, folder: Path) -> tuple[str, str]:
    """(what the code prints, or nothing if it fails; the last line of its error)."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True,
                          check=False)
    error = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return (done.stdout.strip() if done.returncode == 0 else ""), error
