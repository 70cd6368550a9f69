"""The encoders of the authors' released code, which the paper describes otherwise.

An attention block is O = Q + softmax(Q K^T / sqrt(|o|)) V, then O + ReLU(W O), with no LayerNorm;
two of them follow each other wherever the paper has one. The context does not attend to itself
in the deterministic path, whose queries and keys are projected by a perceptron each and dropped
out. Standard deviations are exponentials without an upper bound.
"""
from collections.abc import Callable, Iterable

import torch
from torch import nn

from npcl_plugin.gaussians import Gaussian
from npcl_plugin.layers.attention import attention_weights, multi_head
from npcl_plugin.layers.encoders import SampleEncoder, Summary, activated, visible
from npcl_plugin.layers.linear import Linear
from npcl_plugin.layers.stacked import StackedLinear, StackedMLP, StackedRectifiedNorm
from npcl_plugin.layout import Arrangement, Layout

N_BLOCKS = 2
DROPOUT = 0.25
LEAST_SD = 0.01


def projection(size: int, parts: int) -> Linear:
    """`parts` linear layers (O -> O) as one, each with Xavier weights of its own."""
    layer = Linear(size, parts * size)
    for part in layer.weight.detach().chunk(parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(layer.bias)
    return layer


def block(query: torch.Tensor, mixed: torch.Tensor,
          out: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """From projected queries and what they attended to, both (..., O), to the block's result."""
    hidden = query + mixed
    return hidden + torch.relu(out(hidden))


def attended(projected: torch.Tensor, arrangement: Arrangement,
             n_attention_heads: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries (R, O), and what they attended to among the rows that they meet (R, O).

    Args:
        projected: (R, 3 O) queries, keys and values.
    """
    query, key, value = arrangement.arrange(projected).chunk(3, dim=-1)
    mixed = multi_head(query, key, value, mask=arrangement.mask, scale=query.shape[-1] ** -0.5,
                       n_attention_heads=n_attention_heads)
    return projected[:, :mixed.shape[-1]], arrangement.restore(mixed)


class FeedForwardAttention(nn.Module):
    """Rows of a block attend to each other, all with the same layers."""

    def __init__(self, size: int, n_attention_heads: int) -> None:
        super().__init__()
        self.n_attention_heads = n_attention_heads
        self.project, self.out = projection(size, 3), projection(size, 1)

    def forward(self, rows: torch.Tensor, layout: Layout) -> torch.Tensor:
        """(R, O) -> (R, O)."""
        return block(*attended(self.project(rows), layout.frame.within_blocks,
                               self.n_attention_heads), self.out)


class TaskwiseFeedForwardAttention(nn.Module):
    """Rows of a cell attend to each other, by layers of their own of each of `count` tasks."""

    def __init__(self, count: int, size: int, n_attention_heads: int) -> None:
        super().__init__()
        self.project, self.out = (StackedLinear(count, size, parts * size) for parts in (3, 1))
        self.project.initialise(size, size)  # three layers, not one wide one
        self.n_attention_heads = n_attention_heads

    def forward(self, rows: torch.Tensor, layout: Layout) -> torch.Tensor:
        """(R, O) -> (R, O)."""
        slots = layout.slots
        projected = slots.unpack(self.project(slots.pack(rows), slots.tasks))
        return block(*attended(projected, layout.within_cells, self.n_attention_heads),
                     lambda hidden: slots.unpack(self.out(slots.pack(hidden), slots.tasks)))


class Successive(nn.Module):
    """Attention blocks one after the other."""

    def __init__(self, blocks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, rows: torch.Tensor, layout: Layout) -> torch.Tensor:
        """(R, O) -> (R, O)."""
        for each in self.blocks:
            rows = each(rows, layout)
        return rows


class FeedForwardPath(nn.Module):
    """r_*: two cross-attentions, from which every target takes what the context says about it.

    Args:
        encoder: a SampleEncoder of its own.
        n_features: F.
        size: O.
        n_attention_heads: divides O.
        norm: LayerNorm in the projections.
    """

    def __init__(self, encoder: SampleEncoder, n_features: int, size: int, n_attention_heads: int,
                 norm: bool) -> None:
        super().__init__()
        self.encoder, self.n_attention_heads = encoder, n_attention_heads
        self.of_context = activated(n_features, size, depth=1, norm=norm)
        self.of_targets = activated(n_features, size, depth=1, norm=norm)
        self.dropout = nn.Dropout(DROPOUT)
        self.key, self.value = projection(size, N_BLOCKS), projection(size, N_BLOCKS)
        self.query = nn.ModuleList(projection(size, 1) for _ in range(N_BLOCKS))
        self.out = nn.ModuleList(projection(size, 1) for _ in range(N_BLOCKS))

    def summarise(self, x: torch.Tensor, labels: torch.Tensor,
                  sets: torch.Tensor | None = None) -> Summary:
        """Context (m, F), (m,) -> keys and values of every block, side by side (m, 2 O)."""
        return Summary(self.key(self.dropout(self.of_context(x))),
                       self.value(self.encoder(x, labels)), sets)

    def attend(self, summary: Summary, x: torch.Tensor,
               sets: torch.Tensor | None = None) -> torch.Tensor:
        """Targets (B, F) -> (B, O); `sets` (B,) as in the summary."""
        visible_to = visible(sets, summary)
        mask = None if visible_to is None else visible_to[None]
        rows: torch.Tensor = self.dropout(self.of_targets(x))  # (B, O)
        keys, values = (part.chunk(N_BLOCKS, dim=-1) for part in (summary.keys, summary.values))
        for key, value, project, out in zip(keys, values, self.query, self.out, strict=True):
            query = project(rows)
            mixed = multi_head(query[None], key[None], value[None], mask=mask,
                               scale=query.shape[-1] ** -0.5,
                               n_attention_heads=self.n_attention_heads)[0]
            rows = block(query, mixed, out)
        return rows


    def weights(self, summary: Summary, x: torch.Tensor,
                sets: torch.Tensor | None = None) -> torch.Tensor:
        """The first block's attention of targets (B, F) to the context, mean over heads: (B, m)."""
        query = self.query[0](self.dropout(self.of_targets(x)))
        key = summary.keys.chunk(N_BLOCKS, dim=-1)[0]
        return attention_weights(query, key, self.n_attention_heads, visible(sets, summary),
                                 query.shape[-1] ** -0.5)


class TrunkPsi(nn.Module):
    """psi with hidden layers that mean and deviation share; the deviation is exp(.) + 0.01.

    Args:
        count: T.
        size: O.
        with_global: whether z^G is an input.
        depth: layers, the linear output among them; 2 at least.
        norm: LayerNorm after each hidden layer.
    """

    def __init__(self, count: int, size: int, with_global: bool, depth: int, norm: bool) -> None:
        super().__init__()
        self.from_summary = StackedLinear(count, size, size)
        self.from_global: StackedLinear | None = None
        if with_global:
            self.from_global = StackedLinear(count, size, size, bias=False)
            for layer in (self.from_summary, self.from_global):  # Xavier for the one they make up
                layer.initialise(2 * size, size)
        self.norm = StackedRectifiedNorm(count, size) if norm else None
        self.rest = StackedMLP(count, size, size, 2 * size, depth - 2, norm)
        self.rest.out.initialise(size, size)  # two layers, not one wide one

    def forward(self, summary: torch.Tensor, tasks: torch.Tensor,
                z_global: torch.Tensor | None = None) -> Gaussian:
        """As `latents.LinearPsi`: (n, P, O), (n,), (n, N, O) -> batch (n, P, N)."""
        hidden = self.from_summary(summary, tasks).unsqueeze(2)
        if self.from_global is not None:
            hidden = hidden + self.from_global(z_global, tasks).unsqueeze(1)  # (n, P, N, O)
        rows = hidden.flatten(1, 2)
        rows = torch.relu(rows) if self.norm is None else self.norm(rows, tasks)
        mean, raw = self.rest(rows, tasks).unflatten(1, hidden.shape[1:3]).chunk(2, dim=-1)
        return Gaussian(mean, raw.exp() + LEAST_SD)
