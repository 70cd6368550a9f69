"""Turn a folder of runs into one compact file of results, and such files into tables.

    python utils/collect.py RESULTS_PATH --out results/harness.json
    python utils/collect.py RESULTS_PATH --out results/harness.json --add
    python utils/collect.py --table results/harness.json

A run is kept with its command, the arguments that make it special, seed, accuracies, transfer,
time, versions, and what it knows about its uncertainty (`--uncertainty 1`: calibration, novelty,
confidence, cost); folders of the machine it ran on are left out. A table shows mean ± sd over the
seeds beside the paper's figure (results/paper.json) where the paper has that cell. Variants and
reduced protocols are rows of their own. `utils/tables.py` makes all the paper's tables.
"""
import json
import shlex
import sys
from pathlib import Path

from experiments.commands import command_parser, told
from experiments.tables.headline import all_settings
from experiments.tables.records import named, read_file, read_paper, settings_of
from utils.errors import UsageError
from utils.files import atomic_write

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
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        asked = json.loads((folder / "args.json").read_text(encoding="utf-8"))
        summary = folder / "uncertainty" / "summary.json"
        known = json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else None
        return compact(result, portable(asked["command"]), known)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"left out: {folder.name} ({type(error).__name__})", file=sys.stderr)
        return None


def compact(result, command, known):
    """A result and its uncertainty summary, if any, as one record."""
    main = result["setting"]
    transfer = {name: round(values[main], 3) for name, values in result["transfer"].items()}
    record = {
        "model": result["model"], "dataset": result["dataset"], "setting": main,
        "buffer_size": result["buffer_size"], "seed": result["seed"],
        "settings": settings_of({"command": command}),
        "accuracy": {name: round(value, 3) for name, value in result["accuracy"].items()},
        **transfer, "final_accuracies": [round(v, 2) for v in result["accuracy_matrix"][main][-1]],
        "seconds": round(result["seconds"], 1), "n_parameters": result.get("n_parameters"),
        "command": command,
        "versions": {k: result["versions"][k] for k in ("python", "torch", "threads", "cores")},
    }
    if result.get("final_test_accuracy"):  # --validation: `accuracy` is on the validation split
        record["final_test_accuracy"] = {name: round(sum(values) / len(values), 3) for name, values
                                         in result["final_test_accuracy"].items()}
    if known is not None:
        record["uncertainty"] = compact_uncertainty(known)
    return record


def compact_uncertainty(summary):
    """What tables need of an uncertainty summary: no histograms, maps or curves."""
    kept = {"headline": summary["headline"]}
    novelty, confidence = summary.get("novelty"), summary.get("confidence")
    if novelty:
        kept["novelty"] = {name: novelty[name] for name in (
            "data", "description", "auroc", "fpr95", "mean_id", "mean_ood") if name in novelty}
    if confidence:
        kept["confidence"] = {name: confidence[name] for name in (
            "n_draws", "significance", "true_head") if name in confidence}
    if summary.get("cost"):
        kept["cost"] = summary["cost"]
    transfer = summary.get("transfer")
    if transfer:
        kept["transfer"] = {name: transfer[name] for name in (
            "mean_accuracy", "mean_entropy", "pearson", "pearson_p") if name in transfer}
    return rounded(kept)


def rounded(value, digits=5):
    """Floats to so many significant digits, however deep they lie."""
    if isinstance(value, dict):
        return {name: rounded(inner, digits) for name, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner, digits) for inner in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def collect(source, out, add=False):
    """Write all finished runs below `source`, in a stable order.

    Args:
        add: keep the records that are in the file already; of the same command the new one stays.

    Raises:
        UsageError: there is no run to collect; the file stays as it is.
    """
    found = [run for path in sorted(source.glob("runs/*/*/*"))
             if (path / "result.json").exists() and (run := read_run(path))]
    if not found:
        raise UsageError(f"There is no finished run below {source / 'runs'}; give the "
                         "--results_path of the runs.")
    known = read_file(out) if add and out.exists() else []
    runs = list({run["command"]: run for run in (*known, *found)}.values()) if add else found
    runs.sort(key=lambda r: (r["dataset"], r["model"], r["buffer_size"] or 0,
                             str(settings_of(r)), r["seed"]))
    text = ",\n".join(json.dumps(run) for run in runs)
    atomic_write(out, f"[\n{text}\n]\n".encode())
    print(f"{len(runs)} runs in {out}, {len(found)} of them collected now")


def main(argv=None):
    """Collect or print, as asked; returns the exit code."""
    parser = command_parser(__doc__)
    parser.add_argument("source", type=Path, nargs="?", help="--results_path of the runs")
    parser.add_argument("--out", type=Path, help="compact file to write")
    parser.add_argument("--add", action="store_true",
                        help="add to the file instead of writing it anew")
    parser.add_argument("--table", type=Path, nargs="+", help="compact files to show as a table")
    options = parser.parse_args(argv)
    if not options.table and not (options.source and options.out):
        parser.error("give RESULTS_PATH and --out, or --table")
    return told(lambda: collect_or_print(options))


def collect_or_print(options):
    """Write the compact file, or show such files as a table."""
    if options.table:
        records = [named(run) for path in options.table for run in read_file(path)]
        print(all_settings(records, read_paper()))
    else:
        collect(options.source, options.out, options.add)
    return 0
