"""A folder for each run: what it was asked, what it measured as it went, how it ended.

    <results>/runs/<dataset>/<model>/<time>_<key>/
        args.json       arguments, where each came from, the command, versions
        metrics.jsonl   one line for each evaluation, written when it is known
        result.json     the end: accuracy matrix, transfer, time, memory (absent while unfinished)
"""
import itertools
import json
import os
import platform
import resource
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.bounded import read_json
from engine.checkpoint_schema import is_file_name
from engine.errors import UsageError, keep_tracebacks_in
from engine.files import (
    LOCK_NAME,
    append_line,
    atomic_write,
    clear_empty_folders,
    clear_leftovers,
    ensure_writable,
    write_json,
)
from engine.locks import Lock, owner
from utils.loggers import plain_args

DRAWN = "drawn at random"  # where a seed comes from that nobody gave
_NUMBERS = itertools.count()


def results_folder(args: Namespace) -> Path:
    """`--results_path`, below `--base_path` unless absolute."""
    return Path(args.base_path) / args.results_path


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    import numpy
    import torch

    return {"python": platform.python_version(), "torch": torch.__version__,
            "numpy": numpy.__version__, "machine": platform.machine(),
            "cores": str(os.cpu_count()), "threads": str(torch.get_num_threads())}


def peak_memory_mb() -> float:
    """The most memory this process has had."""
    unit = 1024 if sys.platform != "darwin" else 1024 * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


class RunFolder:
    """Writes one run's files; does nothing with `--disable_log 1`.

    Args:
        name: the folder of an earlier process to go on in, as its checkpoint has it.

    Raises:
        UsageError: the results folder cannot be written, or the name is none of ours.
    """

    def __init__(self, args: Namespace, sources: dict[str, str], key: str,
                 name: str | None = None) -> None:
        self.enabled = not args.disable_log
        self._lock: Lock | None = None
        self._args, self._sources, self._key = args, sources, key
        above = f"runs/{args.dataset}/{args.model}/"
        self._begins = name is None
        if name is None:
            name = above + (_abandoned(args, sources, key) or f"{_stamp()}_{key}")
        self.name = name
        if not (self.name.startswith(above) and is_file_name(self.name.removeprefix(above))):
            raise UsageError(f"The checkpoint says that its run's folder is {name!r}, which is "
                             "none of ours: it was tampered with, or does not come from a run (use "
                             "--loadcheck).")
        self.path = results_folder(args) / self.name
        if self.enabled:
            ensure_writable(self.path, "--results_path or --base_path")
            clear_leftovers(self.path.parent)
            clear_empty_folders(self.path.parent)

    def open(self) -> None:
        """Own the folder and write args.json, once the data is there and the run really starts.

        Raises:
            UsageError: another process owns it.
        """
        keep_tracebacks_in(self.path if self.enabled else None)
        if not self.enabled or self._lock is not None:
            return
        self._lock = _taken(self.path / LOCK_NAME)
        for folder, _, _ in os.walk(self.path):
            clear_leftovers(Path(folder))
        if self._begins:
            (self.path / "metrics.jsonl").unlink(missing_ok=True)
        if self._begins or not (self.path / "args.json").exists():
            write_json(self.path / "args.json", {
                "args": plain_args(self._args), "sources": self._sources, "key": self._key,
                "command": shlex.join(["python", "mammoth/main.py", *sys.argv[1:]]),
                "versions": versions()})

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def result(self) -> dict[str, Any] | None:
        """What the run's result.json says, if it has ended before.

        Raises:
            UsageError: the file is there but cannot be read.
        """
        path = self.path / "result.json"
        return _read_result(path) if self.enabled and path.exists() else None

    def add(self, line: dict[str, Any]) -> None:
        """Append a measurement to metrics.jsonl."""
        if self.enabled:
            append_line(self.path / "metrics.jsonl", json.dumps(line))

    def rewrite(self, lines: list[dict[str, Any]]) -> None:
        """Go back to the measurements that a checkpoint knows."""
        if self.enabled:
            text = "".join(json.dumps(line) + "\n" for line in lines)
            atomic_write(self.path / "metrics.jsonl", text.encode())

    def finish(self, result: dict[str, Any]) -> None:
        """Write result.json."""
        if self.enabled:
            write_json(self.path / "result.json", result)


def finished_result(args: Namespace, key: str) -> tuple[Path, dict[str, Any]] | None:
    """The newest finished run of the same command, for `--resume`.

    Raises:
        UsageError: its file is there but cannot be read.
    """
    for path in sorted(_folder_of_runs(args).glob(f"*_{key}/result.json"), reverse=True):
        clear_leftovers(path.parent)  # it may have been killed right after its end
        clear_leftovers(path.parent.parent)
        return path, _read_result(path)
    return None


@contextmanager
def only_process(args: Namespace, key: str) -> Iterator[None]:
    """While entered, no other process resumes the same run.

    Raises:
        UsageError: another one does.
    """
    ensure_writable(_folder_of_runs(args), "--results_path or --base_path")
    lock = _taken(_folder_of_runs(args) / f".{key}.lock")
    try:
        yield
    finally:
        lock.release()


def _taken(path: Path) -> Lock:
    lock = Lock.take(path)
    if lock is None:
        raise UsageError(f"This run is being made already ({owner(path)}); wait for it, or stop it "
                         "first.")
    return lock


def _folder_of_runs(args: Namespace) -> Path:
    return results_folder(args) / "runs" / args.dataset / args.model


def _read_result(path: Path) -> dict[str, Any]:
    try:
        result = read_json(path)
        if not {"accuracy", "setting", "seconds"} <= set(result):
            raise ValueError("no result of a run")
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path} cannot be read; remove it to run again.") from error
    return result


def _abandoned(args: Namespace, sources: dict[str, str], key: str) -> str | None:
    """`--resume` without a checkpoint: the folder of the same run, killed before it had one."""
    if not args.resume or args.disable_log or sources.get("seed") == DRAWN:
        return None
    for path in sorted(_folder_of_runs(args).glob(f"*_{key}"), reverse=True):
        if is_file_name(path.name) and not path.is_symlink() \
                and not (path / "result.json").exists():
            return path.name
    return None


def _stamp() -> str:
    """The beginning of a folder's name: when, and by which process, and its how-manyth run."""
    number = next(_NUMBERS)
    return time.strftime("%Y%m%d-%H%M%S") + f"-{os.getpid()}" + (f"-{number}" if number else "")
