"""`mammoth-bench npcl`: what the neural processes cost beside ER, and how that grows.

Steps of all methods alternate and CPU time is counted, so other work on the machine disturbs
little. An evaluation is the context (once) plus the images; both parts are timed and put
together for a test set of `--images`. `--run` adds a whole run of the domain-IL benchmark, which
takes minutes.
"""
import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args

Before = Literal["a task", "a checkpoint", "nothing"]
MLP, RESNET = "perm-mnist", "seq-cifar10"
RECORDED = ("--step_graphs", "1")  # as in a long run after its first steps
PLAIN = ("--step_graphs", "0")
NOT_COMPILED = (*RECORDED, "--kernels", "torch")
_RUNS = 3
ENOUGH_IMAGES = 10_000  # the context is encoded once, which few images do not outweigh
STEP_BUDGETS = {"npcl": 3.0, "st_npcl": 3.0, "npcl_plus": 3.0, "anp": 2.5, "np": 2.5}


class Row(NamedTuple):
    """A measured ratio."""

    what: str
    ratio: float
    budget: float | None = None


def alternate(functions: Mapping[str, Callable[[], Any]], repeats: int,
              warmup: int = 2) -> dict[str, list[float]]:
    """CPU seconds of functions called in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for i in range(repeats + warmup):
        for name, function in functions.items():
            start = time.process_time()
            function()
            if i >= warmup:
                seconds[name].append(time.process_time() - start)
    return seconds


def ratio(seconds: Mapping[str, list[float]], name: str) -> float:
    """A function's time ÷ ER's."""
    # Neighbours in time see the same clock rate, so their ratio drifts less than two medians.
    return statistics.median(b / a for a, b in zip(seconds["er"], seconds[name], strict=True))


def filled(model: str, dataset: str, options: Namespace, buffer: int, tasks: int,
           *more: str) -> tuple[Any, Any]:
    """A method with a full buffer of samples spread over `tasks`, and its training batches."""
    import torch

    from experiments.commands.bench import build

    method, benchmark, loader = build(model, dataset, options.base_path, "--buffer_size",
                                      str(buffer), *more)
    method.bench_dataset, tasks = benchmark, min(tasks, benchmark.N_TASKS)
    inputs, labels, raw = next(iter(loader))[:3]
    rows = torch.arange(buffer) % len(raw)
    extra = {} if model == "er" else {"task_labels": torch.arange(buffer) % tasks}
    if model != "er" and method.args.dark_replay:
        extra["logits"] = torch.zeros(buffer, method.N_CLASSES)
    method.buffer.add_data(examples=raw[rows], labels=labels[rows], **extra)
    if model != "er" and method.HAS_TASK:
        method.net.n_heads.fill_(tasks)
        method.net.memory.recorded[:max(tasks - 1, 0)] = True
        method._current_task = tasks - 1
    return method, (inputs, labels, raw)


def family(dataset: str, options: Namespace, models: list[str], *more: str, buffer: int = 200,
           tasks: int = 5) -> tuple[dict[str, Any], Any]:
    """ER and these models with a full buffer, and a training batch."""
    built = {"er": filled("er", dataset, options, buffer, 1)}
    built |= {name: filled(name, dataset, options, buffer, tasks, *more) for name in models}
    return {name: method for name, (method, _) in built.items()}, built["er"][1]


def step_ratios(dataset: str, options: Namespace, repeats: int, models: list[str], *more: str,
                tasks: int = 5) -> dict[str, float]:
    """Training steps of models ÷ ER's."""
    methods, batch = family(dataset, options, models, *more, tasks=tasks)
    seconds = alternate({name: lambda m=method: m.observe(*batch)  # type: ignore[misc]
                         for name, method in methods.items()}, repeats, warmup=5)
    return {name: ratio(seconds, name) for name in models}


def evaluation_ratio(dataset: str, options: Namespace, repeats: int, model: str = "npcl", *,
                     buffer: int = 200, tasks: int = 5, before: Before = "nothing") -> float:
    """Evaluation of `--images` images by a model, context included, ÷ by ER.

    Args:
        before: what has asked for the context's features, if anything: the pass at the end of the
            task, as in a run of NPCL, or a model whose checkpoint was loaded.
    """
    import torch

    from npcl_plugin.folding import FoldedFeatures

    methods, (images, _, _) = family(dataset, options, [model], buffer=buffer, tasks=tasks)
    er, asked = methods["er"].eval(), methods[model].eval()
    with torch.no_grad():
        if before != "nothing":
            asked.predictor.context()
        if before == "a checkpoint":
            asked.predictor.load_state_dict(asked.predictor.state_dict())
            asked.predictor.net.folded = FoldedFeatures()
        start = time.process_time()
        asked(images)
        first = time.process_time() - start
        seconds = alternate({"er": lambda: er(images), model: lambda: asked(images)}, repeats)
    batches: float = options.images / len(images)
    return statistics.median((first + (batches - 1) * b) / (batches * a)
                             for a, b in zip(seconds["er"], seconds[model], strict=True))


def folding_ratio(options: Namespace, repeats: int) -> float:
    """Features of an evaluation ÷ those that the backbone computes layer by layer."""
    import torch

    method, (images, _, _) = filled("npcl", RESNET, options, 200, 5)
    net = method.net.eval()
    with torch.no_grad():
        seconds = alternate({"er": lambda: net.backbone(images, returnt="features"),
                             "folded": lambda: net.features(images)}, repeats)
    return ratio(seconds, "folded")


