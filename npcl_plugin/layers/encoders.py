"""From samples to vectors: the label-aware projection and the deterministic path."""
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from npcl_plugin.layers.attention import CrossAttention, SelfAttention


def mlp(n_in: int, n_hidden: int, n_out: int, depth: int, norm: bool) -> nn.Sequential:
    """`depth` hidden layers (linear, [LayerNorm], ReLU) and a linear output, Xavier weights."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(n_in, n_hidden), *([nn.LayerNorm(n_hidden)] if norm else []),
                   nn.ReLU()]
        n_in = n_hidden
    layers.append(nn.Linear(n_in, n_out))
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def same(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """(n,), (m,) -> (n, m): whether two rows belong together."""
    return first.unsqueeze(1) == second


def mean_by(rows: torch.Tensor, owner: torch.Tensor, count: int) -> torch.Tensor:
    """Mean of the rows (n, O) of each of `count` owners (n,), 0 without any: (count, O)."""
    sums = rows.new_zeros(count, rows.shape[1]).index_add(0, owner, rows)
    return sums / owner.bincount(minlength=count).clamp_min(1).unsqueeze(1)


class SampleEncoder(nn.Module):
    """Phi = MLP([x; y]) with y one-hot.

    Args:
        n_features: F.
        n_classes: C.
        size: O.
        depth, norm: see `mlp`.
    """

    def __init__(self, n_features: int, n_classes: int, size: int, depth: int,
                 norm: bool) -> None:
        super().__init__()
        self.n_classes = n_classes
        self.project = mlp(n_features + n_classes, size, size, depth, norm)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Features (B, F), labels (B,) -> (B, O)."""
        onehot = F.one_hot(labels, self.n_classes).to(x.dtype)  # (B, C)
        return self.project(torch.cat((x, onehot), dim=1))


class Summary(NamedTuple):
    """What the deterministic path keeps of a context: keys and values, or their mean."""

    keys: torch.Tensor | None  # (m, O), None without attention
    values: torch.Tensor  # (m, O), or (1, O) without attention


class DeterministicEncoder(nn.Module):
    """r_* of the paper, appendix C: what the context says about a target.

    Args:
        encoder: a SampleEncoder of its own.
        n_features: F.
        size: O.
        heads: of the attention.
        attention: False for `np`, which takes the mean instead.
    """

    def __init__(self, encoder: SampleEncoder, n_features: int, size: int, heads: int,
                 attention: bool) -> None:
        super().__init__()
        self.size = size
        self.encoder = encoder
        self.self_attention = SelfAttention(size, heads) if attention else None
        self.cross_attention = CrossAttention(size, heads, n_features) if attention else None

    def summarise(self, x: torch.Tensor, labels: torch.Tensor,
                  sets: torch.Tensor | None = None, count: int = 1) -> Summary:
        """Context (m, F), (m,) -> what every target is answered from; does not see targets.

        Args:
            sets: (m,) which of `count` separate contexts a row belongs to; one by default.
        """
        rows = self.encoder(x, labels)  # (m, O)
        if self.self_attention is None:
            return Summary(None, rows.mean(0, keepdim=True) if sets is None
                           else mean_by(rows, sets, count))
        rows = self.self_attention(rows[None], None if sets is None else same(sets, sets)[None])[0]
        return Summary(*self.cross_attention.prepare(x, rows))

    def attend(self, summary: Summary | None, x: torch.Tensor,
               sets: torch.Tensor | None = None,
               context_sets: torch.Tensor | None = None) -> torch.Tensor:
        """Targets (B, F) -> (B, O); zero where there is no context at all.

        Args:
            sets, context_sets: (B,), (m,) the set of each target and context row, if several.
        """
        if summary is None:
            return x.new_zeros(len(x), self.size)
        if self.cross_attention is None:
            return summary.values.expand(len(x), -1) if sets is None else summary.values[sets]
        mask = None if sets is None else same(sets, context_sets)
        return self.cross_attention.attend(x, summary, mask)
