"""Which figures a run has, and which a table of methods has."""
from dataclasses import dataclass

import report_accuracy
import report_calibration
import report_confidence
import report_cost
import report_heads
import report_latents
import report_novel
from report_figure import make
from report_theme import N_SERIES

BASIC = (report_accuracy.accuracy_matrices,)
MEASURED = (
    report_calibration.calibration_errors, report_calibration.reliability,
    report_calibration.rejection, report_calibration.proper_scores,
    report_calibration.entropy_matrix, report_calibration.transfer,
    report_heads.head_maps, report_heads.head_inference,
    report_novel.novelty_scores, report_novel.novelty_variance, report_novel.novelty_histograms,
    report_confidence.interval_widths, report_confidence.test_status,
    report_confidence.quantile_plots,
    report_latents.latent_norms, report_latents.latent_units, report_latents.latent_drift,
    report_latents.attention_queries, report_latents.attention_share,
    report_latents.self_attention, report_cost.context_sizes, report_cost.draws)
BETWEEN = (
    report_accuracy.accuracy_curves, report_accuracy.first_task_curves,
    report_calibration.error_curves, report_calibration.rejection_curves,
    report_novel.novelty_by_method, report_latents.drift_by_method, report_cost.times_by_method)


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
