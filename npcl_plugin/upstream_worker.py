"""One method on one benchmark in either harness, timed on demand.

    python upstream_worker.py HARNESS HOOKS WORDS...

HARNESS is a folder with main.py, HOOKS a file whose `help_imports` lets its imports work, or
`-`. Only what both harnesses share is used. Each line of stdin is a job (`step 50`, `evaluate
10`), each line of the answer a JSON number: processor seconds per step, or per image.
"""
import itertools
import json
import os
import runpy
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Trainer:
    """A method in the first task of its benchmark.

    Args:
        harness: the folder with main.py, already first on the path.
        words: the command line.
    """

    def __init__(self, harness: Path, words: list[str]) -> None:
        sys.argv = [str(harness / "main.py"), *words]
        import torch

        import main

        self.torch = torch
        self.method, self.benchmark, self.args = main.initialize(main.parse_args(words))
        torch.set_num_threads(1)  # upstream's main.py asks for two
        self.method.net.to(self.method.device)
        self.method.net.train()
        loader, _ = self.benchmark.get_data_loaders()
        self.method.meta_begin_task(self.benchmark)
        self.batches: Iterator[Any] = itertools.chain.from_iterable(itertools.repeat(loader))

    def step(self, count: int) -> float:
        """Median processor seconds of a training step, data included."""
        seconds = []
        for _ in range(count):
            start = time.process_time()
            images, labels, raw = next(self.batches)[:3]
            self.method.meta_observe(images, labels, raw, epoch=0)
            seconds.append(time.process_time() - start)
        return statistics.median(seconds)

    def evaluate(self, count: int) -> float:
        """Processor seconds per image over `count` test batches, data included."""
        images = 0
        self.method.net.eval()
        start = time.process_time()
        with self.torch.no_grad():
            for batch in itertools.islice(self.benchmark.test_loaders[-1], count):
                self.method(batch[0])
                images += len(batch[0])
        seconds = time.process_time() - start
        self.method.net.train()
        return seconds / images


def _accept_repacked_data() -> None:
    """Let torchvision read CIFAR files that hold the right arrays in another pickle.

    Our harness has read them before; for times, the checksum of the file does not matter.
    """
    from torchvision.datasets import cifar

    cifar.check_integrity = lambda path, md5=None: Path(path).is_file()


def serve(harness: Path, hooks: str, words: list[str]) -> None:
    """Answer jobs until stdin ends; everything else that is printed goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path[:] = [str(harness), *(p for p in sys.path if Path(p) != Path(__file__).parent)]
    if hooks != "-":
        runpy.run_path(hooks)["help_imports"](harness)
        _accept_repacked_data()
    trainer = Trainer(harness, words)
    for line in sys.stdin:
        job, count = line.split()
        print(json.dumps(getattr(trainer, job)(int(count))), file=answers, flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
