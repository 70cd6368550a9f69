"""Linear layers and their normalisations, by `linear.c` and `norms.c`.

The same numbers as torch's, up to rounding. A layer of a task is used where it stands, and products
of a few hundred rows take half of the time of a library that is made for other processors.
"""
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from npcl_plugin.kernels.operators import define


def linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
           task: torch.Tensor | None = None) -> torch.Tensor:
    """x W + b of each row, by the layer of its task if there are several.

    Args:
        rows: (..., in); (n, width, in) with tasks.
        weight: (out, in); (T, in, out).
        bias: (out,); (T, out).
        task: (n,).

    Returns:
        (..., out)
    """
    if torch.is_grad_enabled():
        found: torch.Tensor = _apply_linear(rows, task, weight, bias)
        return found
    found = torch.ops.npcl.linear(rows.contiguous(), task, weight, bias)
    return found


def rectified_norm(rows: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor,
                   task: torch.Tensor | None = None) -> torch.Tensor:
    """relu(scale normal(x) + shift) of each row, with those of its task if there are several.

    Args:
        rows: (..., size); (n, width, size) with tasks.
        scale, shift: (size,); (T, size).
        task: (n,).
    """
    if torch.is_grad_enabled():
        found: torch.Tensor = _apply_norm(rows, task, scale, shift)
        return found
    found = torch.ops.npcl.only_rectified_norm(rows.contiguous(), task, scale, shift)
    return found


class _Linear(torch.autograd.Function):
    """The operator with its gradient."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, task: torch.Tensor | None, weight: torch.Tensor,
                bias: torch.Tensor | None) -> Any:
        inputs = (rows.contiguous(), task, weight)
        ctx.save_for_backward(*inputs)
        ctx.biased = bias is not None
        return torch.ops.npcl.linear(*inputs, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        of_rows, of_weight, of_bias = torch.ops.npcl.linear_backward(
            grad.contiguous(), *ctx.saved_tensors, ctx.biased)
        return of_rows, None, of_weight, of_bias if ctx.biased else None


class _RectifiedNorm(torch.autograd.Function):
    """The operator with its gradient."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, task: torch.Tensor | None, scale: torch.Tensor,
                shift: torch.Tensor) -> Any:
        found, *trace = torch.ops.npcl.rectified_norm(rows.contiguous(), task, scale, shift)
        ctx.save_for_backward(found, task, scale, *trace)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        of_rows, of_scale, of_shift = torch.ops.npcl.rectified_norm_backward(
            grad.contiguous(), *ctx.saved_tensors)
        return of_rows, None, of_scale, of_shift


_apply_linear: Any = _Linear.apply
_apply_norm: Any = _RectifiedNorm.apply


def _empty(rows: torch.Tensor, task: torch.Tensor | None, weight: torch.Tensor,
           bias: torch.Tensor | None) -> torch.Tensor:
    return rows.new_empty(*rows.shape[:-1], weight.shape[0 if task is None else 2])


def _empty_slopes(grad: torch.Tensor, rows: torch.Tensor, task: torch.Tensor | None,
                  weight: torch.Tensor, biased: bool) -> tuple[torch.Tensor, ...]:
    """Of rows, weight and bias."""
    stack = () if task is None else (weight.shape[0],)
    return (torch.empty_like(rows), torch.empty_like(weight),
            grad.new_empty(*stack, grad.shape[-1] if biased else 0))


def _empty_norm(rows: torch.Tensor, task: torch.Tensor | None, scale: torch.Tensor,
                shift: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Result, normalised rows, inverse deviations."""
    return torch.empty_like(rows), torch.empty_like(rows), rows.new_empty(rows.shape[:-1])


def _empty_norm_slopes(grad: torch.Tensor, found: torch.Tensor, task: torch.Tensor | None,
                       scale: torch.Tensor, *trace: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Of rows, scale and shift."""
    return torch.empty_like(grad), torch.empty_like(scale), torch.empty_like(scale)


_LAYER = "Tensor rows, Tensor? task, Tensor weight"
_NORM = "Tensor rows, Tensor? task, Tensor scale, Tensor shift"
define(f"linear({_LAYER}, Tensor? bias) -> Tensor", _empty)
define(f"linear_backward(Tensor grad, {_LAYER}, bool biased) -> (Tensor, Tensor, Tensor)",
       _empty_slopes)
define(f"rectified_norm({_NORM}) -> (Tensor, Tensor, Tensor)", _empty_norm)
define(f"only_rectified_norm({_NORM}) -> Tensor", lambda rows, *_: torch.empty_like(rows))
define("rectified_norm_backward(Tensor grad, Tensor found, Tensor? task, Tensor scale, "
       "Tensor normal, Tensor inverse_sd) -> (Tensor, Tensor, Tensor)", _empty_norm_slopes)
