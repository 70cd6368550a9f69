"""The numbers of summary.json's headline: each declared once, with its meaning and how it is had.

`summary.py` computes them, `printing.py` prints them beside their definitions, and `report/` hands
them to the tables and the report of `experiments`.
"""
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Summary = dict[str, Any]


@dataclass(frozen=True)
class Measure:
    """A number of the headline.

    Args:
        label: in tables; empty for a number that tables have from elsewhere.
        of: from the summary's sections to the number; may fail where a section is absent.
        section: the section that must be there.
        better: 1 if more is better, -1 if less is, 0 if neither.
        compared: whether it stands beside accuracy in comparisons.
    """

    name: str
    label: str
    definition: str
    of: Callable[[Summary], Any]
    section: str = "calibration"
    digits: int = 3
    better: int = 0
    compared: bool = False


SCORES = {
    "max_softmax": ("max softmax", "1 - largest probability"),
    "entropy": ("entropy", "Mean entropy of the predicted probabilities, in nats"),
    "energy": ("energy", "-logsumexp of the outputs"),
    "variance_softmax": ("var. softmax", "variance over draws of a class's probability, mean over "
                         "classes, under the answering head"),
    "variance_entropy": ("var. entropy", "variance over draws of the softmax's entropy, under the "
                         "answering head"),
    "distance": ("distance", "least angle between a sample's features and those in the context, as "
                 "a share of a right angle, times the unlikeness of its inputs with "
                 "--input_memory; with --novelty_by looks how unlike the context an image looks, "
                 "times the answer's entropy; what the NP family answers as `novel`"),
}


def _at_the_end(name: str) -> Callable[[Summary], Any]:
    return lambda summary: summary["calibration"]["after_task"][name][-1]


def _novelty(kind: str, score: str) -> Callable[[Summary], Any]:
    return lambda summary: summary["novelty"][kind][score][-1]


def _heads_accuracy(summary: Summary, own: bool) -> float:
    """Mean over tasks of the accuracy of their own heads, or of all others."""
    table = np.asarray(summary["heads"]["accuracy"], dtype=np.float64)  # (heads, tasks)
    n_heads, n_tasks = table.shape
    mine = np.arange(n_heads)[:, None] == np.arange(n_tasks)
    return float(np.nanmean(table[mine if own else ~mine]))


def _own_share(summary: Summary) -> float:
    return float(np.nanmean(np.asarray(summary["attention"]["own_share"], dtype=np.float64)))


MEASURES = (
    Measure("accuracy", "", "Share of right answers on the saved subset of the test sets.",
            _at_the_end("accuracy")),
    Measure("ece", "ECE", "Expected calibration error: 15 bins of equal width over the predicted "
            "class's probability, mean of |accuracy - confidence| weighted by samples "
            "(torchmetrics).", _at_the_end("ece"), better=-1, compared=True),
    Measure("ace_classwise", "ACE class-wise", "Adaptive calibration error of Nixon et al. (2019): "
            "for every class 15 bins of equal mass over its probability, unweighted mean over "
            "classes and bins of |frequency - probability|.", _at_the_end("ace_classwise"),
            better=-1),
    Measure("ace_top_equal_mass", "ACE top label, equal mass", "As ECE, but with 15 bins of equal "
            "mass; what some libraries call ACE.", _at_the_end("ace_top_equal_mass"), better=-1),
    Measure("nll", "NLL", "Mean negative logarithm of the true class's probability, in nats.",
            _at_the_end("nll"), better=-1),
    Measure("brier", "Brier", "Mean squared distance of the probabilities to the one-hot label, "
            "summed over classes (0 to 2).", _at_the_end("brier"), better=-1),
    Measure("rejection_area", "Rejection area", "Accuracy of the samples kept, averaged over all "
            "numbers of samples kept, least confident left out first.",
            _at_the_end("rejection_area"), better=1),
    Measure("bwt_accuracy", "", "Backward transfer: accuracy at the end minus accuracy when "
            "learned, mean over all tasks but the last.",
            lambda summary: summary["transfer"]["mean_accuracy"], "transfer"),
    Measure("bwt_entropy", "BWT of entropy", "Backward transfer of uncertainty: mean entropy at "
            "the end minus when learned, mean over all tasks but the last.",
            lambda summary: summary["transfer"]["mean_entropy"], "transfer"),
    Measure("head_inference_accuracy", "Head inference", "Share of samples answered by the head of "
            "their own task.", lambda summary: summary["heads"]["inference_accuracy"][-1], "heads",
            better=1),
    Measure("true_head_accuracy", "", "Accuracy where the head of a sample's own task answers, "
            "mean over tasks.", lambda summary: _heads_accuracy(summary, own=True), "heads"),
    Measure("other_heads_accuracy", "", "Accuracy where another task's head answers, mean over "
            "tasks and heads.", lambda summary: _heads_accuracy(summary, own=False), "heads"),
    *(Measure(f"{kind}_{score}", f"{title} {label}", f"{words}; score: {meaning}.",
              _novelty(kind, score), "novelty", better=better)
      for kind, title, words, better in (
          ("auroc", "AUROC", "P(novel scores higher than known)", 1),
          ("fpr95", "FPR95", "Share of novel below the score that 95 % of known stay below", -1))
      for score, (label, meaning) in SCORES.items()),
    Measure("piw_correct", "PIW right", "Mean PIW of samples whose majority vote over draws is "
            "right; in the headline under the true task's head, as in the paper.",
            lambda summary: summary["confidence"]["true_head"]["piw_correct"], "confidence"),
    Measure("piw_incorrect", "PIW wrong", "Mean PIW of samples whose majority vote over draws is "
            "wrong; likewise.", lambda summary: summary["confidence"]["true_head"]["piw_incorrect"],
            "confidence"),
    Measure("active_units_global", "Active units", "Units of the global latent whose KL is above "
            "0.01 nats.", lambda summary: summary["latents"]["active_global"][-1], "latents",
            digits=1),
    Measure("own_task_share", "Own-task attention", "Share of a sample's attention that falls on "
            "context of its own task.", _own_share, "attention"),
)


def headline(summary: Summary) -> dict[str, Any]:
    """name -> number of everything that the summary's sections have."""
    found = {}
    for measure in MEASURES:
        scores = (summary["novelty"] or {}).get("scores", ())
        absent = measure.section == "novelty" and measure.name.split("_", 1)[1] not in scores
        if summary[measure.section] and not absent:
            found[measure.name] = measure.of(summary)
    return found
