"""One run as a process of its own: started under a lock, watched, and judged by its result."""
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from engine.bounded import Unreadable, read_json
from engine.errors import RunError, UsageError
from experiments.run import Run, is_number
from experiments.sweeps.claims import Claim
from experiments.sweeps.specification import RunSpec, finished
from experiments.sweeps.warm import WarmRun

State = Literal["finished", "failed", "stopped", "busy"]
_NOTE = 10_000  # bytes of a progress note
_SCARCE = 1 << 20  # bytes: with less left on the disk nothing sensible can be written


@dataclass
class Outcome:
    """How a run ended, in plain data that a cluster can send back.

    Args:
        state: finished; failed (with `words`); stopped by a signal to us; busy: somebody else
            does this run.
        new: whether this call did it (a run found finished is not new).
    """

    state: State
    run: Run | None = field(default=None, repr=False)
    words: str = ""
    seconds: float = 0.0
    new: bool = True


@dataclass(frozen=True)
class RunPolicy:
    """How runs are looked after.

    Args:
        keep_checkpoints: leave them when the run is finished (they serve resuming only).
        retries: how often a run that was killed from outside is taken up again.
        threads: processor threads per run.
    """

    keep_checkpoints: bool = False
    retries: int = 3
    threads: int = 1


def look_up(spec: RunSpec) -> Outcome | None:
    """The outcome of a run that needs no start: finished before, or impossible."""
    if spec.error:
        return Outcome("failed", words=spec.error, new=False)
    try:
        run = finished(spec)
    except UsageError as error:
        return Outcome("failed", words=str(error), new=False)
    return Outcome("finished", run, new=False) if run is not None else None


def done_before(spec: RunSpec, policy: RunPolicy) -> Outcome | None:
    """`look_up`, and clear up after a run that outlived its sweep, which a progress note shows."""
    known = look_up(spec)
    if known is not None and known.state == "finished" and progress_file(spec).exists():
        clear_up(spec, policy, known.state)
    return known


def clear_up(spec: RunSpec, policy: RunPolicy, state: State) -> None:
    """Remove what a run that ended so does not need any more."""
    if state == "finished" and not policy.keep_checkpoints:
        forget_checkpoints(spec)
    with contextlib.suppress(OSError):
        progress_file(spec).unlink(missing_ok=True)


def read_progress(spec: RunSpec) -> dict[str, Any]:
    """What the run last noted: task, epoch, batch, accuracy; {} before the first step."""
    try:
        noted = read_json(progress_file(spec), _NOTE)
    except (OSError, Unreadable):
        return {}
    counts = ("task", "epoch", "batch")
    if not isinstance(noted, dict) or not all(type(noted.get(name)) is int for name in counts):
        return {}
    return noted if is_number(noted.get("accuracy")) else {**noted, "accuracy": None}


def progress_file(spec: RunSpec) -> Path:
    """Where the run notes task, epoch and step."""
    return spec.folders.of_sweep("progress", f"{spec.name}.json")


def log_file(spec: RunSpec) -> Path:
    """Where the run's output goes."""
    return spec.folders.of_sweep("logs", f"{spec.name}.log")


class Active:
    """A run that is going on in a child process, which holds the lock as long as we do."""

    def __init__(self, spec: RunSpec, claim: Claim, policy: RunPolicy) -> None:
        self.spec, self.claim = spec, claim
        self.started = time.time()
        self.stopping = False
        self.killed: Callable[[int, int], None] = lambda signal_number, left: None
        self._policy, self._retries = policy, policy.retries
        self._start()

    def _start(self) -> None:
        log = log_file(self.spec)
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            progress_file(self.spec).parent.mkdir(parents=True, exist_ok=True)
            progress_file(self.spec).unlink(missing_ok=True)
            self.child = WarmRun(self.spec.words(), log, self._environment(),
                                 self.claim.descriptor)
        except OSError as error:
            self.claim.release()
            raise RunError(f"Cannot write {log}: {error.strerror}; free some space or choose "
                           "another folder with --results_path.") from error
        self.claim.note(self.child.pid)

    def _environment(self) -> dict[str, str]:
        """The threads a run may use, and a file in which it notes how far it is."""
        return {**os.environ, "OMP_NUM_THREADS": str(self._policy.threads),
                "MAMMOTH_PROGRESS": str(progress_file(self.spec))}

    def stop(self, hard: bool = False) -> None:
        """Ask the run to save itself and end; `hard` ends it at once."""
        self.stopping = True
        with contextlib.suppress(ProcessLookupError):
            self.child.send_signal(signal.SIGKILL if hard else signal.SIGTERM)

    def poll(self) -> Outcome | None:
        """None while it goes on; a run that was killed from outside is started again."""
        code = self.child.poll()
        if code is None:
            return None
        outcome = self._judge(code)
        if outcome is None:
            self._retries -= 1
            self.killed(-code if code < 0 else code - 128, self._retries)
            try:
                self._start()
            except RunError as error:
                return Outcome("failed", words=str(error))
            return None
        clear_up(self.spec, self._policy, outcome.state)
        self.claim.release()
        return outcome

    def _judge(self, code: int) -> Outcome | None:
        """The outcome by exit code and result; None means: once more, from the checkpoint."""
        seconds = time.time() - self.started
        known = look_up(self.spec)
        if known is not None:
            known.seconds, known.new = seconds, True
            return known
        if self.stopping:
            return Outcome("stopped", seconds=seconds)
        killed = code < 0 or code in (128 + signal.SIGTERM, 128 + signal.SIGINT)
        if killed and self._retries > 0 and not disk_full(self.spec):
            return None
        return Outcome("failed", words=self._last_words(code), seconds=seconds)

    def _last_words(self, code: int) -> str:
        if disk_full(self.spec):
            return (f"The disk of {self.spec.folders.results} is full; free some space and repeat "
                    "the command.")
        lines = read_tail(log_file(self.spec))
        if code < 0:
            return f"killed by signal {-code} again and again; is there memory enough?"
        return lines[-1] if lines else f"ended with exit code {code} and an empty log"


def start(spec: RunSpec, policy: RunPolicy) -> Active | Outcome:
    """Begin a run unless it is finished, impossible, or somebody else's already."""
    known = done_before(spec, policy)
    if known is not None:
        return known
    try:
        claim = Claim.take(spec.folders.of_sweep("locks", f"{spec.name}.lock"))
        if claim is None:
            return Outcome("busy")
        known = look_up(spec)  # it may have ended between the first look and the lock
        if known is not None:
            claim.release()
            return known
        return Active(spec, claim, policy)
    except RunError as error:
        return Outcome("failed", words=str(error))


def forget_checkpoints(spec: RunSpec) -> None:
    """Remove what only resuming needs, unless the run itself was asked to save."""
    if spec.given.get("savecheck") is None and spec.key:
        for path in spec.folders.checkpoints.glob(f"*_{spec.key}_*.pt"):
            with contextlib.suppress(OSError):
                path.unlink()


def disk_full(spec: RunSpec) -> bool:
    """Whether nothing more can be written where the results go."""
    try:
        return shutil.disk_usage(spec.folders.results).free < _SCARCE
    except OSError:
        return False


def read_tail(path: Path, size: int = 4096) -> list[str]:
    """The last lines of a log that say something."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - size))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]
