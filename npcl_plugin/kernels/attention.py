"""Attention of rows that meet only their own kind, by `attention.c` and `block.c`.

The same numbers as torch's layers with a mask, up to rounding, in half of the time where rows are
few: pairs that must not meet are never looked at, and the layers of tasks need no sorting.
"""
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable

from npcl_plugin.kernels.operators import define

Tensors = tuple[torch.Tensor, ...]


class BlockWeights(NamedTuple):
    """Of the layers of a block; with T tasks those of T, side by side."""

    project: torch.Tensor  # (3 O, O) query, key and value; (T, O, 3 O)
    project_bias: torch.Tensor  # (3 O,); (T, 3 O)
    out: torch.Tensor  # (O, O); (T, O, O) the other way round
    out_bias: torch.Tensor  # (O,); (T, O), as those of the normalisation
    scale: torch.Tensor
    shift: torch.Tensor


def block(rows: torch.Tensor, owner: torch.Tensor | None, weights: BlockWeights,
          n_attention_heads: int, task: torch.Tensor | None = None) -> torch.Tensor:
    """norm(x + out(attention(project(x)))): rows of one owner attend to each other.

    Args:
        rows: x (R, O).
        owner: (R,) small whole numbers, as floats; None if all rows have the same one.
        task: (R,) whose layers a row takes, as floats; None if there is one for all.

    Returns:
        (R, O)
    """
    found: torch.Tensor = _apply_block(rows, task, owner, *weights, n_attention_heads)
    return found


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
           owners: tuple[torch.Tensor, torch.Tensor] | None,
           n_attention_heads: int) -> torch.Tensor:
    """Queries (n, O) attend to the keys and values (m, O) of their own owner.

    Args:
        owners: (n,), (m,) as in `block`; every owner of a query has a key.

    Returns:
        (n, O)
    """
    of_queries, of_keys = owners or (None, None)
    if torch.is_grad_enabled():
        found: torch.Tensor = _apply_attend(query, key, value, of_queries, of_keys,
                                            n_attention_heads)
        return found
    found, _ = torch.ops.npcl.attend(query.contiguous(), key.contiguous(), value.contiguous(),
                                     of_queries, of_keys, n_attention_heads)
    return found


class _Block(torch.autograd.Function):
    """The operator with its gradient."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, task: torch.Tensor | None,
                owner: torch.Tensor | None, *others: Any) -> Any:
        *weights, ctx.n_heads = others
        inputs = (rows.contiguous(), task, owner, *weights)
        found, *trace = torch.ops.npcl.block(*inputs, ctx.n_heads)
        ctx.save_for_backward(*inputs, *trace)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inputs, trace = ctx.saved_tensors[:9], ctx.saved_tensors[9:]
        of_rows, *of_weights = torch.ops.npcl.block_backward(grad.contiguous(), *inputs,
                                                             ctx.n_heads, *trace)
        return (of_rows, None, None, *of_weights, None)


class _Attend(torch.autograd.Function):
    """The operator with its gradient."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                of_queries: torch.Tensor | None, of_keys: torch.Tensor | None,
                n_heads: int) -> Any:
        inputs = (query.contiguous(), key.contiguous(), value.contiguous(), of_queries, of_keys)
        out, log_sums = torch.ops.npcl.attend(*inputs, n_heads)
        ctx.save_for_backward(*inputs, log_sums)
        ctx.n_heads = n_heads
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        *inputs, log_sums = ctx.saved_tensors
        found = torch.ops.npcl.attend_backward(grad.contiguous(), *inputs, ctx.n_heads, log_sums)
        return (*found, None, None, None)


_apply_block: Any = _Block.apply
_apply_attend: Any = _Attend.apply


def _empty_trace(rows: torch.Tensor, task: torch.Tensor | None, owner: torch.Tensor | None,
                 *others: Any) -> Tensors:
    """Result, projected rows, log-sums, mixed and normalised rows, inverse deviations."""
    count, size = rows.shape
    return (torch.empty_like(rows), rows.new_empty(count, 3 * size),
            rows.new_empty(count, others[-1]), torch.empty_like(rows), torch.empty_like(rows),
            rows.new_empty(count))


def _empty_gradients(grad: torch.Tensor, rows: torch.Tensor, task: torch.Tensor | None,
                     owner: torch.Tensor | None, *others: Any) -> Tensors:
    return tuple(torch.empty_like(each) for each in (rows, *others[:6]))


def _empty_attended(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                    of_queries: torch.Tensor | None, of_keys: torch.Tensor | None,
                    n_heads: int) -> Tensors:
    """Result and log-sums."""
    return torch.empty_like(query), query.new_empty(query.shape[0], n_heads)


def _tensors(count: int) -> str:
    return f"({', '.join(['Tensor'] * count)})"


_ROWS = "Tensor rows, Tensor? task, Tensor? owner, " \
        + ", ".join(f"Tensor {name}" for name in BlockWeights._fields)
define(f"block({_ROWS}, int n_heads) -> {_tensors(6)}", _empty_trace)
define(f"block_backward(Tensor grad, {_ROWS}, int n_heads, Tensor projected, Tensor log_sums, "
       f"Tensor mixed, Tensor normal, Tensor inverse_sd) -> {_tensors(7)}", _empty_gradients)
_PARTS = "Tensor query, Tensor key, Tensor value, Tensor? of_queries, Tensor? of_keys, int n_heads"
define(f"attend({_PARTS}) -> {_tensors(2)}", _empty_attended)
define(f"attend_backward(Tensor grad, {_PARTS}, Tensor log_sums) -> {_tensors(3)}",
       lambda grad, *inputs: tuple(torch.empty_like(each) for each in inputs[:3]))
