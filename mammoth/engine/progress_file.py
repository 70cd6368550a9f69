"""How far a run is, in a small file for whoever started it (`MAMMOTH_PROGRESS` names it)."""
import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

VARIABLE = "MAMMOTH_PROGRESS"


class ProgressFile:
    """Rewrites the file at most every `every` seconds; a full disk does not disturb the run."""

    def __init__(self, path: str | Path, every: float = 0.5) -> None:
        self.path = Path(path)
        self.accuracy: float | None = None
        self._every, self._next = every, 0.0

    @classmethod
    def from_environment(cls) -> "ProgressFile | None":
        """The file that the environment asks for, if it does."""
        path = os.environ.get(VARIABLE)
        return cls(path) if path else None

    def step(self, position: Any) -> None:
        """Note task, epoch and batch."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        note = {"task": position.task, "epoch": position.epoch, "batch": position.batch,
                "accuracy": self.accuracy}
        fresh = self.path.with_name(self.path.name + ".new")
        with contextlib.suppress(OSError):
            fresh.write_text(json.dumps(note))
            fresh.replace(self.path)
