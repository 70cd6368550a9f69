"""`bench.py upstream --mammoth PATH`: time per step, evaluation and start-up, there and here.

The same method trains the same benchmark with the same arguments in two processes, one in the
checkout and one in our harness, in turns. Steps and evaluations are processor seconds of one
thread, with data loading (`--num_workers 0`); start-up is the time on the clock from the start
of the process to the end of its first step.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import npcl_plugin.import_hooks
from npcl_plugin import contract
from npcl_plugin.upstream import HERE, LinkError, find_checkout

METHODS = {"er": ("--lr", "0.1"), "der": ("--lr", "0.03", "--alpha", "0.5")}
ROUNDS = 5


class Pair(NamedTuple):
    """A figure of the checkout and ours."""

    there: float
    here: float

    @property
    def ratio(self) -> float:
        """How many times as long it takes there."""
        return self.there / self.here


class Side(NamedTuple):
    """A harness: where it is, what helps its imports, and where it looks for data."""

    folder: Path
    hooks: str
    data: Path


class Worker:
    """A process that trains in one harness; see `upstream_worker.py`."""

    def __init__(self, side: Side, words: list[str], errors: Path) -> None:
        self.side, self.errors = side, errors
        command = [sys.executable, str(HERE / "upstream_worker.py"), str(side.folder), side.hooks,
                   *words, "--base_path", f"{side.data}/"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
                       "MAMMOTH_TEST": "1"}
        with errors.open("w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment,
                                            stdout=subprocess.PIPE, stderr=log, text=True,
                                            cwd=errors.parent)

    def ask(self, job: str, count: int) -> float:
        """The answer to a job.

        Raises:
            RunError: the process ended instead.
        """
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(f"{job} {count}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self.process.wait()
            last = (self.errors.read_text(errors="replace").strip().splitlines() or ["nothing"])[-1]
            raise contract.RunError(f"Training in {self.side.folder} ended: {last}")
        return float(json.loads(answer))

    def close(self) -> None:
        """End the process."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()
        self.process.wait()


def bench_upstream(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Print and return the ratios of every method on every benchmark.

    Raises:
        UsageError: there is no checkout, or no data.
    """
    try:
        checkout = find_checkout(options.mammoth)
    except LinkError as error:
        raise contract.usage_error(str(error)) from error
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        benchmarks = {"perm-mnist": (max(options.steps // ROUNDS, 2), 10),
                      "seq-cifar10": (max(options.steps // 20 // ROUNDS, 1), 1)}
        source = Path(options.base_path).resolve()
        sides = (Side(checkout, npcl_plugin.import_hooks.__file__, data),
                 Side(HERE.parent / "mammoth", "-", source))
        _lay_out(source, data, benchmarks)
        print(f"{'method':<7} {'benchmark':<12} {'what':<12} {'upstream':>10} {'here':>10} "
              f"{'ratio':>7}", flush=True)
        for dataset, (steps, batches) in benchmarks.items():
            for method, extra in METHODS.items():
                words = ["--model", method, "--dataset", dataset, "--buffer_size", "200", *extra,
                         "--num_workers", "0", "--seed", "0", "--non_verbose", "1",
                         "--checkpoint_path", f"{folder}/checkpoints/"]
                for row in _compare(sides, words, Path(folder), steps, batches, options.repeats):
                    row = {"method": method, "benchmark": dataset, **row}
                    rows.append(row)
                    print(_line(row), flush=True)
    print("upstream and here: ms per step, ms per 1000 images, s of start-up; "
          "ratio: upstream ÷ here")
    return rows


def _line(row: dict[str, Any]) -> str:
    return (f"{row['method']:<7} {row['benchmark']:<12} {row['what']:<12} "
            f"{row['upstream']:>10.2f} {row['here']:>10.2f} {row['ratio']:>7.2f}")


def _compare(sides: tuple[Side, Side], words: list[str], folder: Path, steps: int, batches: int,
             repeats: int) -> Iterator[dict[str, Any]]:
    """Start-up, step and evaluation, in turns."""
    starts = [Pair(*(_start(side, words, folder) for side in sides)) for _ in range(repeats)]
    with _workers(sides, words, folder) as (there, here):
        for worker in (there, here):
            worker.ask("step", 2)  # the buffer is filled and everything is warm
        trained, tested = [], []
        for _ in range(ROUNDS):
            trained.append(Pair(there.ask("step", steps), here.ask("step", steps)))
            tested.append(Pair(there.ask("evaluate", batches), here.ask("evaluate", batches)))
    for what, unit, pairs in (("start-up", 1.0, starts), ("step", 1e3, trained),
                              ("evaluation", 1e6, tested)):
        yield {"what": what, "upstream": unit * statistics.median(p.there for p in pairs),
               "here": unit * statistics.median(p.here for p in pairs),
               "ratio": statistics.median(p.ratio for p in pairs)}


def _start(side: Side, words: list[str], folder: Path) -> float:
    """Seconds from the start of a process to the end of its first step."""
    begin = time.perf_counter()
    worker = Worker(side, words, folder / "start.log")
    try:
        worker.ask("step", 1)
        return time.perf_counter() - begin
    finally:
        worker.close()


@contextmanager
def _workers(sides: tuple[Side, Side], words: list[str], folder: Path) -> Iterator[list[Worker]]:
    workers = [Worker(side, words, folder / f"{place}.log") for place, side in enumerate(sides)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.close()


def _lay_out(source: Path, target: Path, benchmarks: dict[str, Any]) -> None:
    """The data that our harness finds, linked to where upstream looks.

    Raises:
        UsageError: some is missing.
    """
    contract.base_path(str(source))
    places = {"perm-mnist": (contract.MNIST, ("MNIST/MyMNIST/raw", "MNIST/MNIST/raw")),
              "seq-cifar10": (contract.CIFAR10, ("CIFAR10/cifar-10-batches-py",))}
    for name in benchmarks:
        files, folders = places[name]
        found = next(iter(contract.locate(files).values())).parent
        for folder in folders:
            (target / folder).parent.mkdir(parents=True, exist_ok=True)
            (target / folder).symlink_to(found)
