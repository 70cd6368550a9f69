"""Multi-head dot-product attention, residual and normalised afterwards (as Set Transformers).

Without the LayerNorm after the residual sum training diverges within two tasks at the
published learning rates.
"""
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from npcl_plugin.layers.stacked import StackedLayerNorm, StackedLinear
from npcl_plugin.layout import Arrangement, Layout

Projection = Callable[[torch.Tensor], torch.Tensor]


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


def attend_among(rows: torch.Tensor, arrangement: Arrangement, *, project: Projection,
                 out: Projection, n_attention_heads: int) -> torch.Tensor:
    """What rows (R, O) learn from those that they meet, before residual and normalisation.

    Args:
        project: query, key and value in one product, (R, O) -> (R, 3 O).
        out: of the mixed values, (R, O) -> (R, O).
    """
    projected = arrangement.arrange(project(rows))  # (G, n, 3 O)
    parts = projected.view(*projected.shape[:2], 3, n_attention_heads, -1).permute(2, 0, 3, 1, 4)
    query, key, value = parts.unbind(0)  # (G, heads, n, O / heads)
    allowed = None if arrangement.mask is None else arrangement.mask.unsqueeze(1)
    mixed = F.scaled_dot_product_attention(query, key, value, allowed)
    return out(arrangement.restore(mixed.transpose(1, 2).flatten(-2)))


class CrossAttention(nn.Module):
    """CA(K, V, Q) of the paper, appendix C, with its own projections.

    Features and latents live in different spaces, so the residual is the projected query.

    Args:
        size: O, of values and result.
        n_attention_heads: divides O.
        n_query: input size of queries and keys.
    """

    def __init__(self, size: int, n_attention_heads: int, n_query: int) -> None:
        super().__init__()
        self.n_attention_heads = n_attention_heads
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
        """Queries (n, n_query) against prepared keys and values -> (n, O); mask (1, n, m)."""
        query: torch.Tensor = self.query(queries)
        key, value = prepared
        mixed = multi_head(query[None], key[None], value[None],
                           n_attention_heads=self.n_attention_heads, mask=mask)[0]
        return F.layer_norm(query + self.out(mixed), query.shape[-1:], self.norm.weight,
                            self.norm.bias)


class SelfAttention(nn.Module):
    """CA(s, s, s) of the paper: rows attend to each other, all with the same layers."""

    def __init__(self, size: int, n_attention_heads: int) -> None:
        super().__init__()
        self.n_attention_heads = n_attention_heads
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
        mixed = attend_among(rows, arrangement, project=self.project, out=self.out,
                             n_attention_heads=self.n_attention_heads)
        return F.layer_norm(rows + mixed, rows.shape[-1:], self.norm.weight, self.norm.bias)


class TaskwiseSelfAttention(nn.Module):
    """SA^t of the paper for all tasks at once, each with layers of its own.

    Args:
        count: T.
        size: O.
        n_attention_heads: divides O.
    """

    def __init__(self, count: int, size: int, n_attention_heads: int) -> None:
        super().__init__()
        self.n_attention_heads = n_attention_heads
        self.project = StackedLinear(count, size, 3 * size)
        self.out = StackedLinear(count, size, size)
        self.norm = StackedLayerNorm(count, size)
        self.project.initialise(size, size)  # three layers, not one wide one

    def forward(self, rows: torch.Tensor, layout: Layout) -> torch.Tensor:
        """(R, O) -> (R, O): the rows of a cell attend to each other, by layers of their task."""
        slots = layout.slots
        packed = slots.pack(rows)  # (slots, width, O)
        mixed = attend_among(
            rows, layout.within_cells, n_attention_heads=self.n_attention_heads,
            project=lambda _: slots.unpack(self.project(packed, slots.tasks)),
            out=lambda values: self.out(slots.pack(values), slots.tasks))
        return slots.unpack(self.norm(packed + mixed, slots.tasks))


class Unmixed(nn.Module):
    """In the place of an attention: every row stays what it is."""

    def forward(self, rows: torch.Tensor, layout: object) -> torch.Tensor:
        """(R, O) -> (R, O)."""
        return rows
