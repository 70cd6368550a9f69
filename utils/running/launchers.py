"""The places where runs can go: this machine, a Ray cluster, a SLURM cluster."""
import argparse
from typing import Any

from running.local import LocalLauncher

LAUNCHERS = ("local", "ray", "slurm")


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Resources of a run on a cluster."""
    group = parser.add_argument_group("clusters (--launcher ray or slurm)")
    group.add_argument("--cpus", type=int, default=1, help="cores a run (default 1)")
    group.add_argument("--gpus", type=float, default=0, help="GPUs a run (default 0)")
    group.add_argument("--mem", type=float, help="gigabytes of memory a run")
    group.add_argument("--partition", help="slurm: the partition")
    group.add_argument("--time", type=int, default=720,
                       help="slurm: minutes until a job is interrupted and requeued (default 720)")
    group.add_argument("--address",
                       help="ray: the cluster (default: RAY_ADDRESS, else one on this machine)")


def make_launcher(options: argparse.Namespace, jobs: int) -> Any:
    """The launcher that `--launcher` names.

    Raises:
        UsageError: the package it needs is not installed.
    """
    common = {"keep_checkpoints": options.keep_checkpoints, "retries": options.retries}
    if options.launcher == "ray":
        from running.on_ray import RayLauncher

        return RayLauncher(jobs, options, **common)
    if options.launcher == "slurm":
        from running.on_slurm import SlurmLauncher

        return SlurmLauncher(jobs, options, **common)
    return LocalLauncher(jobs, **common)
