"""Read a folder of runs: what is whole is kept and grouped, what is not is named with a reason."""
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

from utils.run_folder import NOT_PART_OF_THE_KEY

MARKS = ("args.json", "metrics.jsonl", "result.json")
# What may differ between runs of one method without making them different experiments.
SAME_EXPERIMENT = NOT_PART_OF_THE_KEY | {
    "seed", "enable_other_metrics", "eval_epochs", "uncertainty", "uncertainty_samples",
    "uncertainty_draws", "novel_data"}


class Damaged(Exception):
    """A run that cannot be shown; the text says why."""


@dataclass
class Run:
    """One finished run."""

    name: str
    result: dict
    args: dict
    command: str
    measures: dict | None = None
    remarks: list = field(default_factory=list)
    number: int = 0
    group: "Group | None" = None
    scale_low: dict = field(default_factory=dict)

    @property
    def setting(self):
        """The benchmark's own setting; class-IL also has task-IL numbers."""
        return self.result["setting"]

    @property
    def sequential(self):
        """Whether it learned task after task; joint training has only an end."""
        return bool(self.result.get("transfer")) or len(self.matrix(self.setting)) == 1

    @property
    def title(self):
        """Method, buffer and what else tells it apart, and the seed."""
        return f"{self.group.title}, seed {self.result['seed']}"

    def matrix(self, setting):
        """Accuracy [after task][on task]."""
        return self.result["accuracy_matrix"][setting]

    def stages(self, setting):
        """The rows to show: joint training has only its end."""
        rows = self.matrix(setting)
        return rows if self.sequential else rows[-1:]

    def transfer(self, name):
        """Backward transfer or forgetting in the benchmark's own setting; None if unknown."""
        return self.result.get("transfer", {}).get(name, {}).get(self.setting)

    def headline(self, name):
        """A measure of the uncertainty summary; None without one."""
        headline = (self.measures or {}).get("headline")
        value = headline.get(name) if isinstance(headline, dict) else None
        return value if isinstance(value, int | float) else None

    def storage(self, name):
        """A number of the summary's storage; None without one."""
        cost = (self.measures or {}).get("cost")
        storage = cost.get("storage") if isinstance(cost, dict) else None
        value = storage.get(name) if isinstance(storage, dict) else None
        return value if isinstance(value, int | float) else None


@dataclass
class LeftOut:
    """A run folder that is not shown."""

    name: str
    reason: str
    command: str = ""


@dataclass
class Group:
    """Runs that differ in nothing but the seed."""

    dataset: str
    model: str
    buffer: int | None
    runs: list
    variant: str = ""

    @property
    def label(self):
        """For a legend: the method and what tells it from its relatives."""
        return f"{self.model} ({self.variant})" if self.variant else self.model

    @property
    def title(self):
        """The label with the buffer."""
        return self.label if self.buffer is None else f"{self.label}, buffer {self.buffer}"


def _json(path):
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise Damaged(f"{path.name} cannot be read ({type(error).__name__})") from error
    if not isinstance(value, dict):
        raise Damaged(f"{path.name} does not hold an object")
    return value


def _number(value):
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check(result):
    """Refuse a result that lacks what the page shows."""
    wanted = {"model": str, "dataset": str, "setting": str, "accuracy": dict,
              "accuracy_matrix": dict, "seconds": int | float}
    for name, kind in wanted.items():
        if not isinstance(result.get(name), kind):
            raise Damaged(f"result.json has no usable `{name}`")
    for name in (result["setting"], *result["accuracy"]):
        rows = result["accuracy_matrix"].get(name)
        if not _number(result["accuracy"].get(name)):
            raise Damaged(f"result.json has no {name} accuracy")
        if not (isinstance(rows, list) and rows and all(
                isinstance(row, list) and row and all(map(_number, row)) for row in rows)):
            raise Damaged(f"result.json has no whole {name} accuracy matrix")
    transfer = result.setdefault("transfer", {})
    if not (isinstance(transfer, dict) and all(
            isinstance(values, dict) and all(map(_number, values.values()))
            for values in transfer.values())):
        raise Damaged("result.json has no usable `transfer`")
    for name in ("seed", "buffer_size"):
        if not isinstance(result.setdefault(name, None), int | None):
            raise Damaged(f"result.json has no usable `{name}`")


def _evaluations(folder):
    """How many tasks an unfinished run had evaluated."""
    try:
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return sum('"event": "task"' in line for line in lines.splitlines())


