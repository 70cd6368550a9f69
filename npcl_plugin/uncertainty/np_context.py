"""Rows and heads of the NP family, for the analyses of latents and attention."""
from typing import Any

import torch


def thinned(tasks: torch.Tensor, share: float) -> torch.Tensor:
    """Rows of an evenly spaced `share` of every task, one at least: (m,) -> row numbers."""
    step = max(round(1 / share), 1)
    order = tasks.argsort(stable=True)
    _, counts = tasks[order].unique_consecutive(return_counts=True)
    first = (counts.cumsum(0) - counts).repeat_interleave(counts)
    return order[(torch.arange(len(tasks), device=tasks.device) - first) % step == 0]


def head_count(model: Any) -> int:
    """H: heads that take part in inference."""
    return max(int(model.net.n_heads), 1) if model.net.plan.has_task else 1
