"""One run from its start to its end inside a cluster's job, and a way to call all of them off."""
import contextlib
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from experiments.paths import ROOT
from experiments.sweeps.execution import Active, Outcome, RunPolicy, progress_file, start
from experiments.sweeps.specification import Folders, RunSpec
from experiments.sweeps.warm import wait_for

_POLL = 0.3
_LOOK_AGAIN = 2.0


@dataclass
class Remote:
    """A run somewhere else, for the display."""

    spec: RunSpec
    started: float

    @property
    def visible(self) -> bool:
        """Whether it has made a step since it was sent away."""
        return progress_file(self.spec).exists()


class StopFile:
    """A file whose presence asks the jobs of one sweep to save and end.

    Jobs may run on other machines, or not have started yet; the results folder they all share.
    """

    def __init__(self, folders: Folders) -> None:
        self.path = folders.of_sweep("stop", uuid.uuid4().hex)

    def ask(self) -> None:
        """Make it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()

    def clear(self) -> None:
        """Take it away again."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


class Job:
    """A run in a job: called with the run, returns its outcome.

    Args:
        stop_file: where the sweep asks its jobs to end.
    """

    def __init__(self, policy: RunPolicy, stop_file: Path) -> None:
        self.policy, self.stop_file = policy, stop_file
        self.active: Active | None = None

    def __call__(self, spec: RunSpec) -> Outcome:
        """Do the run; one that somebody else does is waited for."""
        while not self.stop_file.exists():
            begun = start(spec, self.policy)
            if isinstance(begun, Active):
                self.active = begun
                return self._wait(begun)
            if begun.state != "busy":
                return begun
            time.sleep(_LOOK_AGAIN)
        return Outcome("stopped")

    def _wait(self, active: Active) -> Outcome:
        while True:
            outcome = active.poll()
            if outcome is not None:
                self.active = None
                return outcome
            if self.stop_file.exists() and not active.stopping:
                active.stop()
            wait_for([active.child], _POLL)

    def pause(self) -> None:
        """Let the run save itself and end, because the job must (preemption, time limit)."""
        if self.active is not None:
            if not self.active.stopping:
                self.active.stop()
            while self.active.poll() is None:
                wait_for([self.active.child], _POLL)


def importable() -> dict[str, str]:
    """The environment in which another machine's Python finds this package."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(path for path in paths if path))}
