"""Checkpoints that resume to exactly the numbers of an uninterrupted run.

The file is Mammoth's (keys `model`, `optimizer`, `scheduler`, `args`, `results`, `buffer`) plus
one key `run` with all that exactness needs: the method's other state, random generators, the
position in the stream and the measurements so far. Files are written whole, end in a
checksum, and are read with `weights_only=True`.
"""
import io
import logging
import re
import warnings
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from engine.checkpoint_schema import fault, form
from engine.errors import UsageError
from engine.files import atomic_write, with_checksum, without_checksum
from engine.model_state import capture, decode, encode, restore
from utils.conf import get_checkpoint_path, get_rng_state
from utils.loggers import plain_args

_log = logging.getLogger("mammoth")


@dataclass
class Position:
    """The next thing to do: batch `batch` of epoch `epoch` of task `task`."""

    task: int = 0
    epoch: int = 0
    batch: int = 0
    steps: int = 0  # optimisation steps in this task, for --fitting_mode iters

    @property
    def inside_task(self) -> bool:
        """Whether the task has begun, so that its hooks must not run again."""
        return self.epoch > 0 or self.batch > 0


@dataclass
class Progress:
    """What a run has measured and where it stands."""

    position: Position = field(default_factory=Position)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    random_accs: list[list[float]] = field(default_factory=lambda: [[], []])
    early_stopping: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    resumed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> "Progress":
        """The inverse of `to_dict`."""
        return cls(**{**state, "position": Position(**state["position"])})


def save_checkpoint(name: str, args: Namespace, model: Any, progress: Progress, logger: Any,
                    scheduler: Any, loader: Any, stream: dict[str, Any], folder_name: str,
                    key: str) -> Path:
    """Write `<checkpoint_path>/<name>.pt`.

    Args:
        stream: `stream_fields` of a task whose samples the method changed, else {}.

    Returns:
        The file's path.
    """
    state = capture(model)
    content: dict[str, Any] = {
        "model": state.pop("weights"),
        "optimizer": model.opt.state_dict() if model.opt is not None else None,
        "scheduler": scheduler.state_dict() if scheduler is not None else None,
        "args": plain_args(args),
        "results": [logger.accs, logger.masked_accs, logger.dump()],
        "run": {**state, "progress": progress.to_dict(), "rng": get_rng_state(),
                "loader": loader_state(loader), "stream": encode(stream),
                "folder": folder_name, "key": key},
    }
    if "buffer" in state["stateful"]:
        content["buffer"] = model.buffer.serialize()
    content["run"]["form"] = form(content)
    packed = io.BytesIO()
    torch.save(content, packed)
    path = Path(get_checkpoint_path()) / f"{name}.pt"
    atomic_write(path, with_checksum(packed.getvalue()))
    return path


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read and verify a checkpoint; nothing in it is executed.

    Raises:
        UsageError: it is missing, damaged, or no checkpoint.
    """
    path = Path(path)
    content = without_checksum(_read(path))
    if content is None:
        raise UsageError(f"The checkpoint {path} is damaged (its checksum does not fit); use "
                         "another one.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the reader about what it then refuses
            state = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
        wrong = fault(state)
    except Exception as error:  # whatever a reader of arbitrary bytes may raise
        raise UsageError(f"{path} is no checkpoint that loads safely "
                         f"({type(error).__name__}); use one written by --savecheck.") from error
    if wrong:
        raise UsageError(f"{path} is no whole checkpoint: {wrong}; use another one.")
    return dict(state)


def _read(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"Cannot read the checkpoint {path}: it is no regular file.")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"Cannot read the checkpoint {path}: {reason}.") from error


@contextmanager
def restoring(path: str | Path | None) -> Iterator[None]:
    """Around everything that is put back from a checkpoint: what does not fit is said so.

    The form of a file was checked when it was read, but whether its parts fit this method, this
    network and this benchmark only they can tell.

    Raises:
        UsageError: something did not fit.
    """
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError,
            RuntimeError, TypeError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise UsageError(f"The checkpoint {path} does not fit this method and benchmark "
                         f"({type(error).__name__}: {reason}); use another one.") from error


def learned_tasks(checkpoint: dict[str, Any]) -> int | None:
    """How many tasks the method in a checkpoint has learned; None if the file does not say."""
    if "run" in checkpoint:
        return checkpoint["run"]["progress"]["position"]["task"]
    results = checkpoint.get("results")
    return len(results[0]) if results else None


def restore_method(model: Any, dataset: Any, checkpoint: dict[str, Any],
                   weights_only: bool = False) -> None:
    """The method as it was: weights, samples, counters, whatever of it the file has.

    Args:
        weights_only: leave everything else of the method as it is.
    """
    run = {} if weights_only else checkpoint.get("run", {})
    restore(model, {"weights": checkpoint.get("model", checkpoint),
                    "plain": run.get("plain", {}), "stateful": run.get("stateful", {})},
            known="args" in checkpoint)
    if weights_only:
        return
    if "run" in checkpoint:
        if model.current_task != learned_tasks(checkpoint):
            raise ValueError("method and progress are at different tasks")
        return
    if "buffer" in checkpoint:
        model.load_buffer(checkpoint["buffer"])
    learned = learned_tasks(checkpoint)
    if learned:
        model.count_classes(dataset, learned - 1)
        model._current_task = learned


def loader_state(loader: Any) -> Any:
    """Where a loader's own generator stands (ours, or that of an ordinary DataLoader)."""
    if hasattr(loader, "state_dict"):
        return loader.state_dict()
    generator = getattr(loader, "generator", None)
    return None if generator is None else {"generator": generator.get_state()}


