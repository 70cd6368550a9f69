"""Attention of rows that meet only their own kind, by `attention.c` and `block.c`.

The same numbers as torch's layers with a mask, up to rounding, in half of the time where rows are
few: pairs that must not meet are never looked at, and the layers of tasks need no sorting.
"""
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable

from npcl_plugin.kernels.operators import call, define

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
    found: torch.Tensor = _apply_attend(query, key, value, *(owners or (None, None)),
                                        n_attention_heads)
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
        of_rows, *of_weights = torch.ops.npcl.block_backward(grad.contiguous(), *ctx.saved_tensors,
                                                             ctx.n_heads)
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
        found = torch.ops.npcl.attend_backward(grad.contiguous(), *ctx.saved_tensors, ctx.n_heads)
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


def _block(rows: torch.Tensor, task: torch.Tensor | None, owner: torch.Tensor | None,
           *others: Any) -> Tensors:
    *weights, n_heads = others
    count, size = rows.shape
    found = _empty_trace(rows, task, owner, *others)
    call("block_forward", rows, task, owner, *weights, count, _n_tasks(task, weights), n_heads,
          size, *found)
    return found


def _block_backward(grad: torch.Tensor, rows: torch.Tensor, task: torch.Tensor | None,
                    owner: torch.Tensor | None, *others: Any) -> Tensors:
    weights, trace, n_heads = others[:6], others[6:-1], others[-1]
    count, size = rows.shape
    found = _empty_gradients(grad, rows, task, owner, *others)
    call("block_backward", grad, rows, task, owner, *weights, count, _n_tasks(task, weights),
          n_heads, size, *trace, *found)
    return found


def _n_tasks(task: torch.Tensor | None, weights: Any) -> int:
    return 1 if task is None else len(weights[0])


def _empty_attended(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                    of_queries: torch.Tensor | None, of_keys: torch.Tensor | None,
                    n_heads: int) -> Tensors:
    """Result and log-sums."""
    return torch.empty_like(query), query.new_empty(query.shape[0], n_heads)


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
            of_queries: torch.Tensor | None, of_keys: torch.Tensor | None,
            n_heads: int) -> Tensors:
    inputs = (query, key, value, of_queries, of_keys)
    found = _empty_attended(*inputs, n_heads)
    call("attend", *inputs, *_sizes(query, key, n_heads), *found)
    return found


def _attend_backward(grad: torch.Tensor, query: torch.Tensor, key: torch.Tensor,
                     value: torch.Tensor, of_queries: torch.Tensor | None,
                     of_keys: torch.Tensor | None, log_sums: torch.Tensor,
                     n_heads: int) -> Tensors:
    found = (torch.empty_like(query), torch.empty_like(key), torch.empty_like(value))
    call("attend_backward", grad, query, key, value, of_queries, of_keys, log_sums,
          *_sizes(query, key, n_heads), *found)
    return found


def _sizes(query: torch.Tensor, key: torch.Tensor, n_heads: int) -> tuple[int, ...]:
    count, width = query.shape
    return count, key.shape[0], n_heads, width // n_heads


def _tensors(count: int) -> str:
    return f"({', '.join(['Tensor'] * count)})"


_ROWS = "Tensor rows, Tensor? task, Tensor? owner, " \
        + ", ".join(f"Tensor {name}" for name in BlockWeights._fields)
define(f"block({_ROWS}, int n_heads) -> {_tensors(6)}", _block, _empty_trace)
define(f"block_backward(Tensor grad, {_ROWS}, Tensor projected, Tensor log_sums, Tensor mixed, "
        f"Tensor normal, Tensor inverse_sd, int n_heads) -> {_tensors(7)}", _block_backward,
        _empty_gradients)
_PARTS = "Tensor query, Tensor key, Tensor value, Tensor? of_queries, Tensor? of_keys"
define(f"attend({_PARTS}, int n_heads) -> {_tensors(2)}", _attend, _empty_attended)
define(f"attend_backward(Tensor grad, {_PARTS}, Tensor log_sums, int n_heads) -> {_tensors(3)}",
        _attend_backward,
        lambda grad, *inputs: tuple(torch.empty_like(each) for each in inputs[:3]))
