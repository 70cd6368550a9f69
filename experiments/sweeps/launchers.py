"""The places where runs can go: this machine, a Ray cluster, a SLURM cluster."""
import argparse
from collections.abc import Callable
from typing import Protocol

from engine.errors import UsageError
from experiments.sweeps.display import Display
from experiments.sweeps.execution import Outcome, RunPolicy
from experiments.sweeps.local import LocalLauncher
from experiments.sweeps.options import jobs_of
from experiments.sweeps.specification import RunSpec

LAUNCHERS = ("local", "ray", "slurm")
_CLUSTERS, _SLURM = ("ray", "slurm"), ("slurm",)
_PLACES = {"gpus": _CLUSTERS, "mem": _CLUSTERS, "address": ("ray",), "partition": _SLURM,
           "time": _SLURM, "runs_per_job": _SLURM, "detach": _SLURM, "cluster": _SLURM}
_SLURM_JOBS = 64


class Launcher(Protocol):
    """Does runs and reports each as it ends."""

    def run(self, specs: list[RunSpec], display: Display,
            ended: Callable[[RunSpec, Outcome], None]) -> int:
        """Returns the number of the signal that stopped it, 0 otherwise."""
        ...


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Resources of a run on a cluster."""
    group = parser.add_argument_group("clusters (--launcher ray or slurm)")
    group.add_argument("--gpus", type=float, default=0, help="GPUs per run (default 0)")
    group.add_argument("--mem", type=float, help="gigabytes of memory per run")
    group.add_argument("--address",
                       help="ray: the cluster (default: RAY_ADDRESS, else one on this machine)")
    group.add_argument("--partition", help="slurm: the partition")
    group.add_argument("--time", type=int, default=720,
                       help="slurm: minutes until a job is interrupted and requeued (default 720)")
    group.add_argument("--runs_per_job", type=int, default=1,
                       help="slurm: runs that a job does one after another, in one allocation and "
                            "with one import of torch (default 1)")
    group.add_argument("--detach", action="store_true",
                       help="slurm: submit and leave; the same command later shows the results")
    group.add_argument("--cluster", choices=("slurm", "local"), default="slurm",
                       help="slurm: where submitit sends the jobs; local tries it without SLURM")


def refuse_misplaced(options: argparse.Namespace) -> None:
    """Say which arguments the launcher does not know.

    Raises:
        UsageError: naming the first of them, and whose it is.
    """
    usual = argparse.ArgumentParser(add_help=False)
    add_cluster_options(usual)
    for name, places in _PLACES.items():
        if options.launcher not in places and getattr(options, name) != usual.get_default(name):
            raise UsageError(f"--{name} belongs to --launcher {' or '.join(places)}, but this "
                             f"sweep has --launcher {options.launcher}; change it or leave "
                             f"--{name} out.")


def runs_at_a_time(options: argparse.Namespace) -> int:
    """`--jobs`, or what fits: cores of this machine, 64 jobs of a SLURM array.

    A Ray cluster elsewhere has room for as many as it likes; there it matters to the expected
    time only.
    """
    here = jobs_of(options)
    refuse_misplaced(options)
    if not 0 <= options.gpus < 1e6 or not 1 <= options.time < 10 ** 8:
        raise UsageError(f"Expected --gpus to be at least 0 and --time at least 1 minute, but got "
                         f"{options.gpus:g} and {options.time}.")
    if options.runs_per_job < 1:
        raise UsageError(f"Expected --runs_per_job to be at least 1, but got "
                         f"{options.runs_per_job}.")
    if options.mem is not None and not 0 < options.mem < 1e9:
        raise UsageError(f"Expected --mem to be above 0 gigabytes, but got {options.mem:g}.")
    return options.jobs or _SLURM_JOBS if options.launcher == "slurm" else here


def policy_of(options: argparse.Namespace) -> RunPolicy:
    """How runs are looked after, as the options have it."""
    return RunPolicy(options.keep_checkpoints, options.retries, options.cpus)


def make_launcher(options: argparse.Namespace, jobs: int) -> Launcher:
    """The launcher that `--launcher` names.

    Raises:
        UsageError: the package it needs is not installed.
    """
    policy = policy_of(options)
    if options.launcher == "ray":
        from experiments.sweeps.ray import RayLauncher

        return RayLauncher(jobs, options, policy)
    if options.launcher == "slurm":
        from experiments.sweeps.slurm import SlurmLauncher

        return SlurmLauncher(jobs, options, policy)
    return LocalLauncher(jobs, policy)