def stream_fields(loader: Any) -> dict[str, Any]:
    """The samples of a task and what goes with each; a method may change them in a hook."""
    data = loader.dataset
    names = ("data", "targets", "indexes", *getattr(data, "extra_return_fields", ()))
    return {name: getattr(data, name) for name in names if hasattr(data, name)}


def restore_loader(loader: Any, run: dict[str, Any], batch: int) -> None:
    """Put a loader back so that its next epoch starts at batch `batch` in the old order."""
    for name, values in decode(run["stream"]).items():
        setattr(loader.dataset, name, values)
    state = run["loader"]
    if state is None:
        return
    if hasattr(loader, "load_state_dict"):
        loader.load_state_dict(state)
        if batch:
            loader.skip_batches(batch)
    else:
        loader.generator.set_state(state["generator"])
        if batch:
            _log.warning("This benchmark is read by an ordinary DataLoader, which cannot go on "
                         "inside an epoch: the epoch starts anew, so the numbers will differ from "
                         "an undisturbed run.")


def load_optimizer(optimizer: Any, state: dict[str, Any]) -> None:
    """Put an optimiser back; what it keeps of a parameter must have that parameter's shape."""
    optimizer.load_state_dict(state)
    for parameter, kept in optimizer.state.items():
        for name, value in kept.items():
            if torch.is_tensor(value) and value.ndim and value.shape != parameter.shape:
                raise ValueError(f"`{name}` of the optimiser has shape {tuple(value.shape)}, not "
                                 f"{tuple(parameter.shape)}")


def load_scheduler(scheduler: Any, state: dict[str, Any] | None) -> None:
    """Put a schedule of the learning rate back; torch's own loading takes anything."""
    fresh = scheduler.state_dict()
    if state is None or set(state) != set(fresh):
        raise ValueError("it holds the state of another schedule of the learning rate")
    scheduler.load_state_dict(state)


def newest_checkpoint(key: str) -> tuple[Path, dict[str, Any]] | None:
    """The latest undamaged checkpoint of the run with this key; damaged ones are named."""
    folder = Path(get_checkpoint_path())
    files = sorted(folder.glob(f"**/*_{key}_*.pt"), key=_time_of, reverse=True)
    for path in files:
        try:
            state = load_checkpoint(path)
        except UsageError as error:
            _log.warning("%s The one before it is tried.", error)
            continue
        if state.get("run", {}).get("key") == key:
            return path, state
        _log.warning("%s holds another run than its name says. The one before it is tried.", path)
    return None


def _time_of(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # removed meanwhile
        return 0


def forget_old_epochs(name: str, keep: int = 2) -> None:
    """Keep the newest epoch checkpoints of a run only: one would do, two survive a bad disk."""
    pattern = re.compile(re.escape(name) + r"_\d+e\d+\.pt")
    files = [p for p in Path(get_checkpoint_path()).glob(f"{name}_*.pt")
             if pattern.fullmatch(p.name)]
    for path in sorted(files, key=_time_of)[:-keep]:
        path.unlink(missing_ok=True)


def first_task(args: Namespace, checkpoint: dict[str, Any] | None, n_tasks: int) -> int:
    """The task to begin with: `--start_from`, or the one after those in the checkpoint.

    Raises:
        UsageError: the checkpoint has learned other tasks, or there is none left to learn.
    """
    whole = checkpoint is not None and "run" in checkpoint and not args.inference_only
    learned = learned_tasks(checkpoint) if checkpoint is not None and whole else None
    if learned is None or args.start_from == 0:
        return args.start_from or 0
    anew = "--start_from 0 to learn every task anew from its weights alone"
    if args.start_from not in (None, learned):
        raise UsageError(f"The checkpoint {args.loadcheck} has learned {learned} tasks and goes on "
                         f"with the next: leave out --start_from {args.start_from}, or give "
                         f"{anew}.")
    if learned >= min(n_tasks, n_tasks if args.stop_after is None else args.stop_after):
        raise UsageError(f"The checkpoint {args.loadcheck} has learned {learned} tasks already, so "
                         f"none is left to train: give --inference_only 1 to evaluate it, or "
                         f"{anew}.")
    return learned
