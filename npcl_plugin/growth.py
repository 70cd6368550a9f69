"""How a neural process grows, on random features: time and memory, each as a ratio to the first.

A step is the training pass of targets spread over all tasks, its loss and backwards; an answer is
the encoding of a context and a batch under every head.
"""
import ctypes
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

N_FEATURES, TARGETS, DRAWS = 100, 256, 50
SIZES: dict[str, tuple[int, ...]] = {
    "buffer": (50, 200, 500, 2000, 5000), "tasks": (2, 5, 20, 100),
    "classes": (10, 100, 1000), "draws": (1, 10, 50, 200)}


class Point(NamedTuple):
    """One size of something, and its cost ÷ the cost of the first size."""

    what: str  # "tasks, step"
    size: int
    time: float
    memory: float


def network(n_tasks: int, n_classes: int) -> Any:
    """NPCL's network in domain-IL, on features."""
    from torch import nn

    from npcl_plugin.kernels.build import available
    from npcl_plugin.network import NPNetwork
    from npcl_plugin.plan import Plan

    class Features(nn.Module):
        """A backbone that passes its input on."""

        def __init__(self) -> None:
            super().__init__()
            self.classifier = nn.Linear(N_FEATURES, n_classes)

        def forward(self, x: Any, returnt: str = "out") -> Any:
            """(B, F) -> (B, F)."""
            return x

    net = NPNetwork(Features())
    net.configure(Plan(n_tasks=n_tasks, n_classes=n_classes, depth=0,
                       n_attention_heads=2, compiled=available("auto")))
    net.n_heads.fill_(n_tasks)
    return net


def samples(count: int, n_tasks: int, n_classes: int) -> Any:
    """Random features with labels, every task in turn."""
    import torch

    from npcl_plugin.context import Context

    return Context(torch.randn(count, N_FEATURES), torch.randint(n_classes, (count,)),
                   torch.arange(count) % n_tasks)


def step(tasks: int = 5, classes: int = 10, draws: int = DRAWS) -> Callable[[], Any]:
    """A training step of the neural process alone."""
    import torch

    from npcl_plugin import objective
    from npcl_plugin.plan import Draws

    net, (x, labels, of) = network(tasks, classes), samples(TARGETS, tasks, classes)
    context = torch.arange(max(tasks, TARGETS // 8))

    def work() -> None:
        out = net.training_pass(x, labels, of, context=context, draws=Draws(draws))
        (out.logits.cross_entropy(labels) + objective.task_divergence(
            out.task_posterior, out.task_prior, out.cells, "mean")).backward()
        net.zero_grad()

    return work


def answer(buffer: int = 200, tasks: int = 5, classes: int = 10) -> Callable[[], Any]:
    """Encoding a context and answering a batch by the rule of least entropy."""
    import torch

    from npcl_plugin.inference import prepare, probabilities
    from npcl_plugin.plan import Draws

    net, x = network(tasks, classes), samples(TARGETS, tasks, classes).x
    context = samples(buffer, tasks, classes)

    @torch.no_grad()
    def work() -> None:
        probabilities(net, prepare(net, context, Draws(10), seed=0), "entropy", x)

    return work


def cost(work: Callable[[], Any], repeats: int) -> float:
    """Median CPU seconds."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def peak(work: Callable[[], Any]) -> float:
    """Megabytes that a process of its own takes at most for it, on top of what it starts with."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writer, str(grown(work)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as file:
        return max(float(file.read() or "nan") / 1024, 0.1)


def grown(work: Callable[[], Any]) -> int:
    """Kilobytes by which the peak of this process rises; freed memory is given back before."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from now on
    before = status("VmRSS")
    work()
    return status("VmHWM") - before


def status(field: str) -> int:
    """A number that Linux tells about this process."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def growth(repeats: int, sizes: dict[str, tuple[int, ...]] | None = None) -> list[Point]:
    """Costs of growing sizes."""
    import torch

    torch.set_num_threads(1)
    points = []
    for axis, kinds in (("buffer", (answer,)), ("tasks", (step, answer)),
                        ("classes", (step, answer)), ("draws", (step,))):
        for kind in kinds:
            counts = (sizes or SIZES)[axis]
            works = [kind(**{axis: size}) for size in counts]
            costs = [(cost(work, repeats), peak(work)) for work in works]
            points += [Point(f"{axis}, {kind.__name__}", size, seconds / costs[0][0],
                             megabytes / costs[0][1])
                       for size, (seconds, megabytes) in zip(counts, costs, strict=True)]
    return points


def print_growth(points: list[Point]) -> None:
    """One line for each size; a cost that grew faster than the size is marked."""
    print(f"{'the neural process alone ÷ its first size':<42} {'time':>7} {'memory':>7}")
    first: dict[str, int] = {}
    for point in points:
        linear = point.size / first.setdefault(point.what, point.size)
        faster = "  faster than linear" if max(point.time, point.memory) > linear > 1 else ""
        print(f"{point.what:<24} {point.size:>17} {point.time:>7.2f} {point.memory:>7.2f}{faster}")
