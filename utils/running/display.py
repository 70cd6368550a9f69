"""What a person sees while runs go on: a line for each and one for all of them."""
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Protocol, TextIO

from running.execution import Outcome, read_progress
from running.specs import RunSpec

_BAR = 20


class Watched(Protocol):
    """A run that is going on, here or elsewhere."""

    spec: RunSpec
    started: float


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 05 min`, `2 d 4 h`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def share_done(active: Watched) -> float:
    """How much of a run is behind it, by tasks and epochs (steps an epoch are not known)."""
    noted, args = read_progress(active.spec), active.spec.args
    epochs = getattr(args, "n_epochs", None) or 1
    within = min(noted.get("epoch", 0) / epochs, 1.0)
    return min((noted.get("task", 0) + within) / active.spec.n_tasks, 1.0)


def running_line(active: Watched, width: int) -> str:
    """`er seq-digits seed 0  [######    ] task 3/5 epoch 1/1 step 12  81.2 %  0:12`."""
    noted, args = read_progress(active.spec), active.spec.args
    filled = round(_BAR * share_done(active))
    bar = f"[{'#' * filled}{' ' * (_BAR - filled)}]"
    where = "starting"
    if noted:
        where = (f"task {noted['task'] + 1}/{active.spec.n_tasks} epoch {noted['epoch'] + 1}/"
                 f"{getattr(args, 'n_epochs', None) or '?'} step {noted['batch']}")
        if noted.get("accuracy") is not None:
            where += f"  {noted['accuracy']:.1f} %"
    right = f" {bar} {where}  {duration(time.time() - active.started)}"
    room = max(10, width - len(right) - 1)
    return f"{active.spec.label[:room]:<{room}}{right}"[:width]


def ending_line(number: int, total: int, label: str, outcome: Outcome) -> str:
    """`[3/12] er seed 0: class-il 81.20, task-il 97.10 (12 s)`."""
    said = {"failed": "failed", "stopped": "stopped, checkpoint kept",
            "busy": "done by another process"}.get(outcome.state, "")
    if outcome.result is not None:
        said = ", ".join(f"{name} {value:.2f}" for name, value in
                         outcome.result["accuracy"].items() if value is not None)
    ending = f"({duration(outcome.seconds)})" if outcome.new else "(finished before)"
    return f"[{number}/{total}] {label}: {said} {ending if outcome.state == 'finished' else ''}" \
        .rstrip()


class Display:
    """Redraws a block of lines on a terminal; elsewhere prints a line for each event.

    Args:
        total: runs whose ending will be told.
        jobs: how many go on at a time, for the estimate.
        expected: the keys of the runs to do, and the seconds each is expected to take.
    """

    def __init__(self, total: int, jobs: int, expected: Mapping[str, float],
                 stream: TextIO | None = None, every: float = 60.0) -> None:
        self.total, self.jobs, self._expected = total, max(1, jobs), dict(expected)
        self.stream = stream or sys.stdout
        self.live = self.stream.isatty()
        self.ended = self.failed = 0
        self._took = self._foreseen = 0.0  # seconds of the runs that ended here
        self._drawn, self._last, self._every = 0, time.time(), every

    def ending(self, spec: RunSpec, outcome: Outcome) -> None:
        """Say how a run ended."""
        self.ended += 1
        self.failed += outcome.state == "failed"
        foreseen = self._expected.pop(spec.key, 0.0)
        if outcome.state == "finished" and outcome.new and outcome.result is not None:
            # A resumed run took longer than its last part; its result knows of the others.
            self._took += max(outcome.seconds, outcome.result["seconds"])
            self._foreseen += foreseen
        self._clear()
        line = ending_line(self.ended, self.total, spec.label, outcome)
        print(line, file=self.stream, flush=True)

    def update(self, active: Sequence[Watched], waiting: int = 0) -> None:
        """Show where the runs are: twice a second, away from a terminal once a minute."""
        now = time.time()
        if now - self._last < (0.5 if self.live else self._every):
            return
        self._last = now
        overall = self._overall(active, waiting)
        if not self.live:
            print(overall, file=self.stream, flush=True)
            return
        width = shutil.get_terminal_size().columns - 1
        lines = [*(running_line(run, width) for run in active), overall[:width]]
        self._clear()
        print("\n".join(lines), file=self.stream, flush=True)
        self._drawn = len(lines)

    def close(self) -> None:
        """Take the block away; the lines above stay."""
        self._clear()

    def remaining(self, active: Sequence[Watched]) -> float:
        """Seconds until the end: as expected before, at the pace of the runs that ended here."""
        done = {run.spec.key: share_done(run) for run in active}
        left = [seconds * (1 - done.get(key, 0.0)) for key, seconds in self._expected.items()]
        pace = self._took / self._foreseen if self._foreseen else 1.0
        return pace * max([sum(left) / self.jobs, *left])

    def _overall(self, active: Sequence[Watched], waiting: int) -> str:
        parts = [f"{self.ended}/{self.total} ended", f"{len(active)} running"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{waiting} in another process"] if waiting else []
        return ", ".join([*parts, f"about {duration(self.remaining(active))} left"])

    def _clear(self) -> None:
        if self._drawn:
            self.stream.write(f"\x1b[{self._drawn}F\x1b[J")
            self._drawn = 0
