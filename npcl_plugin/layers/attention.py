"""Multi-head dot-product attention, residual and normalised afterwards (as Set Transformers).

Without the LayerNorm after the residual sum training diverges within two tasks at the
published learning rates.
"""
from typing import cast

import torch
from torch import nn
from torch.nn import functional as F

from npcl_plugin.kernels import attention as kernels
from npcl_plugin.kernels.operators import fits
from npcl_plugin.layers.linear import Linear
from npcl_plugin.layers.stacked import StackedLayerNorm, StackedLinear
from npcl_plugin.layout import Arrangement, Layout, apart


def multi_head(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *,
               n_attention_heads: int, mask: torch.Tensor | None = None,
               scale: float | None = None) -> torch.Tensor:
    """Scaled dot-product attention of equal parts of the last dimension.

    Args:
        query: (G, n, O); G groups attend separately.
        key, value: (G, m, O).
        mask: (G, n or 1, m), False where a query must not see a key, or numbers to be added to
            the scores (see `layout.apart`), which is faster.
        scale: of the products; one over the root of a part's size by default.

    Returns:
        (G, n, O)
    """
    def split(x: torch.Tensor) -> torch.Tensor:
        parts: torch.Tensor = x.unflatten(-1, (n_attention_heads, -1))
        return parts.transpose(1, 2)  # (G, heads, n, O / heads)

    allowed = None if mask is None else mask.unsqueeze(1)
    mixed = F.scaled_dot_product_attention(split(query), split(key), split(value), allowed,
                                           scale=scale)
    return mixed.transpose(1, 2).flatten(-2)


def attention_weights(query: torch.Tensor, key: torch.Tensor, n_attention_heads: int,
                      mask: torch.Tensor | None = None,
                      scale: float | None = None) -> torch.Tensor:
    """What `multi_head` mixes with, mean over its heads.

    Args:
        query: (n, O), projected.
        key: (m, O), projected.
        mask: (n, m), False where a query must not see a key.
        scale: as in `multi_head`.

    Returns:
        (n, m)
    """
    query, key = (rows.unflatten(-1, (n_attention_heads, -1)).transpose(0, 1)
                  for rows in (query, key))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.transpose(1, 2) * scale  # (heads, n, m)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    found: torch.Tensor = scores.softmax(-1).mean(0)
    return found


def attend_among(projected: torch.Tensor, arrangement: Arrangement,
                 n_attention_heads: int) -> torch.Tensor:
    """What rows take from those that they meet.

    Args:
        projected: (R, 3 O) query, key and value of each.

    Returns:
        (R, O)
    """
    projected = arrangement.arrange(projected)  # (G, n, 3 O)
    parts = projected.view(*projected.shape[:2], 3, n_attention_heads, -1).permute(2, 0, 3, 1, 4)
    query, key, value = parts.unbind(0)  # (G, heads, n, O / heads)
    allowed = None if arrangement.mask is None else arrangement.mask.unsqueeze(1)
    mixed = F.scaled_dot_product_attention(query, key, value, allowed)
    return arrangement.restore(mixed.transpose(1, 2).flatten(-2))


