"""What the heads of a neural process know: their accuracy and entropy, and which one answers."""
from collections.abc import Iterator

from experiments.report.calibration import over_tasks
from experiments.report.figure import (
    SCALES,
    Figure,
    Section,
    Shown,
    number,
    percent,
    percent_rows,
    run_figure,
)
from experiments.report.heat import heat

SCALES["entropy"].append(("heads", "entropy"))


def _paper(shown: Shown, part: str) -> str:
    """The paper shows this for two benchmarks, under two numbers."""
    return f"fig09{part}" if shown.run.dataset == "seq-cifar100" else f"fig04{part}"


@run_figure("heads")
def head_maps(shown: Shown, heads: Section) -> Iterator[Figure]:
    """Accuracy and entropy of every head on every task."""
    low, high = shown.span(*SCALES["entropy"], floor=0)
    lowest = heads.get("true_head_lowest")
    yield Figure(
        "head-accuracy", "Accuracy of each head, %", heat(
            percent_rows(heads["accuracy"]), "tested on task", "head", low=0, high=100,
            mark_diagonal=True, label="Accuracy of each head on each task in percent"),
        "Row h is the answer of head h alone, column t the test set of task t. The outlined "
        "diagonal is the true head; it should stand out.", "Heads", _paper(shown, "a"))
    yield Figure(
        "head-entropy", "Entropy of each head, nats", heat(
            heads["entropy"], "tested on task", "head", low=low, high=high, digits=2, scale="q",
            mark_diagonal=True, label="Entropy of each head on each task in nats"),
        "Row h is how uncertain head h is, column t the test set of task t. The answering head is "
        "the one with the lowest entropy, so the outlined diagonal should be the lowest of its "
        "column.", "Heads", _paper(shown, "b"),
        f"The true head is the least uncertain for {number(100 * lowest, 0)} % of the tasks."
        if lowest is not None else "",
        "For every task its own head has the lowest entropy.",
        None if lowest is None else lowest == 1)


@run_figure("heads")
def head_inference(shown: Shown, heads: Section) -> Iterator[Figure]:
    """Which head answers, and how often it is the right one."""
    shares = []
    for row in heads["confusion"]:
        total = sum(row)
        shares.append([100 * v / total if total else None for v in row])
    yield Figure(
        "head-confusion", "Which head answers, % of a task's samples", heat(
            shares, "answering head", "true task", low=0, high=100, mark_diagonal=True,
            label="Share of each task's samples that each head answers, in percent"),
        "Row t: to which heads the samples of task t go. Off the outlined diagonal the model "
        "mistakes one task for another. Rows sum to 100.", "Heads")
    line = percent(heads["inference_accuracy"])
    yield Figure(
        "head-inference", "Head inference over tasks", over_tasks(
            [("head inference", line)], "right head, %", floor=0, ceiling=101),
        "Share of samples answered by the head of their own task, pooled over the tasks seen.",
        "Heads", facts=f"At the end {number(line[-1], 1)} %.")
