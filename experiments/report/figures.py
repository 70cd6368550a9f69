"""Which figures a run has, and which a table of methods has."""
from dataclasses import dataclass

from experiments.report import (
    accuracy,
    calibration,
    confidence,
    cost,
    heads,
    latents,
    novel,
)
from experiments.report.figure import make
from experiments.report.theme import N_SERIES

BASIC = (accuracy.accuracy_matrices,)
MEASURED = (
    calibration.calibration_errors, calibration.reliability,
    calibration.rejection, calibration.proper_scores,
    calibration.entropy_matrix, calibration.transfer,
    heads.head_maps, heads.head_inference,
    novel.novelty_scores, novel.novelty_variance, novel.novelty_histograms,
    confidence.interval_widths, confidence.test_status,
    confidence.quantile_plots,
    latents.latent_norms, latents.latent_units, latents.latent_drift,
    latents.attention_queries, latents.attention_share,
    latents.self_attention, cost.context_sizes, cost.draws)
BETWEEN = (
    accuracy.accuracy_curves, accuracy.first_task_curves,
    calibration.error_curves, calibration.rejection_curves,
    novel.novelty_by_method, latents.drift_by_method, cost.times_by_method)


@dataclass
class Table:
    """The methods of one dataset at one buffer size, with a style for each."""

    dataset: str
    buffer: int | None
    groups: list
    styles: dict


def styles_of(groups):
    """Label -> style: the same on the whole page, and different colours within a benchmark.

    Only a benchmark with more methods than there are colours repeats one, then with another dash
    and marker.
    """
    styles = {}
    for label in sorted({g.label for g in groups}):
        where = {g.dataset for g in groups if g.label == label}
        beside = {styles[g.label] for g in groups if g.dataset in where and g.label in styles}
        style = 0
        while style in beside or (style % N_SERIES in {s % N_SERIES for s in beside}
                                  and style < N_SERIES):
            style += 1
        styles[label] = style
    return styles


def tables(groups):
    """One table a dataset and buffer; methods without a buffer stand in each of the dataset's."""
    styles = styles_of(groups)
    found = []
    for dataset in dict.fromkeys(g.dataset for g in groups):
        own = [g for g in groups if g.dataset == dataset]
        sizes = sorted({g.buffer for g in own if g.buffer is not None}) or [None]
        found += [Table(dataset, size, [g for g in own if g.buffer in (None, size)], styles)
                  for size in sizes]
    return found


def run_figures(run, problems):
    """Everything that can be drawn of one run."""
    return make(BASIC + (MEASURED if run.measures else ()), run, problems)


def table_figures(table, problems):
    """Everything that puts methods side by side."""
    return make(BETWEEN, table, problems)