class CrossAttention(nn.Module):
    """CA(K, V, Q) of the paper, appendix C, with its own projections.

    Features and latents live in different spaces, so the residual is the projected query.

    Args:
        size: O, of values and result.
        n_attention_heads: divides O.
        n_query: input size of queries and keys.
        compiled: by `kernels.attention`, if it can.
    """

    def __init__(self, size: int, n_attention_heads: int, n_query: int,
                 compiled: bool = False) -> None:
        super().__init__()
        self.n_attention_heads, self.compiled = n_attention_heads, compiled
        self.query = Linear(n_query, size)
        self.key = Linear(n_query, size)
        self.value = Linear(size, size)
        self.out = Linear(size, size)
        self.norm = nn.LayerNorm(size)
        for layer in (self.query, self.key, self.value, self.out):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def prepare(self, keys: torch.Tensor,
                values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Project keys (m, n_query) and values (m, O) once for many queries."""
        return self.key(keys), self.value(values)

    def attend(self, queries: torch.Tensor, prepared: tuple[torch.Tensor, torch.Tensor],
               owners: tuple[torch.Tensor, torch.Tensor] | None = None) -> torch.Tensor:
        """Queries (n, n_query) against prepared keys and values -> (n, O).

        Args:
            owners: (n,), (m,) as floats; a query sees the keys of its own, all of them by default.
        """
        query: torch.Tensor = self.query(queries)
        if self.compiled and fits(query):
            mixed = kernels.attend(query, *prepared, owners, self.n_attention_heads)
        else:
            key, value = prepared
            mixed = multi_head(query[None], key[None], value[None],
                               n_attention_heads=self.n_attention_heads,
                               mask=None if owners is None else apart(*owners)[None])[0]
        return F.layer_norm(query + self.out(mixed), query.shape[-1:], self.norm.weight,
                            self.norm.bias)


class SelfAttention(nn.Module):
    """CA(s, s, s) of the paper: rows attend to each other, all with the same layers.

    Args:
        size: O.
        n_attention_heads: divides O.
        compiled: by `kernels.attention`, if it can.
    """

    def __init__(self, size: int, n_attention_heads: int, compiled: bool = False) -> None:
        super().__init__()
        self.n_attention_heads, self.compiled = n_attention_heads, compiled
        self.project = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)
        for part in (*self.project.weight.detach().chunk(3), self.out.weight):
            nn.init.xavier_uniform_(part)
        for layer in (self.project, self.out):
            nn.init.zeros_(layer.bias)

    def forward(self, rows: torch.Tensor, layout: Layout) -> torch.Tensor:
        """(R, O) -> (R, O): the rows of a block attend to each other."""
        return self.among(rows, layout.frame.within_blocks)

    def among(self, rows: torch.Tensor, arrangement: Arrangement) -> torch.Tensor:
        """(R, O) -> (R, O)."""
        if self.compiled and fits(rows):
            return kernels.block(rows, arrangement.owner, weights_of(self), self.n_attention_heads)
        mixed = attend_among(self.project(rows), arrangement, self.n_attention_heads)
        return F.layer_norm(rows + self.out(mixed), rows.shape[-1:], self.norm.weight,
                            self.norm.bias)


class TaskwiseSelfAttention(nn.Module):
    """SA^t of the paper for all tasks at once, each with layers of its own.

    Args:
        count: T.
        size: O.
        n_attention_heads: divides O.
        compiled: by `kernels.attention`, if it can.
    """

    def __init__(self, count: int, size: int, n_attention_heads: int,
                 compiled: bool = False) -> None:
        super().__init__()
        self.n_attention_heads, self.compiled = n_attention_heads, compiled
        self.project = StackedLinear(count, size, 3 * size)
        self.out = StackedLinear(count, size, size)
        self.norm = StackedLayerNorm(count, size)
        self.project.initialise(size, size)  # three layers, not one wide one

    def forward(self, rows: torch.Tensor, layout: Layout) -> torch.Tensor:
        """(R, O) -> (R, O): the rows of a cell attend to each other, by layers of their task."""
        if self.compiled and fits(rows):
            return kernels.block(rows, layout.within_cells.owner, weights_of(self),
                                 self.n_attention_heads, layout.tasks)
        slots = layout.slots
        packed = slots.pack(rows)  # (slots, width, O)
        mixed = attend_among(slots.unpack(self.project(packed, slots.tasks)),
                             layout.within_cells, self.n_attention_heads)
        out = self.out(slots.pack(mixed), slots.tasks)
        return slots.unpack(self.norm(packed + out, slots.tasks))


def weights_of(block: SelfAttention | TaskwiseSelfAttention) -> kernels.BlockWeights:
    """Of all its layers."""
    project, out, norm = block.project, block.out, block.norm
    return kernels.BlockWeights(project.weight, cast(torch.Tensor, project.bias), out.weight,
                                cast(torch.Tensor, out.bias), norm.weight, norm.bias)


class Unmixed(nn.Module):
    """In the place of an attention: every row stays what it is."""

    def forward(self, rows: torch.Tensor, layout: object) -> torch.Tensor:
        """(R, O) -> (R, O)."""
        return rows
