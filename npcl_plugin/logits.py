"""What a decoder says about a batch of targets, each under its own head, draw by draw."""
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


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

    def rows(self, which: slice) -> "FullLogits":
        """Of some targets."""
        return FullLogits(self.values[:, which])

    def all_draws(self) -> torch.Tensor:
        """(S, B, C)."""
        return self.values

    def mean(self) -> torch.Tensor:
        """Over the draws: (B, C)."""
        return self.values.mean(0)

    def cross_entropy(self, labels: torch.Tensor) -> torch.Tensor:
        """-E_q [log p(y | x, z)]: mean over draws and targets."""
        return F.cross_entropy(self.values.mT, labels.expand(len(self.values), -1))


class AdditiveLogits:
    """Logits that are a part of the target plus a part of its head's draw.

    The (S, B, C) of them are made in the loss alone, where forwards and backwards are one.

    Args:
        targets: (B, C).
        draws: (S, K, C).
        chosen: (B, K) the head of each target, one-hot.
    """

    def __init__(self, targets: torch.Tensor, draws: torch.Tensor, chosen: torch.Tensor) -> None:
        self.targets, self.draws, self.chosen = targets, draws, chosen

    def plus(self, others: torch.Tensor) -> "AdditiveLogits":
        """With the logits (B, C) of somebody else added to each draw."""
        return AdditiveLogits(self.targets + others, self.draws, self.chosen)

    def rows(self, which: slice) -> "AdditiveLogits":
        """Of some targets."""
        return AdditiveLogits(self.targets[which], self.draws, self.chosen[which])

    def all_draws(self) -> torch.Tensor:
        """(S, B, C)."""
        return _summed(self.targets, self.draws, self.chosen).mT

    def mean(self) -> torch.Tensor:
        """Over the draws: (B, C)."""
        return torch.addmm(self.targets, self.chosen, self.draws.mean(0))

    def cross_entropy(self, labels: torch.Tensor) -> torch.Tensor:
        """-E_q [log p(y | x, z)]: mean over draws and targets."""
        value: torch.Tensor = _cross_entropy(self.targets, self.draws, self.chosen, labels)
        return value


def _summed(targets: torch.Tensor, draws: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """(S, C, B): laid out so that a softmax over C runs along B, which is several times faster."""
    # One product over all draws; a batch of fifty small ones takes three times as long.
    return torch.matmul(draws.mT.contiguous(), chosen.t()) + targets.t()


class _AdditiveCrossEntropy(torch.autograd.Function):
    """The gradient, softmax minus one-hot, is summed up at once: only small tensors are kept."""

    @staticmethod
    def forward(ctx: Any, targets: torch.Tensor, draws: torch.Tensor, chosen: torch.Tensor,
                labels: torch.Tensor) -> torch.Tensor:
        log_probs = _summed(targets, draws, chosen).log_softmax(1)  # (S, C, B)
        n_draws, _, n_targets = log_probs.shape
        index = labels.expand(n_draws, 1, -1)
        value = -log_probs.gather(1, index).mean()
        error = log_probs.exp_()  # (S, C, B)
        error.scatter_add_(1, index, error.new_full((), -1.0).expand(index.shape))
        scale = 1.0 / (n_draws * n_targets)
        of_draws = torch.matmul(error, chosen).mul_(scale)  # (S, C, K)
        ctx.save_for_backward(error.sum(0).mul_(scale).t(), of_draws.mT)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        of_targets, of_draws = ctx.saved_tensors
        return grad * of_targets, grad * of_draws, None, None


_cross_entropy: Any = _AdditiveCrossEntropy.apply
