"""A memory of what inputs look like: the mean and the variance of every number of an input.

NPCL's memory keeps distributions of latents; this one keeps those of the inputs themselves, as
an evaluation sees them, of each class, or of each task where tasks are domains. They are taken
from D_C^t when a task begins. Novel inputs are far from all of them, whatever the network makes
of them.
"""
from typing import Any

import torch

# Added to all variances, as a share of their mean: a number that never changed is not certain.
_LEAST_VARIANCE = 0.01


class InputMemory:
    """Sums over inputs, group by group.

    It has `state_dict`, so the harness's checkpoints keep it.

    Args:
        n_groups: classes, or tasks.
    """

    def __init__(self, n_groups: int) -> None:
        self.counts = torch.zeros(n_groups, dtype=torch.long)  # (n,)
        self.sums = torch.zeros(n_groups, 0, dtype=torch.float64)  # (n, D)
        self.squares = self.sums.clone()  # (n, D)

    def add(self, inputs: torch.Tensor, groups: torch.Tensor) -> None:
        """Take in a batch (B, ...) of these groups (B,)."""
        rows = inputs.flatten(1)
        if not self.sums.numel():  # the first batch says how many numbers an input has
            self.sums = rows.new_zeros(len(self.counts), rows.shape[1], dtype=torch.float64)
            self.squares, self.counts = self.sums.clone(), self.counts.to(rows.device)
        self.sums.index_add_(0, groups, rows.double())
        self.squares.index_add_(0, groups, rows.double().square())
        self.counts += groups.bincount(minlength=len(self.counts))

    def numbers(self) -> int:
        """How many numbers are stored: two of each number of an input and a count, per group."""
        return sum(part.numel() for part in (self.sums, self.squares, self.counts))

    def state_dict(self) -> dict[str, torch.Tensor]:
        """All sums."""
        return {"counts": self.counts, "sums": self.sums, "squares": self.squares}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Become the memory that `state_dict` was taken from."""
        self.counts, self.sums, self.squares = (state[name] for name in
                                                ("counts", "sums", "squares"))

    def unlikeness(self, inputs: torch.Tensor) -> torch.Tensor | None:
        """How unlike every group inputs (B, ...) are, (B,) from 0 to 1; None if nothing is known.

        The mean over the numbers of (x - mean)^2 / variance is d, 1 for a typical input; the
        least one of the groups counts, as d / (1 + d).
        """
        known = self.counts > 0
        if not known.any():
            return None
        count = self.counts[known].unsqueeze(1)
        mean = self.sums[known] / count  # (n', D)
        variance = self.squares[known] / count - mean.square()
        precision = 1 / (variance + _LEAST_VARIANCE * variance.mean(1, keepdim=True)).clamp_min(
            torch.finfo(torch.float32).tiny)
        rows = inputs.flatten(1).to(mean)
        distance = (rows.square() @ precision.t() - 2 * rows @ (mean * precision).t()
                    + (mean.square() * precision).sum(1)) / rows.shape[1]  # (B, n')
        least = distance.amin(1).clamp_min(0)
        return (least / (1 + least)).to(inputs)


def group_count(dataset: Any) -> int:
    """How many groups a benchmark has: tasks where they are domains, else classes."""
    return int(dataset.N_TASKS if dataset.SETTING == "domain-il" else dataset.N_CLASSES)


def groups_of(labels: torch.Tensor, task: int, dataset: Any) -> torch.Tensor:
    """The groups (B,) of a task's samples with these labels (B,)."""
    return torch.full_like(labels, task) if dataset.SETTING == "domain-il" else labels