def end_of_task_share(model: str, options: Namespace, repeats: int) -> float:
    """The pass that fills the distribution memory ÷ the steps of its task."""
    method, batch = filled(model, MLP, options, 200, 1, *RECORDED)
    steps = alternate({"step": lambda: method.observe(*batch)}, repeats)["step"]
    method.task_iteration = repeats
    start = time.process_time()
    method.end_task(method.bench_dataset)
    whole = statistics.median(steps) * len(method.bench_dataset.train_loader)
    return (time.process_time() - start) / whole


def run_ratio(options: Namespace) -> float:
    """A whole run of NPCL with its evaluations ÷ ER's, in processor time of a process each."""
    from tempfile import TemporaryDirectory

    from experiments.commands.bench import process_seconds
    from experiments.paths import MAIN

    seconds: dict[str, list[float]] = {"er": [], "npcl": []}
    for _ in range(_RUNS):
        for model, found in seconds.items():
            with TemporaryDirectory() as folder:
                found.append(process_seconds(
                    str(MAIN), "--model", model, "--dataset", MLP, "--buffer_size", "200",
                    "--seed", "0", "--base_path", options.base_path, "--results_path", folder)[0])
    return ratio(seconds, "npcl")


def with_mlp(options: Namespace) -> Iterator[Row]:
    """Ratios on the domain-IL benchmark, whose network is small."""
    many, models = max(options.steps // 2, 10), list(STEP_BUDGETS)
    for kind, said in ((RECORDED, ""), (PLAIN, ", plain"), (NOT_COMPILED, ", no C")):
        steps = step_ratios(MLP, options, many, models, *kind)
        for name in models:
            yield Row(f"training step, MLP, N = 50, {name}{said}", steps[name],
                      None if said else STEP_BUDGETS[name])
    for name in models:
        yield Row(f"end-of-task pass ÷ training, MLP, {name}",
                  end_of_task_share(name, options, many), 0.1)
    for buffer, tasks in ((200, 5), (1000, 5), (200, 20)):
        yield Row(f"evaluation, MLP, buffer {buffer}, {tasks} tasks",
                  evaluation_ratio(MLP, options, many, buffer=buffer, tasks=tasks))
    for tasks in (1, 5, 20):
        yield Row(f"training step, MLP, {tasks} tasks, npcl",
                  step_ratios(MLP, options, many, ["npcl"], *RECORDED, tasks=tasks)["npcl"])


def with_resnet(options: Namespace) -> Iterator[Row]:
    """Ratios on the class-IL benchmark, where the network takes nearly all of the time."""
    few = max(options.steps // 6, 3)
    steps = step_ratios(RESNET, options, few, ["npcl", "st_npcl", "npcl_plus"], *RECORDED)
    for name, found in steps.items():
        yield Row(f"training step, ResNet-18, N = 50, {name}", found, 1.1)
    for buffer, budget in ((200, 1.1), (2000, 1.2)):
        for before in get_args(Before):
            # Without a pass at the end of a task nothing comes before.
            for name in ("npcl_plus", "anp", "np") if before == "nothing" else ("npcl",):
                yield Row(f"evaluation, ResNet-18, {buffer}, {name} after {before}",
                          evaluation_ratio(RESNET, options, few, name, buffer=buffer,
                                           before=before),
                          budget if options.images >= ENOUGH_IMAGES else None)
    yield Row("features, ResNet-18, folded ÷ layer by layer", folding_ratio(options, few))


def measured(options: Namespace) -> Iterator[Row]:
    """All ratios, the short ones first."""
    yield from with_mlp(options)
    yield from with_resnet(options)
    if options.run:
        yield Row("a whole run, MLP, npcl", run_ratio(options), 3.5)


def bench_npcl(options: Namespace) -> list[dict[str, Any]]:
    """Print all ratios as they are measured, and return them."""
    from experiments.commands.bench import build
    from npcl_plugin.growth import growth, print_growth

    for dataset in (MLP, RESNET):  # what is missing is said before anything is measured
        build("er", dataset, options.base_path, "--buffer_size", "200")
    print_growth(tables := growth(max(options.steps // 30, 3)))
    print(f"\n{'÷ ER, but where it says otherwise':<50} {'ratio':>7} {'budget':>7}")
    rows = []
    for row in measured(options):
        missed = "" if row.budget is None or row.ratio <= row.budget else "  missed"
        print(f"{row.what:<50} {row.ratio:>7.2f} "
              f"{'' if row.budget is None else f'{row.budget:.1f}':>7}{missed}", flush=True)
        rows.append(row)
    return [row._asdict() for row in rows] + [point._asdict() for point in tables]


def register() -> None:
    """Make `mammoth-bench npcl`, `mammoth-bench upstream` and our part of the others known."""
    from experiments.commands.bench import DEMO_MODELS, STARTUP_MODELS, job
    from npcl_plugin.upstream_bench import bench_upstream

    job("npcl")(bench_npcl)
    job("upstream")(bench_upstream)
    STARTUP_MODELS.append("npcl")
    DEMO_MODELS.extend(("anp", "npcl", "npcl_plus"))
