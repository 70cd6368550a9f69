"""What is kept of the whole stream where features never change: the mean of each class.

On frozen features (`--features`) a sample is the same vector for ever, so the sums that a set
encoder averages can be kept: F numbers per class, whatever the number of its samples. The means are
context beside the buffer's samples. And a sample of the stream that is moved from its own class's
mean to another's is one of that class, as far as classes differ in their means alone (which linear
discriminant analysis takes for granted too; FeTrIL, Petit et al. 2023, moves samples likewise):
past classes are rehearsed without any sample of theirs.

Features differ in scale and go together, so plain gradient steps learn the rare directions last.
With `--stream_shrinkage` below 1 the scatter of the samples around their means is kept too (F x F,
what linear discriminant analysis keeps), and its inverse shapes the steps of the layer that reads
the features.
"""
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from npcl_plugin.context import Context, covering_rows
from npcl_plugin.contract import usage_error

_ROWS_AT_A_TIME = 4096


def refuse_where_features_drift(args: Namespace) -> None:
    """Means of inputs say something about new inputs on frozen features only."""
    if not getattr(args, "features", None):
        raise usage_error("--stream_context keeps class means, which are worth keeping of frozen "
                          "features only; give --features or leave it out.")
    if args.stream_shrinkage < 1 and args.backbone != "identity":
        raise usage_error("--stream_shrinkage below 1 shapes the steps of a layer on the features "
                          f"themselves, which --backbone {args.backbone} has not; give 1.")


class ClassMeans(nn.Module):
    """The sum and number of each class's samples so far, as part of every checkpoint.

    Args:
        n_classes: C.
        size: numbers of a sample, F.
        shrinkage: weight of the identity in the scatter that shapes steps; 1: none is kept.
    """

    sums: torch.Tensor  # (C, F)
    products: torch.Tensor  # (F, F) sum of x x^T; (0, 0) where no scatter is kept
    counts: torch.Tensor  # (C,)
    tasks: torch.Tensor  # (C,) the task that showed the class

    def __init__(self, n_classes: int, size: int, shrinkage: float = 1.0) -> None:
        super().__init__()
        self.shrinkage, kept = shrinkage, size if shrinkage < 1 else 0
        self._shape: tuple[int, torch.Tensor] | None = None
        self.register_buffer("sums", torch.zeros(n_classes, size, dtype=torch.float64))
        self.register_buffer("products", torch.zeros(kept, kept, dtype=torch.float64))
        self.register_buffer("counts", torch.zeros(n_classes, dtype=torch.long))
        self.register_buffer("tasks", torch.zeros(n_classes, dtype=torch.long))

    def add(self, data: Any, task_of: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Take in a task's training set; unlabelled samples (-1) are left out.

        Args:
            task_of: labels (n,) -> tasks (n,).
        """
        for rows in torch.arange(len(data.targets)).split(_ROWS_AT_A_TIME):
            x, labels = data.fetch(rows)[:2]
            known = labels >= 0
            labels, x = labels[known].to(self.counts.device), x[known].flatten(1).to(self.sums)
            self.sums.index_add_(0, labels, x)
            if len(self.products):
                self.products.addmm_(x.T, x)
            self.counts += labels.bincount(minlength=len(self.counts))
            self.tasks[labels] = task_of(labels)

    def numbers(self) -> int:
        """How many numbers are stored: a class's mean, count and task, and the scatter."""
        return sum(part.numel() for part in self.buffers())

    def scatter(self) -> torch.Tensor:
        """(F, F): mean of (x - class mean)(x - class mean)^T over all samples."""
        means = self.sums / self.counts.clamp(min=1).unsqueeze(1)
        return (self.products - self.sums.T @ means) / self.counts.sum()

    def step_shape(self) -> torch.Tensor:
        """(F, F), the inverse of (1 - s) scatter / v + s I: v the mean variance, s the shrinkage.

        Gradients times this are longest where samples of a class differ least.
        """
        if self._shape is None or self._shape[0] != self.products._version:
            scatter = self.scatter()
            mixed = (1 - self.shrinkage) * scatter / scatter.diagonal().mean()
            mixed.diagonal().add_(self.shrinkage)
            inverse = torch.cholesky_inverse(torch.linalg.cholesky(mixed)).float()
            self._shape = self.products._version, inverse
        return self._shape[1]

    @torch.no_grad()
    def shape_step(self, weight: nn.Parameter) -> None:
        """Turn the gradient of weights (n, F) on the features into the step's direction."""
        if len(self.products) and weight.grad is not None:
            weight.grad = weight.grad @ self.step_shape()

    def of(self, labels: torch.Tensor) -> torch.Tensor:
        """Means (n, F) of classes (n,)."""
        return (self.sums[labels] / self.counts[labels].unsqueeze(1)).float()

    def context(self) -> Context:
        """The classes seen so far as labelled samples: their means."""
        labels = self.counts.nonzero().squeeze(1)
        return Context(self.of(labels), labels, self.tasks[labels])

    def rehearsal(self, x: torch.Tensor, labels: torch.Tensor, count: int, n_means: int,
                  task: int) -> Context:
        """Rows of the tasks before `task`: `n_means` means or more, then `count` moved samples.

        Every such task is among the means.

        Args:
            x: (n, F) whose differences from their means are moved.
            labels: (n,) of them.
        """
        past = ((self.counts > 0) & (self.tasks < task)).nonzero().squeeze(1)
        if not len(past):
            return Context(x[:0], labels[:0], labels[:0])
        donors = torch.arange(count, device=x.device) % len(labels)
        classes = past[torch.randint(len(past), (count,), device=x.device)]
        moved = x[donors] + self.of(classes) - self.of(labels[donors])
        chosen = past[covering_rows(self.tasks[past], n_means)]
        classes = torch.cat((chosen, classes))
        return Context(torch.cat((self.of(chosen), moved)), classes, self.tasks[classes])

    def log_odds(self, tasks: torch.Tensor, task: int) -> torch.Tensor:
        """Log-odds (B, C) at which classes compete for the rows of a step, of the tasks (B,).

        A step has more rows of each class of `task`, the newest, than of each past class; with
        the ratio in the softmax of training, what is learned holds for even classes.
        """
        odds = self.sums.new_zeros(len(self.counts), dtype=torch.float32)
        past = (self.counts > 0) & (self.tasks < task)
        if past.any():
            new, rows = (self.counts > 0) & ~past, (tasks == task).sum()
            odds[new] = torch.log(rows / new.sum()) - torch.log((len(tasks) - rows) / past.sum())
        return odds.expand(len(tasks), -1)
