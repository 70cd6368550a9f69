#!/usr/bin/env python3
"""Turn a folder of runs into one compact file of results, and such files into tables.

    python utils/collect.py RESULTS_PATH --out results/harness.json
    python utils/collect.py --table results/harness.json

A run is kept with its command, seed, accuracies, transfer, time and versions; folders of the
machine it ran on are left out. A table shows mean ± sd over the seeds beside the paper's figure
(results/paper.json) where the paper has that cell.
"""
import argparse
import json
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAPER = ROOT / "results" / "paper.json"
sys.path.insert(0, str(ROOT / "mammoth"))

from utils.tables import aligned, spread  # noqa: E402

LOCAL = {"--base_path": "DATA", "--results_path": None, "--checkpoint_path": None,
         "--resume": None, "--non_verbose": None}


def portable(command):
    """A command without what belongs to one machine: folders and progress bars."""
    words, kept, skip = shlex.split(command), [], False
    for i, word in enumerate(words):
        if skip:
            skip = False
        elif word in LOCAL:
            skip = i + 1 < len(words) and not words[i + 1].startswith("--")
            kept += [word, LOCAL[word]] if LOCAL[word] else []
        else:
            kept.append(word)
    return shlex.join(kept)


def read_run(folder):
    """The compact record of one finished run; None (with a word on stderr) for a damaged one."""
    try:
        result = json.loads((folder / "result.json").read_text())
        command = json.loads((folder / "args.json").read_text())["command"]
    except (OSError, json.JSONDecodeError, KeyError) as error:
        print(f"left out: {folder.name} ({type(error).__name__})", file=sys.stderr)
        return None
    main = result["setting"]
    transfer = {name: round(values[main], 3) for name, values in result["transfer"].items()}
    return {
        "model": result["model"], "dataset": result["dataset"], "setting": main,
        "buffer_size": result["buffer_size"], "seed": result["seed"],
        "accuracy": {name: round(value, 3) for name, value in result["accuracy"].items()},
        **transfer, "final_accuracies": [round(v, 2) for v in result["accuracy_matrix"][main][-1]],
        "seconds": round(result["seconds"], 1), "command": portable(command),
        "versions": {k: result["versions"][k] for k in ("python", "torch", "threads", "cores")},
    }


def collect(source, out):
    """Write all finished runs below `source`, in a stable order."""
    runs = [run for path in sorted(source.glob("runs/*/*/*"))
            if (path / "result.json").exists() and (run := read_run(path))]
    runs.sort(key=lambda r: (r["dataset"], r["model"], r["buffer_size"] or 0, r["seed"]))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("[\n" + ",\n".join(json.dumps(run) for run in runs) + "\n]\n")
    print(f"{len(runs)} runs in {out}")


def table_rows(runs, paper):
    """One row a setting: ours and the paper's accuracy and backward transfer, time, seeds."""
    groups = {}
    for run in runs:
        groups.setdefault((run["dataset"], run["buffer_size"] or 0, run["model"]), []).append(run)
    for (dataset, size, model), found in sorted(groups.items()):
        theirs = {name: paper[name].get(dataset, {}).get(str(size), {}).get(model, [])
                  for name in ("accuracy", "backward_transfer")}
        ours = {"accuracy": [run["accuracy"][run["setting"]] for run in found],
                "backward_transfer": [run.get("backward_transfer") for run in found]}
        row = [dataset, str(size or "-"), model]
        for name, values in ours.items():
            row += [spread(values), " ± ".join(f"{v:.2f}" for v in theirs[name]) or "-"]
        yield [*row, spread([run["seconds"] for run in found], 0).split()[0], str(len(found))]


def main(argv=None):
    """Collect or print, as asked."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, nargs="?", help="--results_path of the runs")
    parser.add_argument("--out", type=Path, help="compact file to write")
    parser.add_argument("--table", type=Path, nargs="+", help="compact files to show as a table")
    options = parser.parse_args(argv)
    if options.table:
        missing = [str(path) for path in options.table if not path.exists()]
        if missing:
            sys.exit(f"error: {', '.join(missing)} is not there; collect it first.")
        runs = [run for path in options.table for run in json.loads(path.read_text())]
        header = ["dataset", "buffer", "method", "ours %", "paper %", "our BWT", "paper BWT",
                  "s a run", "seeds"]
        rows = list(table_rows(runs, json.loads(PAPER.read_text())))
        print(aligned(header, rows, markdown=True))
    elif options.source and options.out:
        collect(options.source, options.out)
    else:
        parser.error("give RESULTS_PATH and --out, or --table")
    return 0


if __name__ == "__main__":
    sys.exit(main())
