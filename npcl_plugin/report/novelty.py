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
        lines = [("known", novelty["mean_id"][score]),
                 ("novel", novelty["mean_ood"][score])]
        known, novel = lines[0][1][-1], lines[1][1][-1]
        ratio = f" Novel ÷ known at the end: {novel / known:.2f}." if finite(
            (known, novel)) and known and novel is not None else ""
        yield Figure(
            f"novelty-{score.replace('_', '-')}", f"Novel data: {score_name(score)} over draws",
            over_tasks(lines, score_name(score), floor=0),
            "Mean over images of the variance over draws of the answering head. "
            f"{against(novelty)}", "Novel data", "tab05",
            f"At the end: known {number(known, 4)}, novel {number(novel, 4)}.{ratio}",
            "Novel images have the larger variance.",
            known < novel if finite((known, novel)) and known is not None
            and novel is not None else None)
