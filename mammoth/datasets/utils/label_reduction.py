"""Semi-supervised variants: some training samples lose their label (it becomes -1)."""
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np

UNLABELED = -1


def labelled_rows(batch: Sequence[Any]) -> list[Any]:
    """A batch (images, labels, ...) without its unlabelled samples.

    The training loop leaves them out of `observe`; a method that passes over a task by itself
    asks here.
    """
    known = batch[1] != UNLABELED
    return list(batch) if known.all() else [part[known] for part in batch]


def unlabeled_positions(targets: np.ndarray, args: Namespace, classes_per_task: int,
                        rng: np.random.Generator) -> np.ndarray:
    """Which samples of a task lose their label.

    `--label_perc` keeps the same number of labels for every class, that fraction of the task's
    average class; `--label_perc_by_class` keeps that fraction of each class.

    Args:
        targets: (N,) labels of the task.
        classes_per_task: number of classes among which the task's samples are shared.

    Returns:
        Positions, empty when all labels stay.
    """
    by_task, by_class = (1 if value is None else value for value in (
        getattr(args, "label_perc", None), getattr(args, "label_perc_by_class", None)))
    if by_task == 1 and by_class == 1:
        return np.empty(0, dtype=np.int64)
    lost = []
    for label in np.unique(targets):
        members = np.flatnonzero(targets == label)
        average = len(targets) // classes_per_task
        kept = int(by_task * average) if by_task != 1 else int(by_class * len(members))
        lost.append(rng.permutation(members)[min(kept, len(members)):])
    return np.sort(np.concatenate(lost))
