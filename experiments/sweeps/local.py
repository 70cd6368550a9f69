"""Runs on this machine, several at a time, until all are done or somebody says stop."""
import functools
import signal
import time
from collections.abc import Callable
from typing import Any

from experiments.sweeps.display import Display
from experiments.sweeps.execution import Active, Outcome, RunPolicy, start
from experiments.sweeps.specification import RunSpec
from experiments.sweeps.warm import prepare, wait_for

_POLL = 0.05
_LOOK_AGAIN = 2.0  # seconds between looks at runs that another process does


class Stop:
    """While entered, remembers the first Ctrl-C, SIGTERM or hang-up; `hard` after a second one."""

    def __init__(self) -> None:
        self.number, self.hard = 0, False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup wants to be left alone
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: Any) -> None:
        self.hard = bool(self.number)
        self.number = self.number or number


class LocalLauncher:
    """Starts main.py `jobs` times at once.

    Args:
        jobs: runs at a time.
    """

    def __init__(self, jobs: int, policy: RunPolicy) -> None:
        self.jobs, self.policy = max(1, jobs), policy
        prepare()

    def run(self, specs: list[RunSpec], display: Display,
            ended: Callable[[RunSpec, Outcome], None]) -> int:
        """Do the runs.

        Args:
            ended: called with each run and its outcome, as they end.

        Returns:
            The number of the signal that stopped it, 0 otherwise.
        """
        queue, looked = list(specs), time.time()
        active: list[Active] = []
        busy: list[RunSpec] = []
        with Stop() as stop:
            while (queue and not stop.number) or active or (busy and not stop.number):
                while queue and len(active) < self.jobs and not stop.number:
                    self._begin(queue.pop(0), active, busy, ended, display)
                if busy and not queue and time.time() - looked > _LOOK_AGAIN:
                    queue, busy, looked = busy, [], time.time()
                    continue
                if stop.number:
                    self._stop(active, stop.hard, display)
                display.update(active, len(busy))
                wait_for([run.child for run in active], _POLL)
                self._reap(active, ended)
        display.close()
        return stop.number

    def _begin(self, spec: RunSpec, active: list[Active], busy: list[RunSpec],
               ended: Callable[[RunSpec, Outcome], None], display: Display) -> None:
        begun = start(spec, self.policy)
        if isinstance(begun, Active):
            begun.killed = functools.partial(display.killed, spec.label)
            active.append(begun)
        elif begun.state == "busy":
            busy.append(spec)
        else:
            ended(spec, begun)

    @staticmethod
    def _reap(active: list[Active], ended: Callable[[RunSpec, Outcome], None]) -> None:
        for run in list(active):
            outcome = run.poll()
            if outcome is not None:
                active.remove(run)
                ended(run.spec, outcome)

    @staticmethod
    def _stop(active: list[Active], hard: bool, display: Display) -> None:
        """Each run is asked once: a second signal would cost it its checkpoint."""
        if active and not any(run.stopping for run in active):
            display.saving()
        for run in active:
            if hard or not run.stopping:
                run.stop(hard)
