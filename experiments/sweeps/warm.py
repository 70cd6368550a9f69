"""Processes for runs that need not import torch: forked from one that has done so already.

The forking process (`multiprocessing`'s forkserver) imports the harness once and computes nothing,
so each run starts as fresh as in a process of its own: its own seeds, folders and state. A run
that crashes or is killed takes nobody with it.
"""
import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from multiprocessing import connection, forkserver, reduction
from pathlib import Path
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_FORKER_DIED = 255  # what multiprocessing says of a process whose forking process is gone
_SPECIAL = (signal.SIGUSR1, signal.SIGUSR2)


def prepare() -> None:
    """Start importing in the background; whoever starts runs calls it as early as possible."""
    _CONTEXT.set_forkserver_preload([f"{__name__}_imports"])
    before = os.environ.get("PYTHONPATH")
    # The forking process finds our packages where we do; it reads no other path.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    try:
        with _deaf():
            forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


class WarmRun:
    """main.py with some arguments, in a process of its own.

    Args:
        words: the arguments of main.py.
        log: where its output goes.
        environment: its environment variables.
        lock: a descriptor that it holds open as long as it lives.

    Raises:
        OSError: there is no memory or process left.
    """

    def __init__(self, words: list[str], log: Path, environment: Mapping[str, str],
                 lock: int) -> None:
        prepare()
        self._end, alive = os.pipe()  # the run holds `alive` open; nobody else does
        self._process = _CONTEXT.Process(
            target=_run,
            args=(words, str(log), dict(environment), _Descriptor(lock), _Descriptor(alive)))
        try:
            self._process.start()
        finally:
            os.close(alive)

    @property
    def pid(self) -> int:
        """The run's process number."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """None while it goes on, then its exit code; minus the signal that ended it.

        A run outlives the process that it was forked from. Its exit code is lost then, so that it
        counts as killed; whether it was finished, its result says.
        """
        code = self._process.exitcode
        if code == _FORKER_DIED:
            return -signal.SIGKILL if connection.wait([self._end], 0) else None
        return code

    def __del__(self) -> None:
        os.close(self._end)

    def send_signal(self, number: int) -> None:
        """Send a signal to the run, if it is still there."""
        if self.poll() is None:
            os.kill(self.pid, number)


def wait_for(runs: Iterable[WarmRun], seconds: float) -> None:
    """Until one of the runs has ended, but not longer."""
    if connection.wait([run._end for run in runs], seconds):
        time.sleep(0.001)  # its exit code follows


class _Descriptor:
    """An open file that travels to the new process."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __getstate__(self) -> Any:
        return reduction.DupFd(self._number)

    def __setstate__(self, sent: Any) -> None:
        self._number = sent.detach()


def _run(words: list[str], log: str, environment: Mapping[str, str],
         *held: _Descriptor) -> None:
    """What the new process does; `held` stays open until it ends."""
    os.setsid()  # Ctrl-C must reach the sweep alone: a run takes a second signal for haste
    for number in _SPECIAL:
        signal.signal(number, signal.SIG_IGN)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    import torch

    torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
    import main

    sys.argv = [str(Path(main.__file__)), *words]
    code = main.cli()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """What is started inside ignores USR1 and USR2, which SLURM sends to all of a job's processes
    to warn it, and which would end a run before it has saved itself."""
    try:
        before = {number: signal.signal(number, signal.SIG_IGN) for number in _SPECIAL}
    except ValueError:  # signals belong to the main thread
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def import_all() -> None:
    """All that most runs import, so that no run has to.

    Not the benchmarks: those of colour images import torchvision, which costs as much as torch,
    and their runs are long.
    """
    import torch  # noqa: F401

    import mammoth  # noqa: F401  (puts the harness's names on the path)

    for name in ("main", "utils.training", "datasets.utils.builtin"):
        importlib.import_module(name)
    from backbone import REGISTRY as BACKBONES
    from engine.errors import UsageError
    from engine.plugins import load_plugins, loaded_plugins
    from models import REGISTRY as MODELS

    load_plugins()
    for plugin in loaded_plugins().values():
        for name in getattr(plugin, "IMPORTS", ()):
            importlib.import_module(name)
    for registry in (MODELS, BACKBONES):
        for name in registry.names():
            with contextlib.suppress(UsageError):  # the run that asks for it says so
                registry.entry(name)
