"""Runs as a SLURM job array through submitit; a job that must go saves its run and is requeued."""
import argparse
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.errors import UsageError
from experiments.sweeps.cluster import Job, Remote, StopFile, importable
from experiments.sweeps.display import Display
from experiments.sweeps.execution import Outcome, RunPolicy, look_up
from experiments.sweeps.local import Stop
from experiments.sweeps.specification import RunSpec

_ARRAY = 1000  # jobs per array: SLURM's MaxArraySize is 1001 unless the site changed it
_LOOK_AGAIN = 10.0
_WARNING = 300  # seconds before the time limit in which a run saves itself, if in an evaluation
_REQUEUES = 1000  # a long run may need the queue's time limit many times over


def _queued(arrays: list[str]) -> set[str] | None:
    """The array tasks that SLURM still has; None when it does not answer."""
    found = subprocess.run(["squeue", "--noheader", "--array", "--format=%i", "--jobs",
                            ",".join(arrays)], capture_output=True, text=True)
    if found.returncode and "Invalid job id" not in found.stderr:
        return None
    return set(found.stdout.split())


def _arrays(jobs: list[Any]) -> list[str]:
    """The ids of the arrays that jobs such as 17_3 belong to."""
    return sorted({str(job.job_id).split("_")[0] for job in jobs})


class SlurmJob:
    """Runs in a SLURM job, one after another. submitit calls `checkpoint` before an interruption.

    Args:
        stop_file: where the sweep asks its jobs to end.
        done: outcomes of the first runs, from before the job was requeued.
    """

    def __init__(self, policy: RunPolicy, stop_file: Path, done: tuple[Outcome, ...] = ()) -> None:
        self.job, self.done = Job(policy, stop_file), list(done)

    def __call__(self, specs: Sequence[RunSpec]) -> list[Outcome]:
        """Do the runs; returns their outcomes."""
        for spec in specs[len(self.done):]:
            self.done.append(self.job(spec))
        return self.done

    def checkpoint(self, specs: Sequence[RunSpec]) -> Any:
        """Save the run and say how to go on: with a fresh job of the same."""
        from submitit.helpers import DelayedSubmission

        self.job.pause()
        return DelayedSubmission(
            SlurmJob(self.job.policy, self.job.stop_file, tuple(self.done)), specs)