def _measures(folder, remarks):
    """The uncertainty summary if it is there and whole."""
    try:
        value = _json(folder / "uncertainty" / "summary.json")
    except FileNotFoundError:
        if (folder / "uncertainty").is_dir():
            remarks.append("The folder `uncertainty` has no summary.json yet; python -m "
                           f"npcl_plugin.uncertainty {folder} makes it.")
        return None
    except Damaged as error:
        remarks.append(f"Uncertainty is left out: {error}; python -m npcl_plugin.uncertainty "
                       f"{folder} makes it anew.")
        return None
    if value.get("format") != 1:
        remarks.append("Uncertainty is left out: summary.json has a format that this report does "
                       f"not know; python -m npcl_plugin.uncertainty {folder} makes it anew.")
        return None
    return value


def read_run(folder, name):
    """One run.

    Raises:
        Damaged: it is unfinished or a file of it is broken.
    """
    try:
        asked = _json(folder / "args.json")
    except FileNotFoundError:
        raise Damaged("args.json is missing, so its command is unknown") from None
    command, args = asked.get("command"), asked.get("args")
    if not isinstance(command, str) or not isinstance(args, dict):
        raise Damaged("args.json has no usable command")
    try:
        result = _json(folder / "result.json")
    except FileNotFoundError:
        raise Damaged(f"not finished: {_evaluations(folder)} task(s) evaluated, no "
                      "result.json") from None
    _check(result)
    remarks = []
    run = Run(name, result, args, command, None, remarks)
    run.measures = _measures(folder, remarks)
    return run


def _command_of(folder):
    """The command of a run that is left out, if that much can be read."""
    try:
        command = _json(folder / "args.json").get("command")
    except (FileNotFoundError, Damaged):
        return ""
    return command if isinstance(command, str) else ""


def read_folder(root):
    """All runs below a folder, newest first among repetitions.

    Returns:
        (runs, left out)
    """
    folders = sorted({path.parent for mark in MARKS for path in Path(root).rglob(mark)})
    runs, out = [], []
    for folder in folders:
        name = folder.relative_to(root).as_posix()
        name = folder.resolve().name if name == "." else name
        try:
            runs.append(read_run(folder, name))
        except Damaged as error:
            out.append(LeftOut(name, str(error), _command_of(folder)))
    return runs, out


def _settings(run):
    """The arguments that decide the numbers, apart from the seed; 1 and 1.0 are the same."""
    return {k: f"{v:g}" if isinstance(v, (int, float)) else json.dumps(v, sort_keys=True)
            for k, v in run.args.items() if k not in SAME_EXPERIMENT}


def _variants(groups):
    """Name what differs between groups of one method, dataset and buffer."""
    settings = [_settings(group.runs[0]) for group in groups]
    names = sorted({k for one in settings for k in one if len({s.get(k) for s in settings}) > 1})
    for group, one in zip(groups, settings, strict=True):
        group.variant = ", ".join(f"{k}={one[k].strip(chr(34))}" for k in names if k in one)


def group_runs(runs):
    """Runs by experiment; of repetitions the newest counts, and one with uncertainty before all.

    Returns:
        (groups in the order of the page, the repetitions that were passed over)
    """
    found, repeated = {}, []
    for run in runs:
        r = run.result
        place = (r["dataset"], r["model"], r["buffer_size"], json.dumps(_settings(run),
                                                                       sort_keys=True))
        seeds = found.setdefault(place, {})
        other = seeds.get(r["seed"])
        if other is not None:
            if other.measures and not run.measures:
                run, other = other, run
            repeated.append(LeftOut(other.name, f"the same experiment as {run.name}",
                                    other.command))
        seeds[r["seed"]] = run
    groups = [Group(dataset, model, buffer, [seeds[s] for s in sorted(seeds, key=str)])
              for (dataset, model, buffer, _), seeds in found.items()]
    groups.sort(key=lambda g: (g.dataset, -1 if g.buffer is None else g.buffer, g.model))
    relatives = {}
    for group in groups:
        relatives.setdefault((group.dataset, group.model, group.buffer), []).append(group)
    for family in relatives.values():
        if len(family) > 1:
            _variants(family)
    lows = _lowest(groups)
    shown = [(group, run) for group in groups for run in group.runs]
    for number, (group, run) in enumerate(shown):
        run.group, run.number, run.scale_low = group, number, lows[group.dataset]
    return groups, repeated


def _lowest(groups):
    """Dataset -> setting -> where accuracy scales begin, so that its runs share one scale."""
    lows = {}
    for group in groups:
        place = lows.setdefault(group.dataset, {})
        for run in group.runs:
            for setting in run.result["accuracy_matrix"]:
                least = min(v for row in run.stages(setting) for v in row)
                place[setting] = min(place.get(setting, 90), 10 * math.floor(least / 10))
    return lows
