"""Multi-head dot-product attention, residual and normalised afterwards (as Set Transformers).

Without the LayerNorm after the residual sum training diverges within two tasks at the
published learning rates.
"""
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from npcl_plugin.layers.stacked import StackedLayerNorm, StackedLinear


def multi_head(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, heads: int,
               mask: torch.Tensor | None = None) -> torch.Tensor:
    """Scaled dot-product attention of `heads` equal parts of the last dimension.

    Args:
        query: (G, n, O); G groups attend separately.
        key, value: (G, m, O).
        mask: (G, n or 1, m), False where a query must not see a key.

    Returns:
        (G, n, O)
    """
    def split(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)  # (G, heads, n, O / heads)

    allowed = None if mask is None else mask.unsqueeze(1)
    mixed = F.scaled_dot_product_attention(split(query), split(key), split(value), allowed)
    return mixed.transpose(1, 2).flatten(-2)


class CrossAttention(nn.Module):
    """CA(K, V, Q) of the paper, appendix C, with its own projections.

    Features and latents live in different spaces, so the residual is the projected query.

    Args:
        size: O, of values and result.
        heads: number of heads; divides O.
        n_query: input size of queries and keys.
    """

    def __init__(self, size: int, heads: int, n_query: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(n_query, size)
        self.key = nn.Linear(n_query, size)
        self.value = nn.Linear(size, size)
        self.out = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)
        for layer in (self.query, self.key, self.value, self.out):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def prepare(self, keys: torch.Tensor,
                values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Project keys (m, n_query) and values (m, O) once for many queries."""
        return self.key(keys), self.value(values)

    def attend(self, queries: torch.Tensor, prepared: tuple[torch.Tensor, torch.Tensor],
               mask: torch.Tensor | None = None) -> torch.Tensor:
        """Queries (n, n_query) against prepared keys and values -> (n, O); mask (n, m)."""
        query = self.query(queries)
        key, value = prepared
        mixed = multi_head(query[None], key[None], value[None], self.heads,
                           None if mask is None else mask[None])[0]
        return self.norm(query + self.out(mixed))


class SelfAttention(nn.Module):
    """CA(s, s, s) of the paper: rows attend to each other, in G groups that never meet.

    Query, key and value are one product.
    """

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)
        for part in (*self.project.weight.detach().chunk(3), self.out.weight):
            nn.init.xavier_uniform_(part)
        for layer in (self.project, self.out):
            nn.init.zeros_(layer.bias)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """(G, n, O) -> (G, n, O); mask (G, n, n), False where a row must not see another."""
        query, key, value = self.project(x).chunk(3, dim=-1)
        return self.norm(x + self.out(multi_head(query, key, value, self.heads, mask)))


class TaskwiseSelfAttention(nn.Module):
    """SA^t of the paper for all tasks at once: each task's rows attend to each other only.

    Args:
        count: T.
        size: O.
        heads: number of heads.
    """

    def __init__(self, count: int, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = StackedLinear(count, size, 3 * size)  # query, key and value in one product
        self.out = StackedLinear(count, size, size)
        self.norm = StackedLayerNorm(count, size)
        self.project.initialise(size, size)  # three layers, not one wide one

    def forward(self, rows: torch.Tensor, groups: Any,
                mask: torch.Tensor | None = None) -> torch.Tensor:
        """Rows (B, O), sorted into tasks by `groups`; the result is packed, (T', n_max, O).

        Args:
            mask: (G, n, n), B = G n, which rows of each of G sets may meet; then only the
                projections are packed by task, which is cheaper where tasks are so unequal that
                packed attention would be mostly padding. By default all rows of a task meet.
        """
        packed, tasks = groups.pack(rows), groups.tasks
        projected = self.project(packed, tasks)  # (T', n_max, 3 O)
        if mask is None:
            padding = groups.mask.unsqueeze(1) if len(tasks) > 1 else None  # one fills its places
            mixed = multi_head(*projected.chunk(3, dim=-1), self.heads, padding)
        else:
            apart = groups.unpack(projected).unflatten(0, mask.shape[:2])  # (G, n, 3 O)
            mixed = groups.pack(multi_head(*apart.chunk(3, dim=-1), self.heads, mask).flatten(0, 1))
        return self.norm(packed + self.out(mixed, tasks), tasks)