class SlurmLauncher:
    """Submits job arrays and follows them.

    Args:
        jobs: array tasks at a time.
        options: --partition, --time, --mem, --cpus, --gpus, --cluster, --detach.

    Raises:
        UsageError: submitit is not installed, or SLURM has no such resources.
    """

    def __init__(self, jobs: int, options: argparse.Namespace, policy: RunPolicy) -> None:
        if options.gpus != int(options.gpus):
            raise UsageError(f"SLURM gives whole GPUs, but got --gpus {options.gpus:g}; give 1, or "
                             "share one with --launcher ray.")
        try:
            import submitit
        except ImportError as error:
            raise UsageError("--launcher slurm needs the extra `slurm`: pip install "
                             "submitit.") from error
        self.submitit, self.options, self.policy = submitit, options, policy
        self.parallel = jobs
        self._stopping = False
        self._gone: set[Any] = set()
        self._looked = time.time()

    def run(self, specs: list[RunSpec], display: Display,
            ended: Callable[[RunSpec, Outcome], None]) -> int:
        """Submit the runs and wait for them; as `LocalLauncher.run`."""
        stop_file = StopFile(specs[0].folders)
        size = self.options.runs_per_job
        parts = [specs[i:i + size] for i in range(0, len(specs), size)]
        jobs = self._submit(parts, SlurmJob(self.policy, stop_file.path))
        print(f"Submitted {len(jobs)} jobs: {jobs[0].job_id} to {jobs[-1].job_id}; logs in "
              f"{specs[0].folders.of_sweep('slurm', '')}.", flush=True)
        if self.options.detach:
            return 0
        waiting = {job: [Remote(spec, time.time()) for spec in part]
                   for job, part in zip(jobs, parts, strict=True)}
        with Stop() as stop:
            while waiting and not stop.hard:
                for job in self._ended(list(waiting)):
                    runs = [run.spec for run in waiting.pop(job)]
                    for spec, outcome in zip(runs, self._outcomes(job, runs), strict=True):
                        ended(spec, outcome)
                if stop.number and not self._stopping:
                    self._call_off(list(waiting), stop_file, display)
                display.update([run for part in waiting.values() for run in part if run.visible])
                time.sleep(0.5)
            if stop.hard and not self._stopping:  # both signals came while we slept
                self._call_off(list(waiting), stop_file, display)
        display.close()
        if not waiting:  # else it stays, for jobs that we do not wait for any more
            stop_file.clear()
        return stop.number

    def _call_off(self, jobs: list[Any], stop_file: StopFile, display: Display) -> None:
        """Jobs that run save their runs; those that have not begun have nothing to save."""
        self._stopping = True
        stop_file.ask()
        display.saving()
        if self.options.cluster == "slurm":
            subprocess.run(["scancel", "--state=PENDING", *_arrays(jobs)], capture_output=True)

    def _submit(self, parts: list[list[RunSpec]], job: SlurmJob) -> list[Any]:
        """The arrays; the jobs' Python finds our package through the environment it inherits."""
        arrays = [parts[i:i + _ARRAY] for i in range(0, len(parts), _ARRAY)]
        os.environ.update(importable())
        folder = parts[0][0].folders.of_sweep("slurm", "%j")
        try:
            executor = self.submitit.AutoExecutor(folder=folder, cluster=self.options.cluster,
                                                  slurm_max_num_timeout=_REQUEUES)
            executor.update_parameters(**self._resources(len(arrays)))
            return [one for array in arrays for one in executor.map_array(job, array)]
        except (RuntimeError, FileNotFoundError, self.submitit.core.utils.FailedJobError) as error:
            raise UsageError(f"SLURM did not take the jobs: {str(error).strip().splitlines()[-1]}"
                             ) from error

    def _resources(self, arrays: int) -> dict[str, Any]:
        """What a job needs, as submitit calls it; the arrays share the jobs at a time."""
        options = self.options
        wanted: dict[str, Any] = {
            "name": "sweep", "timeout_min": options.time, "cpus_per_task": options.cpus,
            "slurm_array_parallelism": max(1, self.parallel // arrays),
            "slurm_signal_delay_s": min(_WARNING, 60 * options.time // 4)}
        if options.gpus:
            wanted["gpus_per_node"] = int(options.gpus)
        if options.mem:
            wanted["mem_gb"] = options.mem
        if options.partition:
            wanted["slurm_partition"] = options.partition
        return wanted

    def _ended(self, jobs: list[Any]) -> list[Any]:
        """Jobs that left a result, or left the queue without one at two looks in a row.

        `squeue` is asked because `sacct`, which submitit asks, needs an accounting database.
        """
        done = [job for job in jobs if job.paths.result_pickle.exists()]
        if self.options.cluster == "local":
            return [job for job in jobs if job.done()]
        if time.time() - self._looked < _LOOK_AGAIN:
            return done
        self._looked = time.time()
        queue = _queued(_arrays(jobs))
        gone = {job for job in jobs if queue is not None and str(job.job_id) not in queue}
        lost = [job for job in self._gone & gone if not job.paths.result_pickle.exists()]
        self._gone = gone
        return [*done, *lost]

    def _outcomes(self, job: Any, specs: Sequence[RunSpec]) -> list[Outcome]:
        """What the job returned; after one that did not, what its runs left."""
        found = self._returned(job)
        if isinstance(found, Outcome):
            return [look_up(spec) or found for spec in specs]
        return found

    def _returned(self, job: Any) -> list[Outcome] | Outcome:
        """The job's outcomes; a job that died without a word is named with its own log."""
        if not job.paths.result_pickle.exists() and self._stopping:
            return Outcome("stopped")
        if not job.paths.result_pickle.exists() and self.options.cluster != "local":
            return Outcome("failed", words=f"SLURM job {job.job_id} ended without a result (see "
                                           f"{job.paths.stderr})")
        try:
            outcomes: list[Outcome] = job.result()
            return outcomes
        except self.submitit.core.utils.UncompletedJobError as error:
            words = str(error).strip().splitlines() or [type(error).__name__]
            return Outcome("failed", words=f"SLURM job {job.job_id}: {words[0]} (see "
                                           f"{job.paths.stderr})")
        except self.submitit.core.utils.FailedJobError as error:
            return Outcome("failed", words=f"SLURM job {job.job_id}: "
                                           f"{str(error).strip().splitlines()[-1]}")
