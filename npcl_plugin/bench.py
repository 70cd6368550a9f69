"""`bench.py npcl`: what a neural process costs beside ER, and how that grows.

Steps of both methods alternate and CPU time is counted, so other work on the machine disturbs
little. An evaluation is the context (once) plus the images; both parts are timed and put
together for a test set of `--images`.
"""
import statistics
import time

MLP, RESNET = "perm-mnist", "seq-cifar10"


def alternate(pair, repeats, warmup=2):
    """CPU seconds of two functions called in turns, as two lists."""
    seconds = ([], [])
    for i in range(repeats + warmup):
        for kept, function in zip(seconds, pair, strict=True):
            start = time.process_time()
            function()
            if i >= warmup:
                kept.append(time.process_time() - start)
    return seconds


def filled(build, model, dataset, options, buffer, tasks, *more):
    """A method with a full buffer of samples spread over `tasks`, and its training batches."""
    import torch

    method, benchmark, loader = build(model, dataset, options.base_path, "--buffer_size",
                                      str(buffer), *more)
    inputs, labels, raw = next(iter(loader))[:3]
    rows = torch.arange(buffer) % len(raw)
    extra = {} if model == "er" else {"task_labels": torch.arange(buffer) % tasks}
    method.buffer.add_data(examples=raw[rows], labels=labels[rows], **extra)
    if model != "er":
        method.net.n_heads.fill_(tasks)
        method.net.memory.recorded[:max(tasks - 1, 0)] = True
        method._current_task = tasks - 1
    return method, (inputs, labels, raw)


def step_ratio(build, dataset, options, repeats, *more, buffer=200, tasks=5):
    """Training step of NPCL ÷ ER."""
    er, batch = filled(build, "er", dataset, options, buffer, 1)
    npcl, _ = filled(build, "npcl", dataset, options, buffer, tasks, *more)
    times = alternate([lambda: er.observe(*batch), lambda: npcl.observe(*batch)], repeats)
    # Neighbours in time see the same clock rate, so their ratio drifts less than two medians.
    return statistics.median(b / a for a, b in zip(*times, strict=True))


def evaluation_ratio(build, dataset, options, repeats, *more, buffer=200, tasks=5):
    """Evaluation of `--images` images by NPCL, context included, ÷ by ER."""
    import torch

    er, (images, _, _) = filled(build, "er", dataset, options, buffer, 1)
    npcl, _ = filled(build, "npcl", dataset, options, buffer, tasks, *more)
    with torch.no_grad():
        er.eval(), npcl.eval()
        start = time.process_time()
        npcl.predictor.prepared()
        context = time.process_time() - start
        times = alternate([lambda: er(images), lambda: npcl(images)], repeats)
    batches = options.images / len(images)
    return statistics.median((context + batches * b) / (batches * a)
                             for a, b in zip(*times, strict=True))


def bench_npcl(build, options):
    """Print and return all ratios; `build` makes a method in its first task."""
    few, many = max(options.steps // 60, 3), max(options.steps // 2, 10)
    rows = [
        ("evaluation, resnet18, buffer 200", 1.2,
         evaluation_ratio(build, RESNET, options, few)),
        ("evaluation, resnet18, buffer 2000", 1.3,
         evaluation_ratio(build, RESNET, options, few, buffer=2000)),
        ("training step, resnet18, N = 50", 1.5, step_ratio(build, RESNET, options, few)),
        ("training step, MLP, N = 50", 6.0, step_ratio(build, MLP, options, many)),
    ]
    for buffer in (200, 1000, 5000):
        rows.append((f"evaluation, MLP, buffer {buffer}", None,
                     evaluation_ratio(build, MLP, options, many, buffer=buffer)))
    for tasks in (1, 5, 20):
        rows.append((f"evaluation, MLP, {tasks} tasks", None,
                     evaluation_ratio(build, MLP, options, many, tasks=tasks)))
        rows.append((f"training step, MLP, {tasks} tasks", None,
                     step_ratio(build, MLP, options, many, tasks=tasks)))
    for draws in (1, 10, 50, 100):
        rows.append((f"training step, MLP, N = {draws}", None,
                     step_ratio(build, MLP, options, many, "--n_global", str(draws))))
    print(f"{'NPCL ÷ ER':<36} {'ratio':>7} {'budget':>7}")
    for name, budget, ratio in rows:
        print(f"{name:<36} {ratio:>7.2f} {'' if budget is None else f'{budget:.1f}':>7}")
    return [{"what": name, "budget": budget, "ratio": ratio} for name, budget, ratio in rows]
