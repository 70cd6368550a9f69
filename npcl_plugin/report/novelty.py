"""Variance over draws on known and on novel data, which only methods that draw have."""
from collections.abc import Iterator

from experiments.report.calibration import over_tasks
from experiments.report.figure import Figure, Section, Shown, number, run_figure
from experiments.report.novel import against, score_name
from experiments.report.svg import finite


@run_figure("novelty")
def novelty_variance(shown: Shown, novelty: Section) -> Iterator[Figure]:
    """Variance over draws on known and on novel data (baselines have none: then entropy)."""
    for score in ("variance_softmax", "variance_entropy"):
        if score not in novelty["scores"]:
            continue
        lines = [("in distribution", novelty["mean_id"][score]),
                 ("novel", novelty["mean_ood"][score])]
        known, novel = lines[0][1][-1], lines[1][1][-1]
        ratio = f" Novel ÷ known at the end: {novel / known:.2f}." if finite(
            (known, novel)) and known and novel is not None else ""
        yield Figure(
            f"novelty-{score.replace('_', '-')}", f"Novel data: {score_name(score)} over draws",
            over_tasks(lines, score_name(score), floor=0),
            "The paper's claim: the upper line is the novel data, by far. Mean over images of the "
            f"variance over draws of the answering head. {against(novelty)}.", "Novel data",
            "tab05", f"At the end: in distribution {number(known, 4)}, novel {number(novel, 4)}."
            + ratio)
