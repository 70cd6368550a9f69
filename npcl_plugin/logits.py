"""What a decoder says about a batch of targets, each under its own head, draw by draw."""
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from npcl_plugin.kernels import decoder as kernels
from npcl_plugin.layout import Cells, Slots

# A sum of exponentials, each at most 1, below which single precision cannot be trusted.
SMALLEST_SUM = 1e-30


class FullLogits:
    """Logits of every draw and target.

    Args:
        values: (S, B, C).
    """

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    def plus(self, others: torch.Tensor) -> "FullLogits":
        """With the logits (B, C) of somebody else added to each draw."""
        return FullLogits(self.values + others)

    def all_draws(self) -> torch.Tensor:
        """(S, B, C)."""
        return self.values

    def mean(self) -> torch.Tensor:
        """Over the draws: (B, C)."""
        return self.values.mean(0)

    def cross_entropy(self, labels: torch.Tensor, weight: torch.Tensor | None = None,
                      unchecked: list[torch.Tensor] | None = None) -> torch.Tensor:
        """-E_q [log p(y | x, z)]: mean over draws and targets, or their sum with weights (B,)."""
        losses = F.cross_entropy(self.values.mT, labels.expand(len(self.values), -1),
                                 reduction="mean" if weight is None else "none")
        return losses if weight is None else losses.mean(0) @ weight


class HiddenLogits:
    """Logits of a decoder with one hidden layer, which are made when somebody asks for them.

    Args:
        targets: (B, O) the targets' part of the hidden layer.
        draws: (S, turns K, O) the draws' part, of which targets take turns.
        cells: which of the K heads is each target's.
        last: the layer from there to logits.
        full: all of them.
    """

    def __init__(self, targets: torch.Tensor, draws: torch.Tensor, cells: Cells, last: nn.Linear,
                 full: Callable[[], FullLogits]) -> None:
        self.targets, self.draws, self.cells, self.last = targets, draws, cells, last
        self.full = full

    def plus(self, others: torch.Tensor) -> FullLogits:
        """With the logits (B, C) of somebody else added to each draw."""
        return self.full().plus(others)

    def all_draws(self) -> torch.Tensor:
        """(S, B, C)."""
        return self.full().all_draws()

    def mean(self) -> torch.Tensor:
        """Over the draws: (B, C)."""
        return self.full().mean()

    def cross_entropy(self, labels: torch.Tensor, weight: torch.Tensor | None = None,
                      unchecked: list[torch.Tensor] | None = None) -> torch.Tensor:
        """-E_q [log p(y | x, z)]: mean over draws and targets, or their sum with weights (B,)."""
        return kernels.cross_entropy(self.targets, self.draws, self.cells.cell, self.last.weight,
                                     self.last.bias, labels, weight, self.cells.tasks.shape[0])


class AdditiveLogits:
    """Logits that are a part of the target plus a part of its head's draw.

    The (S, B, C) of them need not be made: see `cross_entropy`.

    Args:
        targets: (B, C).
        draws: (S, K, C).
        cells: which of the K heads is each target's.
    """

    def __init__(self, targets: torch.Tensor, draws: torch.Tensor, cells: Cells) -> None:
        self.targets, self.draws, self.cells = targets, draws, cells

    def plus(self, others: torch.Tensor) -> "AdditiveLogits":
        """With the logits (B, C) of somebody else added to each draw."""
        return AdditiveLogits(self.targets + others, self.draws, self.cells)

    def all_draws(self) -> torch.Tensor:
        """(S, B, C)."""
        return self.targets + self.draws.index_select(1, self.cells.cell)

    def mean(self) -> torch.Tensor:
        """Over the draws: (B, C)."""
        return torch.addmm(self.targets, self.cells.own, self.draws.mean(0))

    def cross_entropy(self, labels: torch.Tensor, weight: torch.Tensor | None = None,
                      unchecked: list[torch.Tensor] | None = None) -> torch.Tensor:
        """-E_q [log p(y | x, z)]: mean over draws and targets, or their sum with weights (B,).

        Args:
            unchecked: takes the smallest of the normalising sums if somebody else will compare
                it with `SMALLEST_SUM`, at or below which the value is worth nothing.
        """
        value: torch.Tensor
        value, least = _cross_entropy(self.targets, self.draws, self.cells.slots, labels, weight)
        if unchecked is not None:
            unchecked.append(least)
        elif not float(least) > SMALLEST_SUM:
            return FullLogits(self.all_draws()).cross_entropy(labels, weight)
        return value


class _AdditiveCrossEntropy(torch.autograd.Function):
    """-sum_b w_b mean_s log softmax(a_b + d_s)[y_b], without the sums a + d.

    exp(a + d) = exp(a) exp(d), so that all normalising sums are products of small matrices, one
    for each slot: n slots of w targets that have the same head. The gradient, softmax minus
    one-hot, is a product of the same matrices, and as the result is a number it is known forwards
    but for a factor. The least of the sums is returned too.
    """

    @staticmethod
    def forward(ctx: Any, targets: torch.Tensor, draws: torch.Tensor, slots: Slots,
                labels: torch.Tensor, weight: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        n_draws, n_heads, _ = draws.shape
        a = slots.pack(targets - targets.amax(1, keepdim=True))  # (n, w, C)
        d = (draws - draws.amax(-1, keepdim=True)).transpose(0, 1)  # (K, S, C)
        d = d.index_select(0, slots.tasks)  # (n, S, C)
        exp_a, exp_d = a.exp(), d.exp()
        total = torch.bmm(exp_a, exp_d.mT)  # (n, w, S)
        each = slots.weights(a, weight)  # (n, w, 1)
        right = torch.zeros_like(a).scatter_(2, slots.pack(labels.unsqueeze(1)), each)  # w y
        value = (total.log() * each).sum() / n_draws - ((a + d.mean(1, keepdim=True)) * right).sum()
        share = (each / n_draws) / total  # (n, w, S)
        of_targets = torch.bmm(share, exp_d).mul_(exp_a).sub_(right)  # (n, w, C)
        of_draws = torch.bmm(share.mT, exp_a).mul_(exp_d).sub_(
            right.sum(1, keepdim=True), alpha=1 / n_draws)  # (n, S, C)
        of_heads = of_draws.new_zeros(n_heads, *of_draws.shape[1:])
        of_heads.index_add_(0, slots.tasks, of_draws)
        ctx.save_for_backward(slots.unpack(of_targets), of_heads.transpose(0, 1))
        least = total.min()
        ctx.mark_non_differentiable(least)
        return value, least

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        of_targets, of_draws = ctx.saved_tensors
        return grad * of_targets, grad * of_draws, None, None, None


_cross_entropy: Any = _AdditiveCrossEntropy.apply
