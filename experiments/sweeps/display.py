"""What a person sees while runs go on: a line for each and one for all of them."""
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Protocol, TextIO

from experiments.sweeps.execution import Outcome, read_progress
from experiments.sweeps.specification import RunSpec
from experiments.words import counted

_BAR, _SHORT_BAR, _NARROW = 20, 8, 110  # columns


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
    """How much of a run is behind it, by tasks and epochs (steps per epoch are not known)."""
    noted, args = read_progress(active.spec), active.spec.args
    epochs: int = getattr(args, "n_epochs", None) or 1
    within: float = min(noted.get("epoch", 0) / epochs, 1.0)
    task: int = noted.get("task", 0)
    return min((task + within) / active.spec.n_tasks, 1.0)


def running_line(active: Watched, width: int) -> str:
    """`er seed 0  [####      ]  task 3/5 epoch 2/5 step 12  81.2 %  12 s`; less when narrow."""
    noted, epochs = read_progress(active.spec), getattr(active.spec.args, "n_epochs", None)
    length = _BAR if width >= _NARROW else _SHORT_BAR
    filled = round(length * share_done(active))
    parts = [f"[{'#' * filled}{' ' * (length - filled)}]", "" if noted else "starting"]
    if noted:
        parts[1] = f"task {noted['task'] + 1}/{active.spec.n_tasks}"
        if epochs != 1:
            parts[1] += f" epoch {noted['epoch'] + 1}/{epochs or '?'}"
        if width >= _NARROW:
            parts[1] += f" step {noted['batch']}"
        if noted.get("accuracy") is not None:
            parts.append(f"{noted['accuracy']:.1f} %")
    right = "  ".join([*parts, duration(time.time() - active.started)])
    room = max(10, width - len(right) - 2)
    return f"{squeezed(active.spec.label, room):<{room}}  {right}"[:width]


def squeezed(text: str, room: int) -> str:
    """Cut in the middle: a run's label begins with the method and ends with the seed."""
    if len(text) <= room:
        return text
    begin = (room - 1) // 2
    return f"{text[:begin]}…{text[len(text) - (room - 1 - begin):]}"


def ending_line(number: int, total: int, label: str, outcome: Outcome) -> str:
    """`[3/12] er seed 0: class-il 81.20, task-il 97.10 (12 s)`."""
    said = {"failed": "failed", "stopped": "stopped, checkpoint kept",
            "busy": "done by another process"}.get(outcome.state, "")
    if outcome.state == "failed" and not outcome.new:
        said = f"cannot run: {outcome.words}"
    if outcome.run is not None:
        said = ", ".join(f"{name} {value:.2f}" for name, value in outcome.run.accuracy.items())
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
        self._seen: dict[str, list[tuple[float, float]]] = {}  # (when, share): first and last
        self._drawn, self._last, self._every = 0, time.time(), every

    def ending(self, spec: RunSpec, outcome: Outcome) -> None:
        """Say how a run ended."""
        self.ended += 1
        self.failed += outcome.state == "failed"
        foreseen = self._expected.pop(spec.key, 0.0)
        self._seen.pop(spec.key, None)
        if outcome.state == "finished" and outcome.new and outcome.run is not None:
            # A resumed run took longer than its last part; its result knows of the others.
            self._took += max(outcome.seconds, outcome.run.seconds or 0.0)
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
        self._note_progress(active, now)
        overall = self._overall(active, waiting)
        if not self.live:
            print(overall, file=self.stream, flush=True)
            return
        width, height = shutil.get_terminal_size()
        width, room = width - 1, max(0, height - 3)  # what scrolled away cannot be redrawn
        more = [f"... and {len(active) - room} more"] if len(active) > room else []
        lines = [*(running_line(run, width) for run in active[:room]), *more, overall[:width]]
        self._clear()
        print("\n".join(lines), file=self.stream, flush=True)
        self._drawn = len(lines)

    def saving(self) -> None:
        """Say, after a first Ctrl-C, what goes on and what a second one does."""
        self._say("Stopping: the runs save their checkpoints, those in an evaluation after it; "
                  "a second signal ends them at once.")

    def killed(self, label: str, signal_number: int, left: int) -> None:
        """Say that a run was ended from outside and is taken up again."""
        self._say(f"{label} was killed by signal {signal_number} and goes on from its last "
                  f"checkpoint ({counted(left, 'more try', 'more tries')} if need be).")

    def _say(self, text: str) -> None:
        self._clear()
        print(text, file=self.stream, flush=True)

    def close(self) -> None:
        """Take the block away; the lines above stay."""
        self._clear()

    def remaining(self, active: Sequence[Watched]) -> float:
        """Seconds until the end: as expected before, at the pace that was seen here so far."""
        done = {run.spec.key: share_done(run) for run in active}
        left = [seconds * (1 - done.get(key, 0.0)) for key, seconds in self._expected.items()]
        took, foreseen = self._took, self._foreseen
        for key, ((began, first), (now, share)) in self._seen.items():
            took += now - began
            foreseen += (share - first) * self._expected.get(key, 0.0)
        return (took / foreseen if foreseen else 1.0) * max([sum(left) / self.jobs, *left])

    def _note_progress(self, active: Sequence[Watched], now: float) -> None:
        """When a run was first seen at work, and when it last got on; it may have been resumed."""
        for run in active:
            if read_progress(run.spec):
                at = (now, share_done(run))
                seen = self._seen.setdefault(run.spec.key, [at, at])
                if at[1] > seen[1][1]:
                    seen[1] = at

    def _overall(self, active: Sequence[Watched], waiting: int) -> str:
        parts = [f"{self.ended}/{self.total} ended", f"{len(active)} running"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{waiting} in another process"] if waiting else []
        return ", ".join([*parts, f"about {duration(self.remaining(active))} left"])

    def _clear(self) -> None:
        if self._drawn:
            self.stream.write(f"\x1b[{self._drawn}F\x1b[J")
            self._drawn = 0
