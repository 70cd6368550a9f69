"""Checkpoints that resume to exactly the numbers of an uninterrupted run.

The file is Mammoth's (keys `model`, `optimizer`, `scheduler`, `args`, `results`, `buffer`) plus
one key `run` with all that exactness needs: the method's other state, random generators, the
position in the stream and the measurements so far. Files are written whole, end in a
checksum, and are read with `weights_only=True`.
"""
import io
import logging
import re
from argparse import Namespace
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from utils.conf import get_checkpoint_path, get_rng_state
from utils.errors import UsageError
from utils.files import atomic_write, with_checksum, without_checksum
from utils.loggers import plain_args
from utils.model_state import capture, decode, encode

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
    content = {
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
    stream = io.BytesIO()
    torch.save(content, stream)
    path = Path(get_checkpoint_path()) / f"{name}.pt"
    atomic_write(path, with_checksum(stream.getvalue()))
    return path


def load_checkpoint(path: str | Path, args_only: bool = False) -> dict[str, Any]:
    """Read and verify a checkpoint; nothing in it is executed.

    Raises:
        UsageError: it is missing, damaged, or no checkpoint.
    """
    path = Path(path)
    try:
        content = without_checksum(path.read_bytes())
    except OSError as error:
        raise UsageError(f"Cannot read the checkpoint {path}: {error.strerror}.") from error
    if content is None:
        raise UsageError(f"The checkpoint {path} is damaged (its checksum does not fit); use "
                         "another one.")
    try:
        state = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except (RuntimeError, EOFError, KeyError, ValueError, OSError, _unpickling_error()) as error:
        raise UsageError(f"{path} is no checkpoint that loads safely "
                         f"({type(error).__name__}); use one written by --savecheck.") from error
    if not isinstance(state, dict):
        raise UsageError(f"{path} holds a {type(state).__name__}, not a checkpoint.")
    return dict(state.get("args") or {}) if args_only else state


def _unpickling_error() -> type[Exception]:
    from pickle import UnpicklingError

    return UnpicklingError


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


def newest_checkpoint(key: str) -> tuple[Path, dict[str, Any]] | None:
    """The latest undamaged checkpoint of the run with this key; damaged ones are named."""
    folder = Path(get_checkpoint_path())
    files = sorted(folder.glob(f"**/*_{key}_*.pt"), key=lambda p: p.stat().st_mtime_ns,
                   reverse=True)
    for path in files:
        try:
            return path, load_checkpoint(path)
        except UsageError as error:
            _log.warning("%s The one before it is tried.", error)
    return None


def forget_old_epochs(name: str, keep: int = 2) -> None:
    """Keep the newest epoch checkpoints of a run only: one would do, two survive a bad disk."""
    pattern = re.compile(re.escape(name) + r"_\d+e\d+\.pt")
    files = [p for p in Path(get_checkpoint_path()).glob(f"{name}_*.pt")
             if pattern.fullmatch(p.name)]
    for path in sorted(files, key=lambda p: p.stat().st_mtime_ns)[:-keep]:
        path.unlink(missing_ok=True)
