"""How long runs will take, from runs that were measured, or from a guess that says so."""
import json
import math
import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.paths import ROOT
from experiments.sweeps.display import duration
from experiments.sweeps.execution import Outcome
from experiments.sweeps.specification import RunSpec, from_words

_ASIDE = {"seed", "base_path", "results_path", "checkpoint_path", "uncertainty"}
_LENGTH = ("n_epochs", "n_iters", "fitting_mode", "stop_after", "backbone", "batch_size", "joint",
           "debug_mode", "label_perc", "dataset_config")
# Training images a task and seconds of one thread for ER to learn from one of them.
_IMAGES = {"mnist": 12000, "fmnist": 12000, "digits": 290, "cifar10": 10000, "cifar100": 5000,
           "tinyimg": 10000}
_SECONDS = {"mnistmlp": 5e-5, "resnet18": 0.12, "reduced-resnet18": 0.02, "resnet32": 0.03,
            "resnet34": 0.25}
_START = 8.0  # imports, data and the last summary, which a run's own clock does not count


@dataclass
class Estimate:
    """Seconds of one run and where the figure comes from."""

    seconds: float
    source: str  # measured, similar or guess


def measured_runs(folder: Path = ROOT / "results") -> list[tuple[dict[str, Any], float]]:
    """(arguments, seconds) of every run in the compact files of a folder."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            continue
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and "command" in entry and "seconds" in entry:
                words = shlex.split(entry["command"])[2:]
                found.append((_plain(from_words(words)), float(entry["seconds"])))
    return found


def _plain(given: dict[str, Any]) -> dict[str, str]:
    return {k: str(v).replace("_", "-") for k, v in given.items()
            if k not in _ASIDE and v is not None}


def estimate(spec: RunSpec, *sources: list[tuple[dict[str, Any], float]]) -> Estimate:
    """The mean of the same run on other seeds, else of its nearest relatives, else a guess.

    Args:
        sources: runs that were measured, (arguments, seconds) each; the first source that has
            such a run counts.
    """
    mine = _plain(spec.given)
    length = {name: mine.get(name) for name in _LENGTH}
    for word, fits in (("measured", lambda given: given == mine),
                       ("similar", lambda given: given.get("model") == mine["model"])):
        for source in sources:
            values = [seconds for given, seconds in source
                      if fits(given) and given.get("dataset") == mine["dataset"]
                      and {name: given.get(name) for name in _LENGTH} == length]
            if values:
                return Estimate(_START + sum(values) / len(values), word)
    return Estimate(_START + guess(spec), "guess")


def guess(spec: RunSpec) -> float:
    """Images times the cost of one, on one thread of a processor without a GPU."""
    args = spec.args
    kind = spec.given["dataset"].replace("_", "-").split("-")[-1]
    images = _IMAGES.get(kind, 10000)
    if spec.given["dataset"].replace("_", "-") in ("perm-mnist", "rot-mnist"):
        images *= 5
    if getattr(args, "joint", 0):
        images *= 5
    backbone = str(getattr(args, "backbone", "")).replace("npcl-", "")
    cost = _SECONDS.get(backbone, 0.05) * _cost_of_method(spec.given["model"], backbone)
    epochs = getattr(args, "n_epochs", None) or 1
    if getattr(args, "debug_mode", False):
        images = min(images, 320)
    return spec.n_tasks * images * epochs * cost


def _cost_of_method(model: str, backbone: str) -> float:
    """Relative to ER: neural processes cost a few small layers, which an MLP feels most."""
    if model.replace("_", "-") not in ("npcl", "npcl-plus", "st-npcl", "anp", "np"):
        return 1.0
    return 4.0 if backbone == "mnistmlp" else 1.15


def expected_time(specs: Iterable[RunSpec], jobs: int,
                  known: Iterable[tuple[RunSpec, Outcome]] = ()) -> tuple[dict[str, float], str]:
    """How long runs take.

    Args:
        known: runs that were finished before, on this machine as a rule.

    Returns:
        Seconds of each run by its key, and the sentence that says how long all of them take.
    """
    here = [(_plain(spec.given), outcome.result["seconds"]) for spec, outcome in known
            if outcome.result is not None]
    committed = measured_runs()
    found = {spec.key: estimate(spec, here, committed) for spec in specs}
    if not found:
        return {}, "nothing to do"
    seconds = {key: e.seconds for key, e in found.items()}
    counts = Counter(e.source for e in found.values())
    words = {"measured": "from the same run on other seeds", "similar": "from similar runs",
             "guess": "guessed, one thread without a GPU"}
    basis = ", ".join(f"{counts[source]} {said}" for source, said in words.items()
                      if counts[source])
    wall = max(sum(seconds.values()) / max(1, jobs), *seconds.values())
    return seconds, f"about {duration(math.ceil(wall))} at {jobs} a time ({basis})"
