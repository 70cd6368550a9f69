"""Runs as compact records: what tables need of a run, without histograms, maps and curves.

Files of them are read and written here.
"""
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.bounded import Unreadable, read_json
from engine.errors import UsageError
from engine.files import atomic_write
from engine.identity import experiment_settings
from experiments.command_line import given_by, portable
from experiments.identity import changed_settings
from experiments.run import Damaged, LeftOut, Run, printable, run_of_record

# What records keep of an uncertainty summary: section -> its entries (None: all of it).
KEPT: dict[str, tuple[str, ...] | None] = {
    "headline": None,
    "novelty": ("data", "description", "auroc", "fpr95", "mean_id", "mean_ood"),
    "cost": None,
    "transfer": ("mean_accuracy", "mean_entropy", "pearson", "pearson_p"),
}
_LARGEST = 64 << 20  # bytes of a file of records
_VERSIONS = ("python", "torch", "threads", "cores")


def read_entries(path: Path) -> list[Any]:
    """The entries of a compact file as they stand there.

    Raises:
        UsageError: the file is missing or is no list.
    """
    try:
        entries = read_json(path, _LARGEST)
    except (FileNotFoundError, Unreadable) as error:
        words = "" if isinstance(error, FileNotFoundError) else f" (it {error})"
        raise UsageError(f"{printable(path)} is missing or damaged{words}; make it with "
                         "utils/collect.py, or take it from the repository.") from error
    if not isinstance(entries, list):
        raise UsageError(f"{printable(path)} is no list of records; make it with "
                         "utils/collect.py.")
    return entries


def read_compact(path: Path) -> tuple[list[Run], list[LeftOut]]:
    """The runs of a compact file, and the entries that cannot be used.

    Raises:
        UsageError: the file is missing or is no list.
    """
    runs, left_out = [], []
    for i, entry in enumerate(read_entries(path)):
        try:
            runs.append(run_of_record(entry))
            runs[-1].name = f"{path.name}, record {i + 1}"
        except Damaged as error:
            left_out.append(LeftOut(f"{path.name}, record {i + 1}", str(error)))
    return runs, left_out


def record_of(run: Run) -> dict[str, Any]:
    """A run as one record.

    Raises:
        Damaged: its command cannot be split into words.
    """
    try:
        command = portable(run.command, run.seed)
    except ValueError as error:
        raise Damaged(f"its command cannot be read ({error})") from error
    record: dict[str, Any] = {
        "model": run.model, "dataset": run.dataset, "setting": run.setting,
        "buffer_size": run.buffer_size, "seed": run.seed, "settings": changed_settings(run),
        "accuracy": {name: round(value, 3) for name, value in run.accuracy.items()},
        **{name: round(values[run.setting], 3) for name, values in run.transfer.items()
           if run.setting in values},
        "final_accuracies": [round(value, 2) for value in run.matrix[run.setting][-1]],
        "seconds": round(run.seconds or 0.0, 1), "n_parameters": run.n_parameters,
        "command": command, "arguments": experiment_settings(run.arguments),
        "versions": {name: run.versions[name] for name in _VERSIONS if name in run.versions}}
    if "kernels" in run.arguments:  # numbers are rounded otherwise where functions are in C
        record["versions"]["kernels"] = str(run.arguments["kernels"])
    if run.final_test_accuracy:  # --validation: `accuracy` is on the validation split
        record["final_test_accuracy"] = {name: round(value, 3) for name, value
                                         in run.final_test_accuracy.items()}
    if run.summary is not None:
        record["uncertainty"] = rounded(_kept(run.summary))
    return record


def _kept(summary: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for section, names in KEPT.items():
        part = summary.get(section)
        if isinstance(part, dict) and part:
            kept[section] = part if names is None else {n: part[n] for n in names if n in part}
    return kept


def rounded(value: Any, digits: int = 5) -> Any:
    """Floats to so many significant digits, however deep they lie."""
    if isinstance(value, dict):
        return {name: rounded(inner, digits) for name, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner, digits) for inner in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def write_records(records: Iterable[dict[str, Any]], out: Path, add: bool) -> int:
    """Write records in a stable order; returns how many the file has now.

    Args:
        add: keep what is in the file already; of the same command, whatever the order of its
            arguments, the new record stays.

    Raises:
        UsageError: the file that is to be added to is damaged; it stays as it is.
    """
    found = list(records)
    known = read_entries(out) if add and out.exists() else []
    if not all(isinstance(entry, dict) and isinstance(entry.get("command"), str)
               for entry in known):
        raise UsageError(f"{out} holds entries that are no records of runs; add to another file.")
    whole = list({_command_of(entry): entry for entry in (*known, *found)}.values()) \
        if add else found
    whole.sort(key=_place)
    text = ",\n".join(json.dumps(entry) for entry in whole)
    atomic_write(out, f"[\n{text}\n]\n".encode())
    return len(whole)


def _command_of(entry: dict[str, Any]) -> tuple[str, str]:
    """Equal for records of the same command and seed."""
    given = sorted(given_by(entry["command"]).items())
    return (repr(given) if given else entry["command"], str(entry.get("seed")))


def _place(entry: dict[str, Any]) -> tuple[str, str, int, str, int]:
    try:
        run = run_of_record(entry)
    except Damaged:  # kept as it is, at the end
        return ("\uffff", entry["command"], 0, "", 0)
    return (run.dataset, run.model, run.buffer_size or 0, str(changed_settings(run)),
            run.seed or 0)
