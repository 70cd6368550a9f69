"""How long runs will take, from runs that were measured, or from a guess that says so."""
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import UsageError
from experiments.command_line import given_by
from experiments.compact import read_compact
from experiments.identity import counts
from experiments.paths import ROOT
from experiments.sweeps.display import duration
from experiments.sweeps.execution import Outcome
from experiments.sweeps.specification import RunSpec

Measured = tuple[dict[str, str], float]  # arguments, seconds

_LENGTH = ("n_epochs", "n_iters", "fitting_mode", "stop_after", "backbone", "batch_size", "joint",
           "debug_mode", "label_perc", "dataset_config", "features", "image_size")
# Training images per task and seconds of one thread for ER to learn from one of them (processor
# seconds of its steps on an EPYC with AVX-512, 19 November 2026).
_IMAGES = {"mnist": 12000, "fmnist": 12000, "digits": 290, "cifar10": 10000, "cifar100": 5000,
           "tinyimg": 10000}
_SECONDS = {"identity": 1e-4, "mlp": 1.5e-4, "mnistmlp": 1.7e-5, "smallconv": 1.1e-4,
            "resnet18": 0.033, "reduced-resnet18": 0.0052, "resnet32": 0.0059, "resnet34": 0.067}
# How dear a method is beside ER, by its backbone; plugins add theirs.
COSTS: dict[str, Callable[[str], float]] = {}
_START = 1.0  # settings, data and the last summary, which a run's own clock does not count


@dataclass
class Estimate:
    """Seconds of one run and where the figure comes from."""

    seconds: float
    source: str  # measured, similar or guess


def measured_runs(folder: Path = ROOT / "results") -> list[Measured]:
    """(arguments, seconds) of every run in the compact files of a folder; damaged ones aside."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            runs, _ = read_compact(path)
        except UsageError:
            continue
        found += [(_plain(given_by(run.command)), run.seconds) for run in runs
                  if run.seconds is not None]
    return found


def _plain(given: Mapping[str, Any]) -> dict[str, str]:
    """What a run's time may depend on, in one spelling."""
    names = ("model", "dataset", "buffer_size")
    return {name: str(value).replace("_", "-") for name, value in given.items()
            if value is not None and (name in names or counts(name))}


def estimate(spec: RunSpec, *sources: list[Measured]) -> Estimate:
    """The mean of the same run on other seeds, else of its nearest relatives, else a guess.

    Args:
        sources: runs that were measured, (arguments, seconds) each; the first source that has
            such a run counts.
    """
    mine = _plain(spec.given)
    length = {name: mine.get(name) for name in _LENGTH}
    for word in ("measured", "similar"):
        for source in sources:
            values = [seconds for given, seconds in source
                      if (given == mine if word == "measured" else
                          given.get("model") == mine["model"])
                      and given.get("dataset") == mine["dataset"]
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
    backbone = str(getattr(args, "backbone", ""))
    backbone = max((name for name in _SECONDS if backbone.endswith(name)), key=len, default="")
    cost, dear = _SECONDS.get(backbone, 0.05), COSTS.get(spec.given["model"].replace("_", "-"))
    if dear is not None:
        cost *= dear(backbone)
    epochs: int = getattr(args, "n_epochs", None) or 1
    if getattr(args, "debug_mode", False):
        images = min(images, 320)
    return spec.n_tasks * images * epochs * cost


def expected_time(specs: Iterable[RunSpec], jobs: int,
                  known: Iterable[tuple[RunSpec, Outcome]] = ()) -> tuple[dict[str, float], str]:
    """How long runs take.

    Args:
        known: runs that were finished before, on this machine as a rule.

    Returns:
        Seconds of each run by its key, and the sentence that says how long all of them take.
    """
    here = [(_plain(spec.given), outcome.run.seconds or 0.0) for spec, outcome in known
            if outcome.run is not None]
    committed = measured_runs()
    found = {spec.key: estimate(spec, here, committed) for spec in specs}
    if not found:
        return {}, "nothing to do"
    seconds = {key: e.seconds for key, e in found.items()}
    sources = Counter(e.source for e in found.values())
    words = {"measured": "from the same run on other seeds", "similar": "from similar runs",
             "guess": "guessed, one thread without a GPU"}
    basis = ", ".join(f"{sources[source]} {said}" for source, said in words.items()
                      if sources[source])
    wall = max(sum(seconds.values()) / max(1, jobs), *seconds.values())
    return seconds, f"about {duration(math.ceil(wall))} at {jobs} a time ({basis})"
