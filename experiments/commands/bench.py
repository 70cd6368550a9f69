"""Measure where time goes, as ratios within one run (machines are noisy, ratios less so).

Steps and evaluations are timed in processor seconds of one thread, which other jobs disturb least.

    python utils/bench.py harness --base_path DATA     ER: data against compute, evaluation
    python utils/bench.py methods --base_path DATA     every method's step and evaluation against ER
    python utils/bench.py startup                      commands against `import torch`
    python utils/bench.py demo                         the runs of ./run_all.sh and their start-up
    python utils/bench.py JOB --base_path DATA         what a plugin adds; the choices name it
    python utils/bench.py upstream --base_path DATA --mammoth PATH   an upstream checkout against us

`--json FILE` keeps the figures.
"""
import os
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.errors import RunError, UsageError
from engine.files import write_json
from experiments.commands import command_parser, told
from experiments.paths import MAIN

os.environ.setdefault("OMP_NUM_THREADS", "1")


Figures = dict[str, Any]
Job = Callable[[Namespace], Any]
_JOBS: dict[str, Job] = {}


def job(name: str) -> Callable[[Job], Job]:
    """Decorator: a function of the options that prints and returns figures becomes a job."""

    def decorate(function: Job) -> Job:
        _JOBS[name] = function
        return function

    return decorate


def build(model: str, dataset: str, base_path: str, *more: str) -> tuple[Any, Any, Any]:
    """A method and a benchmark in their first task, buffer and all, as main.py makes them."""
    from main import initialize, parse_args

    cmd = ["--model", model, "--dataset", dataset, "--seed", "0", "--base_path", base_path,
           "--disable_log", "1", "--non_verbose", "1", *more]
    method, benchmark, _ = initialize(parse_args(cmd))
    method.to(method.device)
    method.net.train()
    loader, _ = benchmark.get_data_loaders()
    method.meta_begin_task(benchmark)
    return method, benchmark, loader


def time_steps(method: Any, loader: Any, steps: int, warmup: int = 5) -> tuple[float, float]:
    """Median seconds a step spends on data and on the method itself, after at most `warmup`."""
    warmup = min(warmup, steps)
    data: list[float] = []
    compute: list[float] = []
    batches = iter(loader)
    for i in range(steps + warmup):
        start = time.process_time()
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            batch = next(batches)
        middle = time.process_time()
        method.meta_observe(*batch[:3], epoch=0)
        if i >= warmup:
            data.append(middle - start)
            compute.append(time.process_time() - middle)
    return statistics.median(data), statistics.median(compute)


def time_evaluation(method: Any, benchmark: Any, batches: int) -> float:
    """Images a second in evaluation, data included."""
    from utils.evaluate import evaluation_mode

    count = 0
    with evaluation_mode(method):
        start = time.process_time()
        for i, batch in enumerate(benchmark.test_loaders[-1]):
            if i >= batches:
                break
            method(batch[0])
            count += len(batch[1])
    return count / (time.process_time() - start)


