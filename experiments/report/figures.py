"""The figures of this package and of the plugins, and what they are made of."""
import importlib
import math
from collections.abc import Sequence

from experiments.contributions import load_contributions
from experiments.identity import Experiment
from experiments.report.figure import Methods, Shown
from experiments.report.theme import N_SERIES
from experiments.run import Run

_OWN = ("answers", "accuracy", "calibration", "novel")


def load_figures() -> None:
    """Import whatever registers figures, in the order of the page."""
    for name in _OWN:
        importlib.import_module(f"experiments.report.{name}")
    load_contributions()


def shown_runs(experiments: Sequence[Experiment]) -> list[Shown]:
    """Every run with its place on the page."""
    peers: dict[str, list[Run]] = {}
    for one in experiments:
        peers.setdefault(one.dataset, []).extend(one.runs)
    lowest = {dataset: _lowest(runs) for dataset, runs in peers.items()}
    pairs = [(one, run) for one in experiments for run in one.runs]
    return [Shown(run, one, i, lowest[one.dataset], peers[one.dataset])
            for i, (one, run) in enumerate(pairs)]


def _lowest(runs: Sequence[Run]) -> float:
    """Where accuracy scales begin, so that all runs and settings of a benchmark share one."""
    least = min((value for run in runs for setting in run.matrix
                 for row in run.stages(setting) for value in row), default=0.0)
    return min(90, 10 * math.floor(least / 10))


def styles_of(experiments: Sequence[Experiment]) -> dict[str, int]:
    """Label -> style: the same on the whole page, and different colours within a benchmark.

    Only a benchmark with more methods than there are colours repeats one, then with another dash
    and marker.
    """
    styles: dict[str, int] = {}
    for label in sorted({one.label for one in experiments}):
        where = {one.dataset for one in experiments if one.label == label}
        beside = {styles[one.label] for one in experiments
                  if one.dataset in where and one.label in styles}
        style = 0
        while style in beside or (style % N_SERIES in {s % N_SERIES for s in beside}
                                  and style < N_SERIES):
            style += 1
        styles[label] = style
    return styles


def methods_by_benchmark(experiments: Sequence[Experiment]) -> list[Methods]:
    """One comparison per dataset and buffer; methods without a buffer stand in each of them."""
    styles = styles_of(experiments)
    found = []
    for dataset in dict.fromkeys(one.dataset for one in experiments):
        own = [one for one in experiments if one.dataset == dataset]
        sizes = sorted({one.buffer for one in own if one.buffer is not None})
        found += [Methods(dataset, size, [one for one in own if one.buffer in (None, size)], styles)
                  for size in (sizes or (None,))]
    return found
