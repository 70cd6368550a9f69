"""What a decoder with one hidden layer says, by `decoder.c`: its cross-entropy and its answers."""
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from npcl_plugin.kernels.operators import define


def cross_entropy(targets: torch.Tensor, draws: torch.Tensor, cell: torch.Tensor,
                  weight: torch.Tensor, bias: torch.Tensor, labels: torch.Tensor,
                  share: torch.Tensor | None, n_cells: int) -> torch.Tensor:
    """Mean over draws of -log p(y), summed up by shares of the targets; logits W relu(a + d) + b.

    Args:
        targets: a (B, O).
        draws: d (S, turns K, O), of which targets take turns: see `Cells.own_in`.
        cell: (B,) of the K cells.
        weight: W (C, O).
        bias: b (C,).
        labels: (B,).
        share: (B,) equal ones by default.
        n_cells: K.
    """
    found: torch.Tensor = _apply(targets, draws, cell, weight, bias, labels, share, n_cells)
    return found


def answers(targets: torch.Tensor, draws: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor,
            all_heads: bool) -> torch.Tensor:
    """Mean probabilities over the draws, of logits W relu(a + d) + b; without gradients.

    Args:
        targets: a (B, O).
        draws: d (T', S, O).
        weight: W (C, O).
        bias: b (C,).
        all_heads: the mean over all heads instead of the one of least entropy.

    Returns:
        (B, C)
    """
    found: torch.Tensor = torch.ops.npcl.decoder_answers(
        targets.contiguous(), draws.contiguous(), weight, bias, all_heads)
    return found


class _CrossEntropy(torch.autograd.Function):
    """As the result is a number, the gradient is known forwards but for a factor."""

    @staticmethod
    def forward(ctx: Any, targets: torch.Tensor, draws: torch.Tensor, cell: torch.Tensor,
                weight: torch.Tensor, bias: torch.Tensor, labels: torch.Tensor,
                share: torch.Tensor | None, n_cells: int) -> Any:
        loss, *slopes = torch.ops.npcl.decoder_loss(
            targets.contiguous(), draws.contiguous(), cell, weight, bias, labels, share, n_cells)
        ctx.save_for_backward(*slopes)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        of_targets, of_draws, of_weight, of_bias = (grad * each for each in ctx.saved_tensors)
        return of_targets, of_draws, None, of_weight, of_bias, None, None, None


_apply: Any = _CrossEntropy.apply


def _empty(targets: torch.Tensor, draws: torch.Tensor, cell: torch.Tensor, weight: torch.Tensor,
           bias: torch.Tensor, labels: torch.Tensor, share: torch.Tensor | None,
           n_cells: int) -> tuple[torch.Tensor, ...]:
    """Result and gradients."""
    return (targets.new_empty(()), *map(torch.empty_like, (targets, draws, weight, bias)))


define("decoder_loss(Tensor targets, Tensor draws, Tensor cell, Tensor weight, Tensor bias, "
       "Tensor labels, Tensor? share, SymInt n_cells) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
       _empty)
define("decoder_answers(Tensor targets, Tensor draws, Tensor weight, Tensor bias, bool all_heads) "
       "-> Tensor",
       lambda targets, draws, weight, *_: targets.new_empty(targets.shape[0], weight.shape[0]))
