"""Which task a sample belongs to, where labels alone have to tell it."""
from argparse import Namespace
from typing import Any

import torch

from npcl_plugin.contract import usage_error


def class_ends(dataset: Any, args: Namespace) -> list[int]:
    """Where the classes of each task of the benchmark end: the heads of `--multitask 1`.

    Joint training makes one task of the benchmark object; its class still knows the tasks.
    """
    if not getattr(args, "joint", 0):
        raise usage_error("--multitask 1 learns all tasks of a class-IL benchmark together; give "
                          "--joint 1 too.")
    kind = type(dataset)
    per_task = kind.N_CLASSES_PER_TASK
    sizes = [per_task] * kind.N_TASKS if isinstance(per_task, int) else list(per_task)
    return torch.tensor(sizes).cumsum(0).tolist()


def tasks_of(labels: torch.Tensor, current: int, ends: list[int] | None) -> torch.Tensor:
    """Task numbers (B,): the current one, or by class range where `ends` is given."""
    if ends is None:
        return torch.full_like(labels, current)
    return torch.bucketize(labels, torch.tensor(ends, device=labels.device), right=True)
