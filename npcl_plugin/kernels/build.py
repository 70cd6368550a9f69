"""From the C files beside this one to functions that can be called.

A compiler is looked for when the first function is asked for. It takes some seconds, and the
result is kept in the user's cache for this kind of processor, so that nobody waits twice. The
functions are operators of torch and speak to it through its stable interface for C.
"""
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

from npcl_plugin.contract import usage_error

Kernels = Literal["auto", "compiled", "torch"]
_HERE = Path(__file__).parent
_SOURCES = ("attention.c", "block.c", "decoder.c", "gradients.c", "linear.c", "norms.c",
            "operators.c")
_FLAGS = ("-O3", "-march=native", "-std=gnu11", "-fno-strict-aliasing", "-fexceptions", "-shared",
          "-fPIC")
_TORCH = "2.13"  # the oldest one that has all that `tensors.h` declares
_REGISTERED: list[ctypes.CDLL] = []  # torch takes operators once


class NoKernels(Exception):
    """Why there are none, as half a sentence."""


@cache
def library() -> ctypes.CDLL:
    """The compiled functions, which torch knows as its operators from now on.

    Raises:
        NoKernels: they cannot be had here.
    """
    found = _loaded()
    if not _REGISTERED and found.register_operators():
        raise NoKernels("torch refuses them")
    _REGISTERED.append(found)
    return found


def _loaded() -> ctypes.CDLL:
    """The library, compiled if it is not there yet."""
    try:
        import torch
    except ImportError:  # `doctor` asks about an environment that may be incomplete
        raise NoKernels("there is no torch") from None
    if torch.__version__ < _TORCH:
        raise NoKernels(f"they need torch {_TORCH}, and this is {torch.__version__}")
    compiler = shutil.which(os.environ.get("CC", "")) or shutil.which("cc") \
        or shutil.which("gcc") or shutil.which("clang")
    name, why = f"kernels-{_digest(compiler)}.so", "there is no C compiler"
    for folder in _folders():
        try:
            return ctypes.CDLL(str(folder / name))
        except OSError:  # it is not there, or damaged
            if compiler is None:
                continue
        try:
            _compile(compiler, folder / name)
            return ctypes.CDLL(str(folder / name))
        except OSError as error:  # the folder cannot be written, or nothing in it be run
            why = str(error)
    raise NoKernels(why)


def available(wanted: Kernels) -> bool:
    """Whether there are compiled functions.

    Args:
        wanted: `auto` uses them where they can be had; the first time that they cannot, a line
            says why.

    Raises:
        UsageError: they are wanted, and cannot be had.
    """
    if wanted == "torch":
        return False
    try:
        library()
    except NoKernels as error:
        if wanted == "compiled":
            raise usage_error(f"--kernels compiled needs a C compiler, but {error}; leave the "
                              "argument out to go on without.") from None
        _say_once(str(error))
        return False
    return True


@cache
def _say_once(why: str) -> None:
    print("Computing without functions in C, which are faster (--kernels torch never tries): "
          f"{why}.", file=sys.stderr)


def _digest(compiler: str | None) -> str:
    """Of all that the library depends on; code for one processor may not run on another."""
    parts = [*(path.read_bytes() for path in sorted(_HERE.glob("*.[ch]"))),
             " ".join(_FLAGS).encode(), str(compiler).encode(), _processor().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _processor() -> str:
    """What this one can do, where the system says so; else its name and this machine's."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = {line for line in lines if line.lower().startswith(("flags", "features"))}
    return platform.machine() + ("".join(sorted(features)) or
                                 f"{platform.processor()} {platform.node()}")


def _folders() -> Iterator[Path]:
    """Where the library may be: the user's cache, else a folder for this process alone."""
    try:
        kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "npcl"
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # it cannot be written, or nobody is at home
        pass
    else:
        yield kept
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _compile(compiler: str, path: Path) -> None:
    """Write the library; under another name first, as others may be about to do the same."""
    import torch

    # A process that has imported torch has loaded these already.
    of_torch = [str(path) for path in Path(torch.__file__).parent.glob("lib/libtorch_cpu.*")]
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        for flags in (_FLAGS, tuple(flag for flag in _FLAGS if flag != "-march=native")):
            done = subprocess.run(
                [compiler, *flags, *(str(_HERE / name) for name in _SOURCES), "-o", str(made),
                 *of_torch, "-lm"], capture_output=True, text=True)
            if not done.returncode:
                made.replace(path)
                return
    said = done.stderr.strip().splitlines() or ["it says nothing"]
    wrong = next((line for line in said if "error" in line), said[0])
    raise NoKernels(f"the C compiler {compiler} refused ({wrong})")
