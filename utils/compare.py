#!/usr/bin/env python3
"""Put methods side by side on one benchmark.

    python utils/compare.py --models er der --dataset seq-digits --buffer_size 200 --seeds 3

Runs what is missing (a finished run is never repeated), several at a time, and prints one
aligned table: mean and standard deviation over the seeds. Arguments that are not listed below
go to every run, e.g. --n_epochs 1 or --base_path DATA.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAIN = ROOT / "mammoth" / "main.py"
sys.path.insert(0, str(MAIN.parent))

from utils.tables import aligned, spread  # noqa: E402

RESULT = re.compile(r"^Result: (.+)$", re.MULTILINE)
COLUMNS = {"class-il": "Class-IL %", "task-il": "Task-IL %", "domain-il": "Domain-IL %",
           "general-continual": "Domain-IL %"}


def parse_args(argv=None):
    """Our own arguments, and the rest for main.py."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", required=True, help="methods, as for --model")
    parser.add_argument("--dataset", required=True, help="benchmark")
    parser.add_argument("--buffer_size", type=int, default=200,
                        help="for the methods that have a buffer (default 200)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0, 1, ... (default 3)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1,
                        help="runs at a time, one thread each (default: all cores)")
    return parser.parse_known_args(argv)


def has_buffer(model):
    """Whether a method takes --buffer_size, asked of its own argument list."""
    from models import get_model_class
    from utils.args import ArgumentParser
    from utils.errors import UsageError
    from utils.plugins import load_plugins

    try:
        load_plugins()
        parser = get_model_class(model).get_parser(ArgumentParser(add_help=False))
    except UsageError as error:
        sys.exit(f"error: {error}")
    return "buffer_size" in {action.dest for action in parser._actions}


def run(model, seed, options, rest, buffered):
    """One run of main.py.

    Returns:
        (model, seed, result or None, last words of a failed run, seconds)
    """
    command = [sys.executable, str(MAIN), "--model", model, "--dataset", options.dataset,
               "--seed", str(seed), "--resume", "--non_verbose", "1",
               *(["--buffer_size", str(options.buffer_size)] if buffered else []), *rest]
    if "--checkpoint_path" not in rest:
        folder = Path(tempfile.gettempdir()) / "mammoth-compare-checkpoints"
        command += ["--checkpoint_path", str(folder)]
    started = time.time()
    done = subprocess.run(command, capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = RESULT.search(done.stdout)
    result = json.loads(Path(found.group(1)).read_text()) if found else None
    words = done.stderr.strip().splitlines()
    return model, seed, result, words[-1] if words else "", time.time() - started


def run_all(options, rest):
    """All the runs, `--jobs` at a time, with a line for each as it ends."""
    buffered = {model: has_buffer(model) for model in options.models}
    todo = [(model, seed) for seed in range(options.seeds) for model in options.models]
    results, failures = {model: [] for model in options.models}, []
    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        futures = [pool.submit(run, model, seed, options, rest, buffered[model])
                   for model, seed in todo]
        for i, future in enumerate(as_completed(futures), 1):
            model, seed, result, words, seconds = future.result()
            if result is None:
                failures.append(f"{model}, seed {seed}: {words}")
                outcome = "failed"
            else:
                results[model].append(result)
                outcome = ", ".join(f"{name} {value:.2f}"
                                    for name, value in result["accuracy"].items())
            print(f"[{i}/{len(todo)}] {model} seed {seed}: {outcome} ({seconds:.0f} s)",
                  flush=True)
    return results, failures


def rows_of(results):
    """The table's header and lines."""
    settings = []
    for runs in results.values():
        for result in runs:
            settings += [name for name in result["accuracy"] if name not in settings]
    header = ["method", *(COLUMNS[s] for s in settings), "BWT", "forgetting", "seconds a run",
              "seeds"]
    rows = []
    for model, runs in results.items():
        main = settings[0] if settings else ""
        transfer = [run["transfer"] for run in runs]
        rows.append([
            model, *(spread([run["accuracy"].get(s) for run in runs]) for s in settings),
            spread([t.get("backward_transfer", {}).get(main) for t in transfer]),
            spread([t.get("forgetting", {}).get(main) for t in transfer]),
            spread([run["seconds"] for run in runs], 1), str(len(runs))])
    return header, rows


def main(argv=None):
    """Run, then print the table; exit code 1 if a run failed."""
    options, rest = parse_args(argv)
    if options.seeds < 1:
        sys.exit(f"error: Expected --seeds to be at least 1, but got {options.seeds}.")
    results, failures = run_all(options, rest)
    print(f"\n{options.dataset}, buffer {options.buffer_size}, {options.seeds} seed(s), one thread "
          f"a run{', ' + ' '.join(rest) if rest else ''}\n")
    print(aligned(*rows_of(results)))
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
