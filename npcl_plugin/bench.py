"""`mammoth-bench npcl`: what a neural process costs beside ER, and how that grows.

Steps of both methods alternate and CPU time is counted, so other work on the machine disturbs
little. An evaluation is the context (once) plus the images; both parts are timed and put
together for a test set of `--images`.
"""
import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

MLP, RESNET = "perm-mnist", "seq-cifar10"


def alternate(pair: Sequence[Callable[[], Any]], repeats: int,
              warmup: int = 2) -> tuple[list[float], list[float]]:
    """CPU seconds of two functions called in turns, as two lists."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for i in range(repeats + warmup):
        for kept, function in zip(seconds, pair, strict=True):
            start = time.process_time()
            function()
            if i >= warmup:
                kept.append(time.process_time() - start)
    return seconds


def filled(model: str, dataset: str, options: Namespace, buffer: int, tasks: int,
           *more: str) -> tuple[Any, Any]:
    """A method with a full buffer of samples spread over `tasks`, and its training batches."""
    import torch

    from experiments.commands.bench import build

    method, benchmark, loader = build(model, dataset, options.base_path, "--buffer_size",
                                      str(buffer), *more)
    inputs, labels, raw = next(iter(loader))[:3]
    rows = torch.arange(buffer) % len(raw)
    extra = {} if model == "er" else {"task_labels": torch.arange(buffer) % tasks}
    if model != "er" and method.args.dark_replay:
        extra["logits"] = torch.zeros(buffer, method.N_CLASSES)
    method.buffer.add_data(examples=raw[rows], labels=labels[rows], **extra)
    if model != "er":
        method.net.n_heads.fill_(tasks)
        method.net.memory.recorded[:max(tasks - 1, 0)] = True
        method._current_task = tasks - 1
    return method, (inputs, labels, raw)


def step_ratio(dataset: str, options: Namespace, repeats: int, *more: str, buffer: int = 200,
               tasks: int = 5) -> float:
    """Training step of NPCL ÷ ER."""
    er, batch = filled("er", dataset, options, buffer, 1)
    npcl, _ = filled("npcl", dataset, options, buffer, tasks, *more)
    times = alternate([lambda: er.observe(*batch), lambda: npcl.observe(*batch)], repeats)
    # Neighbours in time see the same clock rate, so their ratio drifts less than two medians.
    return statistics.median(b / a for a, b in zip(*times, strict=True))


def evaluation_ratio(dataset: str, options: Namespace, repeats: int, *more: str, buffer: int = 200,
                     tasks: int = 5) -> float:
    """Evaluation of `--images` images by NPCL, context included, ÷ by ER."""
    import torch

    er, (images, _, _) = filled("er", dataset, options, buffer, 1)
    npcl, _ = filled("npcl", dataset, options, buffer, tasks, *more)
    with torch.no_grad():
        er.eval(), npcl.eval()
        start = time.process_time()
        npcl.predictor.prepared()
        context = time.process_time() - start
        times = alternate([lambda: er(images), lambda: npcl(images)], repeats)
    batches: float = options.images / len(images)
    return statistics.median((context + batches * b) / (batches * a)
                             for a, b in zip(*times, strict=True))


def bench_npcl(options: Namespace) -> list[dict[str, Any]]:
    """Print and return all ratios."""
    few, many = max(options.steps // 60, 3), max(options.steps // 2, 10)
    rows: list[tuple[str, float | None, float]] = [
        ("evaluation, resnet18, buffer 200", 1.2,
         evaluation_ratio(RESNET, options, few)),
        ("evaluation, resnet18, buffer 2000", 1.3,
         evaluation_ratio(RESNET, options, few, buffer=2000)),
        ("training step, resnet18, N = 50", 1.5, step_ratio(RESNET, options, few)),
        ("training step, MLP, N = 50", 6.0, step_ratio(MLP, options, many)),
    ]
    for buffer in (200, 1000, 5000):
        rows.append((f"evaluation, MLP, buffer {buffer}", None,
                     evaluation_ratio(MLP, options, many, buffer=buffer)))
    for tasks in (1, 5, 20):
        rows.append((f"evaluation, MLP, {tasks} tasks", None,
                     evaluation_ratio(MLP, options, many, tasks=tasks)))
        rows.append((f"training step, MLP, {tasks} tasks", None,
                     step_ratio(MLP, options, many, tasks=tasks)))
    for draws in (1, 10, 50, 100):
        rows.append((f"training step, MLP, N = {draws}", None,
                     step_ratio(MLP, options, many, "--n_global", str(draws))))
    print(f"{'NPCL ÷ ER':<36} {'ratio':>7} {'budget':>7}")
    for name, budget, ratio in rows:
        print(f"{name:<36} {ratio:>7.2f} {'' if budget is None else f'{budget:.1f}':>7}")
    return [{"what": name, "budget": budget, "ratio": ratio} for name, budget, ratio in rows]


def register() -> None:
    """Make `mammoth-bench npcl` and `mammoth-bench upstream` known."""
    from experiments.commands.bench import job
    from npcl_plugin.upstream_bench import bench_upstream

    job("npcl")(bench_npcl)
    job("upstream")(bench_upstream)
