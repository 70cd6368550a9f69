"""From samples to vectors: the label-aware projection and the deterministic path."""
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from npcl_plugin.layers.attention import CrossAttention, SelfAttention, attention_weights
from npcl_plugin.layers.linear import Linear, RectifiedNorm
from npcl_plugin.layout import InPlace


def mlp(n_in: int, n_hidden: int, n_out: int, *, depth: int, norm: bool) -> nn.Sequential:
    """`depth` hidden layers (linear, [LayerNorm], ReLU) and a linear output, Xavier weights."""
    hidden = _hidden(n_in, n_hidden, depth, norm)
    return _xavier(*hidden, Linear(n_hidden if depth else n_in, n_out))


def activated(n_in: int, width: int, *, depth: int, norm: bool) -> nn.Sequential:
    """`depth` layers (linear, [LayerNorm], ReLU), the last one too, Xavier weights."""
    return _xavier(*_hidden(n_in, width, depth, norm))


def _hidden(n_in: int, width: int, depth: int, norm: bool) -> list[nn.Module]:
    return [part for i in range(depth)
            for part in (Linear(width if i else n_in, width),
                         # The last one leaves the numbers of layers in checkpoints as they were.
                         *((RectifiedNorm(width), nn.Identity()) if norm else (nn.ReLU(),)))]


def _xavier(*layers: nn.Module) -> nn.Sequential:
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


class Zeros(nn.Module):
    """In the place of a layer whose input does not exist: zeros of some width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: torch.Tensor, *others: object) -> torch.Tensor:
        """(..., n) -> (..., width)."""
        return x.new_zeros(*x.shape[:-1], self.width)


class SampleEncoder(nn.Module):
    """Phi = MLP([x; y]) with y one-hot.

    Args:
        n_features: F.
        n_classes: C.
        size: O.
        depth, norm: see `mlp`.
        ends_linear: the last of the layers is an output, not one more activation.
    """

    def __init__(self, n_features: int, n_classes: int, size: int, *, depth: int,
                 norm: bool, ends_linear: bool = True) -> None:
        super().__init__()
        self.n_classes = n_classes
        n_in = n_features + n_classes
        self.project = mlp(n_in, size, size, depth=depth, norm=norm) if ends_linear \
            else activated(n_in, size, depth=depth, norm=norm)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Features (B, F), labels (B,) -> (B, O)."""
        onehot = x.new_zeros(x.shape[0], self.n_classes)
        onehot.scatter_(1, labels.unsqueeze(1), 1)  # (B, C)
        found: torch.Tensor = self.project(torch.cat((x, onehot), dim=1))
        return found


class Summary(NamedTuple):
    """What the deterministic path keeps of a context."""

    keys: torch.Tensor  # (m, O) projected; without attention (G, 0)
    values: torch.Tensor  # (m, O) projected; without attention the mean of each set, (G, O)
    sets: torch.Tensor | None  # (m,) the set of each row, where there are several


class AttentivePath(nn.Module):
    """r_* of the paper, appendix C: what the context says about a target.

    Args:
        encoder: a SampleEncoder of its own.
        n_features: F.
        size: O.
        n_attention_heads: divides O.
        compiled: by `kernels.attention`, if it can.
    """

    def __init__(self, encoder: SampleEncoder, n_features: int, size: int,
                 n_attention_heads: int, compiled: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        self.self_attention = SelfAttention(size, n_attention_heads, compiled)
        self.cross_attention = CrossAttention(size, n_attention_heads, n_features, compiled)

    def summarise(self, x: torch.Tensor, labels: torch.Tensor,
                  sets: torch.Tensor | None = None) -> Summary:
        """Context (m, F), (m,) -> what every target is answered from; does not see targets.

        Args:
            sets: (m,) which of two separate contexts a row belongs to; one by default.
        """
        owner = None if sets is None else sets.to(x)
        rows = self.self_attention.among(self.encoder(x, labels), InPlace(1, owner))  # (m, O)
        return Summary(*self.cross_attention.prepare(x, rows), sets)

    def attend(self, summary: Summary, x: torch.Tensor,
               sets: torch.Tensor | None = None) -> torch.Tensor:
        """Targets (B, F) -> (B, O); `sets` (B,) as in the summary."""
        owners = None if sets is None or summary.sets is None \
            else (sets.to(x), summary.sets.to(x))
        return self.cross_attention.attend(x, (summary.keys, summary.values), owners)

    def weights(self, summary: Summary, x: torch.Tensor,
                sets: torch.Tensor | None = None) -> torch.Tensor:
        """How much targets (B, F) look at each row of the context, (B, m)."""
        layer = self.cross_attention
        return attention_weights(layer.query(x), summary.keys, layer.n_attention_heads,
                                 visible(sets, summary))


class MeanPath(nn.Module):
    """In the place of the attentive path: every target gets the mean over the context."""

    def __init__(self, encoder: SampleEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def summarise(self, x: torch.Tensor, labels: torch.Tensor,
                  sets: torch.Tensor | None = None) -> Summary:
        """Context (m, F), (m,) -> the mean of each set."""
        rows = self.encoder(x, labels)  # (m, O)
        if sets is None:
            values = rows.mean(0, keepdim=True)
        else:
            mine = F.one_hot(sets, 2).to(rows.dtype).t()  # (G, m)
            values = mine @ rows / mine.sum(1, keepdim=True)
        return Summary(values[:, :0], values, sets)

    def attend(self, summary: Summary, x: torch.Tensor,
               sets: torch.Tensor | None = None) -> torch.Tensor:
        """Targets (B, F) -> (B, O); `sets` (B,) as in the summary."""
        return summary.values.expand(len(x), -1) if sets is None \
            else summary.values.index_select(0, sets)


def visible(sets: torch.Tensor | None, summary: Summary) -> torch.Tensor | None:
    """Which rows of a context a target may see, (B, m); None for all."""
    return None if sets is None or summary.sets is None else same(sets, summary.sets)


def same(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """(n,), (m,) -> (n, m): whether two rows belong together."""
    return first.unsqueeze(1) == second