@job("harness")
def bench_harness(options: Namespace) -> list[Figures]:
    """ER on perm-mnist (MLP) and on seq-cifar10 (ResNet-18)."""
    rows = []
    for dataset, steps in (("perm-mnist", options.steps), ("seq-cifar10", options.steps // 20)):
        method, benchmark, loader = build("er", dataset, options.base_path, "--buffer_size", "200")
        data, compute = time_steps(method, loader, max(steps, 1))
        images = time_evaluation(method, benchmark, max(steps // 2, 1))
        rows.append({"dataset": dataset, "backbone": method.args.backbone,
                     "data_ms": 1e3 * data, "compute_ms": 1e3 * compute,
                     "data_share": data / (data + compute), "eval_images_per_s": images})
    print(f"{'benchmark':<12} {'backbone':<10} {'data ms':>8} {'compute ms':>11} "
          f"{'data share':>11} {'eval images/s':>14}")
    for row in rows:
        print(f"{row['dataset']:<12} {row['backbone']:<10} {row['data_ms']:>8.3f} "
              f"{row['compute_ms']:>11.3f} {row['data_share']:>10.1%} "
              f"{row['eval_images_per_s']:>14.0f}")
    print("budget: data share on perm-mnist at most 15 %")
    return rows


def begin_next_task(method: Any, benchmark: Any, loader: Any, steps: int) -> Any:
    """A few steps, then the hooks between two tasks; returns the next task's loader."""
    for _, batch in zip(range(steps), loader, strict=False):
        method.meta_observe(*batch[:3], epoch=0)
    method.meta_end_task(benchmark)
    loader, _ = benchmark.get_data_loaders()
    method.meta_begin_task(benchmark)
    return loader


@job("methods")
def bench_methods(options: Namespace) -> list[Figures]:
    """Each method in its second task beside ER: the same rounds, so that noise hits all alike."""
    from datasets import get_dataset_class
    from models import REGISTRY

    rows: list[Figures] = []
    for dataset in ("perm-mnist", "seq-mnist"):
        setting = get_dataset_class(dataset).SETTING
        names = [name for name in REGISTRY.names() if name != "joint" and setting in
                 REGISTRY[name].COMPATIBILITY and name not in {row["method"] for row in rows}]
        rows += time_side_by_side(dataset, ["er", *(n for n in names if n != "er")], options)
    print(f"{'method':<8} {'benchmark':<11} {'step ms':>8} {'÷ ER':>6} {'eval images/s':>14} "
          f"{'time ÷ ER':>10}")
    for row in rows:
        print(f"{row['method']:<8} {row['dataset']:<11} {row['step_ms']:>8.2f} "
              f"{row['step_ratio']:>6.2f} {row['eval_images_per_s']:>14.0f} "
              f"{row['eval_ratio']:>10.2f}")
    return rows


def time_side_by_side(dataset: str, names: Sequence[str], options: Namespace) -> list[Figures]:
    """Median step and evaluation times of several methods, measured in turns."""
    from models import REGISTRY
    from utils.args import ArgumentParser

    built = {}
    for name in names:
        own = REGISTRY[name].get_parser(ArgumentParser(add_help=False)).actions_by_dest()
        more = ["--buffer_size", "200"] if "buffer_size" in own else []
        method, benchmark, loader = build(name, dataset, options.base_path, "--batch_size", "128",
                                          "--minibatch_size" if more else "--optim_wd",
                                          "128" if more else "0", *more)
        built[name] = method, benchmark, begin_next_task(method, benchmark, loader, 10)
    steps: dict[str, list[float]] = {name: [] for name in names}
    images: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(min(5, max(options.steps // 4, 1))):
        for name, (method, benchmark, loader) in built.items():
            steps[name].append(sum(time_steps(method, loader, max(options.steps // 10, 3), 2)))
            images[name].append(time_evaluation(method, benchmark, min(20, options.steps)))
    step = {name: statistics.median(values) for name, values in steps.items()}
    speed = {name: statistics.median(values) for name, values in images.items()}
    return [{"method": name, "dataset": dataset, "step_ms": 1e3 * step[name],
             "step_ratio": step[name] / step["er"], "eval_images_per_s": speed[name],
             "eval_ratio": speed["er"] / speed[name]} for name in names]


IMPORT_TORCH = ("-c", "import torch")
# Plugins add their methods: whose start is timed, and whom ./run_all.sh compares.
STARTUP_MODELS = ["er", "derpp"]
DEMO_MODELS = ["er", "derpp"]


def process_seconds(*words: str) -> tuple[float, float]:
    """Processor seconds and seconds by the clock that a Python process takes from start to end."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # nobody else can wait for it now
    if process.returncode:
        raise RunError(f"`{' '.join(words)}` ended with exit code {process.returncode}.")
    return used.ru_utime + used.ru_stime, time.perf_counter() - start


# A run as far as its first look at the data.
_READY = """import sys
sys.path[0] = {folder!r}
from engine.heap import importing
from main import initialize, parse_args
with importing():
    args = parse_args({words!r})
initialize(args)
"""


@job("startup")
def bench_startup(options: Namespace) -> dict[str, float]:
    """Commands ÷ `import torch`, alternating, median of several, in processor seconds.

    A run of one step on embedded data, evaluation and writing included, bounds the time to the
    first step from above; on colour images it is what comes before they are read.
    """
    with TemporaryDirectory() as folder:
        step = ["--dataset", "seq-digits", "--buffer_size", "200", "--fitting_mode", "iters",
                "--n_iters", "1", "--stop_after", "1", "--seed", "0", "--base_path", folder]
        commands = {"help": [str(MAIN), "--help"],
                    "help with a model": [str(MAIN), "--model", "er",
                                          "--dataset", "perm-mnist", "--help"],
                    **{f"one step, {model}": [str(MAIN), "--model", model, *step]
                       for model in STARTUP_MODELS},
                    **{f"colour images, {model}": ["-c", _READY.format(
                        folder=str(MAIN.parent), words=["--model", model, "--dataset",
                                                        "seq-cifar10", "--buffer_size", "200"])]
                       for model in STARTUP_MODELS},
                    "import torch": IMPORT_TORCH}
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(options.repeats):
            for name, words in commands.items():
                seconds[name].append(process_seconds(*words)[0])
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, value in medians.items():
        print(f"{name:<24} {value:7.2f} s   {value / medians['import torch']:5.2f} x import torch")
    print("budget: at most 1.3 x import torch")
    return medians


# What it runs must find our packages where this process does.
_COMPARE = ("import sys; sys.path[:] = {path!r}; from experiments.commands.compare import main; "
            "sys.exit(main())")


def demo() -> list[str]:
    """What ./run_all.sh gives to `compare`."""
    return ["--models", *DEMO_MODELS, "--dataset", "seq-digits", "--buffer_size", "200",
            "--seeds", "3"]


@job("demo")
def bench_demo(options: Namespace) -> dict[str, dict[str, float]]:
    """The runs of ./run_all.sh, two at a time, beside the sum of what they train, by the clock.

    With the uncertainty measures and the report, as it makes them, and without: what a run says
    about its time leaves them out.
    """
    ways = {"without uncertainty": ["--no_uncertainty"], "as ./run_all.sh": ["--report"]}
    alone = [process_seconds(*IMPORT_TORCH)[1] for _ in range(options.repeats)]
    seconds = {way: _demo_seconds(more) for way, more in ways.items()}
    alone += [process_seconds(*IMPORT_TORCH)[1] for _ in range(options.repeats)]
    torch, found = statistics.median(alone), {}
    for way, (runs, whole, training) in seconds.items():
        budget = 5 * torch + training / 2
        found[way] = {"runs": runs, "seconds": whole, "training": training, "import_torch": torch,
                      "budget": budget}
        print(f"{way:<20} {runs} runs took {whole:4.1f} s, trained for {training:4.1f} s: "
              f"{whole / budget:.2f} of {budget:4.1f} s")
    print(f"budget: 5 x import torch ({torch:.2f} s) + training / 2")
    return found


def _demo_seconds(more: list[str]) -> tuple[int, float, float]:
    """How many runs there were, how long the command took and how long they trained."""
    from experiments.run_folders import find_runs

    with TemporaryDirectory() as folder:
        _, whole = process_seconds("-c", _COMPARE.format(path=sys.path), *demo(), "--jobs", "2",
                                   *more, "--base_path", folder)
        runs, _ = find_runs(Path(folder))
    return len(runs), whole, sum(run.seconds or 0.0 for run in runs)


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """The command line; plugins have added their jobs before."""
    parser = command_parser(__doc__)
    parser.add_argument("what", nargs="?", default="harness", choices=list(_JOBS))
    parser.add_argument("--base_path", default="./data/", help="where the datasets are")
    parser.add_argument("--steps", type=int, default=300,
                        help="training steps on the MLP (default 300)")
    parser.add_argument("--repeats", type=int, default=5,
                        help="process starts (startup; default 5)")
    parser.add_argument("--images", type=int, default=10000,
                        help="images of an evaluation (jobs of plugins; default 10000, which "
                             "budgets are for)")
    parser.add_argument("--run", action="store_true",
                        help="a whole run besides (jobs of plugins; minutes)")
    parser.add_argument("--mammoth", help="an upstream Mammoth checkout (upstream)")
    parser.add_argument("--json", type=Path, help="file to keep the figures in")
    return parser.parse_args(argv)


def measure(options: Namespace) -> int:
    """Time what was asked for and keep the figures where asked.

    Raises:
        UsageError: a count is below 1.
    """
    for name in ("steps", "repeats", "images"):
        if getattr(options, name) < 1:
            raise UsageError(f"Expected --{name} to be at least 1, but got "
                             f"{getattr(options, name)}.")
    figures = _JOBS[options.what](options)
    if options.json:
        write_json(options.json, figures)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    return told(lambda: measure(parse_args(argv)))
