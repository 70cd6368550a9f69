"""Which task a sample belongs to, where several are learned at once (`--multitask 1`).

In class-IL the label tells it; where domains are joined the benchmark sends it along, as the
extra field `task_ids` of each sample.
"""
from argparse import Namespace
from typing import Any

import torch

from npcl_plugin.contract import usage_error


def class_ends(dataset: Any, args: Namespace) -> list[int]:
    """Where the classes of each task of the benchmark end: the heads of `--multitask 1`.

    Joint training makes one task of the benchmark object; its class still knows the tasks. In
    domain-IL every task ends at the last class, so labels tell nothing there.
    """
    if not getattr(args, "joint", 0):
        raise usage_error("--multitask 1 learns all tasks of a benchmark together; give --joint 1 "
                          "too.")
    kind = type(dataset)
    if dataset.SETTING == "domain-il":
        return [dataset.N_CLASSES] * kind.N_TASKS
    per_task = kind.N_CLASSES_PER_TASK
    sizes = [per_task] * kind.N_TASKS if isinstance(per_task, int) else list(per_task)
    return torch.tensor(sizes).cumsum(0).tolist()


def task_ids_of(data: Any, batch: Any) -> torch.Tensor | None:
    """Task numbers (B,) that come with a batch of `data`, if any do."""
    names = getattr(data, "extra_return_fields", ())
    return batch[3 + names.index("task_ids")] if "task_ids" in names else None


def tasks_of(labels: torch.Tensor, current: int, ends: list[int] | None,
             task_ids: torch.Tensor | None = None) -> torch.Tensor:
    """Task numbers (B,): the current one or, where `ends` is given, `task_ids` or by class."""
    if ends is None:
        return torch.full_like(labels, current)
    if task_ids is not None:
        return task_ids
    return torch.bucketize(labels, torch.tensor(ends, device=labels.device), right=True)
