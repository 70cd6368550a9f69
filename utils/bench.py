#!/usr/bin/env python3
"""Measure where time goes, as ratios within one run (machines are noisy, ratios less so).

    python utils/bench.py harness --base_path DATA     ER: data against compute, evaluation
    python utils/bench.py startup                      main.py --help against `import torch`
    python utils/bench.py npcl --base_path DATA        NPCL against ER, and how its cost grows

`--json FILE` keeps the figures.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "mammoth"))


def build(model, dataset, base_path, *more):
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


def time_steps(method, loader, steps, warmup=5):
    """Median seconds a step spends on data and on the method itself."""
    data, compute, batches = [], [], iter(loader)
    for i in range(steps + warmup):
        start = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            batch = next(batches)
        middle = time.perf_counter()
        method.meta_observe(*batch[:3], epoch=0)
        if i >= warmup:
            data.append(middle - start)
            compute.append(time.perf_counter() - middle)
    return statistics.median(data), statistics.median(compute)


def time_evaluation(method, benchmark, batches):
    """Images a second in evaluation, data included."""
    from utils.evaluate import evaluation_mode

    count = 0
    with evaluation_mode(method):
        start = time.perf_counter()
        for i, batch in enumerate(benchmark.test_loaders[-1]):
            if i >= batches:
                break
            method(batch[0])
            count += len(batch[1])
    return count / (time.perf_counter() - start)


def bench_harness(options):
    """ER on perm-mnist (MLP) and on seq-cifar10 (ResNet-18)."""
    rows = []
    for dataset, steps in (("perm-mnist", options.steps), ("seq-cifar10", options.steps // 20)):
        method, benchmark, loader = build("er", dataset, options.base_path, "--buffer_size", "200")
        data, compute = time_steps(method, loader, max(steps, 3))
        images = time_evaluation(method, benchmark, max(steps // 2, 3))
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


def bench_startup(options):
    """`main.py --help` ÷ `import torch`, alternating, median of several."""
    commands = {"help": [str(ROOT / "mammoth" / "main.py"), "--help"],
                "help with a model": [str(ROOT / "mammoth" / "main.py"), "--model", "er",
                                      "--dataset", "perm-mnist", "--help"],
                "import torch": ["-c", "import torch"]}
    seconds = {name: [] for name in commands}
    for _ in range(options.repeats):
        for name, words in commands.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, value in medians.items():
        print(f"{name:<18} {value:7.2f} s   {value / medians['import torch']:5.2f} x import torch")
    print("budget: main.py --help at most 1.3 x import torch")
    return medians


def bench_family(options):
    """The neural processes; see bench_npcl.py, beside this file."""
    from bench_npcl import bench_npcl

    return bench_npcl(build, options)


def main(argv=None):
    """Run the benchmark that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="harness",
                        choices=["harness", "startup", "npcl"])
    parser.add_argument("--base_path", default="./data/", help="where the datasets are")
    parser.add_argument("--steps", type=int, default=300, help="training steps on the MLP")
    parser.add_argument("--repeats", type=int, default=5, help="process starts (startup)")
    parser.add_argument("--images", type=int, default=10000, help="of an evaluation (npcl)")
    parser.add_argument("--json", type=Path, help="file to keep the figures in")
    options = parser.parse_args(argv)
    figures = {"harness": bench_harness, "startup": bench_startup,
               "npcl": bench_family}[options.what](options)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
