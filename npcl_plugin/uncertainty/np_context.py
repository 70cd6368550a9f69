"""The NP family's buffer as its networks see it, for the analyses of latents and attention."""
from typing import Any, NamedTuple

import torch

from npcl_plugin.inference import evaluating

_BATCH = 256


class Context(NamedTuple):
    """Features, labels and tasks of all rows of the buffer."""

    x: torch.Tensor  # (m, F)
    labels: torch.Tensor  # (m,)
    tasks: torch.Tensor  # (m,)


@torch.no_grad()
def context_of(model: Any) -> Context | None:
    """The whole buffer in evaluation mode; None while it is empty."""
    buffer = model.buffer
    if buffer.is_empty():
        return None
    count = len(buffer)
    with evaluating(model.net):
        x = torch.cat([model.net.features(model.normalise(part.to(model.device)))
                       for part in buffer.examples[:count].split(_BATCH)])
    return Context(x, buffer.labels[:count].to(model.device),
                   buffer.task_labels[:count].to(model.device))


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
