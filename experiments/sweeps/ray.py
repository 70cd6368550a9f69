"""Runs on a Ray cluster: each a task, sent again when its worker or node dies."""
import argparse
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from engine.errors import UsageError
from experiments.sweeps.cluster import Job, Remote, StopFile, importable
from experiments.sweeps.display import Display
from experiments.sweeps.execution import Outcome, RunPolicy
from experiments.sweeps.local import Stop
from experiments.sweeps.specification import RunSpec

_GIGABYTE = 1 << 30


def check_reachable(address: str | None, seconds: float = 5) -> None:
    """Ray itself tries for minutes, with many words, before it gives up.

    Raises:
        UsageError: nobody listens at HOST:PORT.
    """
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():  # `auto`, `local`, none: Ray looks for it
        return
    try:
        socket.create_connection((host, int(port)), seconds).close()
    except OSError as error:
        raise UsageError(f"There is no Ray cluster at {address} ({error.strerror or error}); "
                         "start one with `ray start --head`.") from error


class RayLauncher:
    """Sends runs to a Ray cluster, or to one that it starts on this machine.

    Args:
        jobs: runs at a time on a cluster started here; a running cluster decides by itself.
        options: --address, --cpus, --gpus, --mem.

    Raises:
        UsageError: Ray is not installed.
    """

    def __init__(self, jobs: int, options: argparse.Namespace, policy: RunPolicy) -> None:
        try:
            import ray
        except ImportError as error:
            raise UsageError("--launcher ray needs the extra `ray`: pip install ray.") from error
        self.ray, self.jobs, self.options, self.policy = ray, jobs, options, policy

    def run(self, specs: list[RunSpec], display: Display,
            ended: Callable[[RunSpec, Outcome], None]) -> int:
        """Do the runs; as `LocalLauncher.run`."""
        self._connect()
        stop_file = StopFile(specs[0].folders)
        task = self._task(Job(self.policy, stop_file.path))
        waiting = {task.remote(spec): Remote(spec, time.time()) for spec in specs}
        with Stop() as stop:
            asked = False
            while waiting:
                done, _ = self.ray.wait(list(waiting), timeout=0.3)
                for reference in done:
                    ended(waiting.pop(reference).spec, self._outcome(reference))
                if stop.number and not asked:
                    asked = True
                    stop_file.ask()
                    display.saving()
                if stop.hard:
                    break
                display.update([run for run in waiting.values() if run.visible])
        display.close()
        stop_file.clear()
        self.ray.shutdown()
        return stop.number

    def _connect(self) -> None:
        address = self.options.address or os.environ.get("RAY_ADDRESS")
        check_reachable(address)
        where = {"address": address} if address else {"num_cpus": self.jobs * self.options.cpus}
        try:
            self.ray.init(**where, log_to_driver=False, logging_level="ERROR",
                          runtime_env={"env_vars": importable()}, ignore_reinit_error=True)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UsageError(f"There is no Ray cluster at {address}: "
                             f"{str(error).splitlines()[0]}") from error

    def _task(self, job: Job) -> Any:
        """`job` as a remote function: a lost worker costs a retry, a lost run does not."""
        options = {"num_cpus": self.options.cpus, "num_gpus": self.options.gpus,
                   "max_retries": self.policy.retries}
        if self.options.mem:
            options["memory"] = int(self.options.mem * _GIGABYTE)
        return self.ray.remote(**options)(lambda spec: job(spec))

    def _outcome(self, reference: Any) -> Outcome:
        try:
            outcome: Outcome = self.ray.get(reference)
            return outcome
        except self.ray.exceptions.RayError as error:
            words = str(error).strip().splitlines() or [type(error).__name__]
            return Outcome("failed", words=f"Ray: {words[-1]}")
