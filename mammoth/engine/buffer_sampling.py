"""Which rows of a buffer a draw may use."""
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from engine.errors import UsageError

if TYPE_CHECKING:
    from utils.buffer import Buffer


def rows_of_task(buffer: "Buffer", rows: torch.Tensor, task: int,
                 cpt: int | Sequence[int] | None) -> torch.Tensor:
    """Tell which of the rows belong to a task.

    Args:
        buffer: holds task labels, or class labels from which `cpt` tells the task.
        rows: (N,) row numbers.
        task: the task's number.
        cpt: classes per task, one number or one per task.

    Returns:
        (N,) bool, on the CPU.
    """
    if hasattr(buffer, "task_labels"):
        tasks = buffer.task_labels.cpu()[rows]
    elif hasattr(buffer, "labels") and cpt is not None:
        labels = buffer.labels.cpu()[rows]
        if isinstance(cpt, int):
            tasks = labels // cpt
        else:
            tasks = torch.bucketize(labels, torch.as_tensor(cpt).cumsum(0), right=True)
    else:
        raise UsageError(f"Expected the buffer to hold task_labels, or labels together with "
                         f"`cpt`, to select task {task}, but it holds "
                         f"{', '.join(buffer.used_attributes)}; store task_labels.")
    return tasks == task


def balanced_rows(buffer: "Buffer", rows: torch.Tensor, size: int,
                  n_classes: int) -> torch.Tensor:
    """Draw rows spread evenly over classes, without replacement.

    As many of the `n_classes` asked for (-1: all) are used as have enough rows for an even
    share; if even one class alone has not, the draw is uniform over all rows.

    Args:
        buffer: holds labels and the generator.
        rows: (N,) candidates.
        size: how many; at most N.
        n_classes: over how many classes.

    Returns:
        (size,) row numbers, grouped by class.
    """
    if not hasattr(buffer, "labels"):
        raise UsageError("Expected the buffer to hold labels for a balanced draw, but it does "
                         "not; pass `labels` to add_data.")
    rows = rows[torch.randperm(len(rows), generator=buffer.generator)]
    size = min(size, len(rows))
    labels = buffer.labels.cpu()[rows]
    classes, counts = labels.unique(return_counts=True)
    wanted = len(classes) if n_classes == -1 else min(n_classes, len(classes))
    for used in range(wanted, 0, -1):
        share, more = divmod(size, used)
        able = classes[counts >= share + (more > 0)]
        if len(able) >= used:
            break
    else:
        logging.getLogger("mammoth").warning(
            "No class has enough rows for a balanced draw of %d; drawing from all.", size)
        return rows[:size]
    chosen = able[torch.randperm(len(able), generator=buffer.generator)[:used]]
    return torch.cat([rows[labels == label][:share + (i < more)]
                      for i, label in enumerate(chosen)])
