"""From (features, context vector, latent) to logits, without repeating work per draw.

The first layer is linear, so W [x; r; z] = W_x x + W_r r + W_z z: the first two are computed
once per target, the third once per draw, and only their sum has both dimensions.
"""
from typing import Any, cast

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from npcl_plugin.kernels import decoder as kernels
from npcl_plugin.kernels.operators import fits
from npcl_plugin.layers.encoders import Zeros, mlp
from npcl_plugin.layers.linear import Linear, RectifiedNorm
from npcl_plugin.layout import Cells
from npcl_plugin.logits import AdditiveLogits, FullLogits, HiddenLogits


class LinearDecoder(nn.Module):
    """Logits that are linear in [x; r; z].

    Args:
        n_features: F.
        size: O.
        n_out: C; the width of the first hidden layer in `DeepDecoder`.
        has_latent: whether z exists.
    """

    def __init__(self, n_features: int, size: int, n_out: int, *, has_latent: bool) -> None:
        super().__init__()
        sizes = [n_features, size, size] if has_latent else [n_features, size]
        whole = nn.Linear(sum(sizes), n_out)  # initialised as the one layer it is
        nn.init.xavier_uniform_(whole.weight)
        self.from_x = Linear(n_features, n_out)
        self.from_r = Linear(size, n_out, bias=False)
        self.from_z: Linear | Zeros = Linear(size, n_out, bias=False) if has_latent \
            else Zeros(n_out)
        layers = [self.from_x, self.from_r, self.from_z][:len(sizes)]
        for layer, part in zip(layers, whole.weight.detach().split(sizes, dim=1), strict=True):
            cast(nn.Linear, layer).weight.data.copy_(part)
        nn.init.zeros_(self.from_x.bias)

    @property
    def additive(self) -> bool:
        """Whether logits are a part of the target plus a part of the draw."""
        return True

    def of_targets(self, x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        """W_x x + W_r r: (B, C), of the first hidden layer if there is one."""
        of_x = cast(torch.Tensor, self.from_x(x))
        if self.from_r.is_compiled(r):
            return of_x + cast(torch.Tensor, self.from_r(r))
        return torch.addmm(of_x, r, self.from_r.weight.t())

    def forward(self, x: torch.Tensor, r: torch.Tensor, z: torch.Tensor,
                cells: Cells) -> AdditiveLogits | FullLogits | HiddenLogits:
        """Each target under its own head (training, the task is known).

        Args:
            x: (B, F).
            r: (B, O).
            z: (S, K, O) draws of every cell.
            cells: of the targets.
        """
        return AdditiveLogits(self.of_targets(x, r), self.from_z(z), cells)

    def every_head(self, x: torch.Tensor, r: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Each target under every head (inference): (T', S, B, C)."""
        draws = self.from_z(z).transpose(0, 1)  # (T', S, O)
        return self.logits(self.of_targets(x, r) + draws.unsqueeze(2))

    def answers(self, x: torch.Tensor, r: torch.Tensor, z: torch.Tensor,
                all_heads: bool) -> torch.Tensor | None:
        """Probabilities (B, C) of the head of least entropy or of all, without their logits.

        None where there is no compiled function for it.
        """
        return None

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """From the first layer's sum to logits."""
        return hidden


class DeepDecoder(LinearDecoder):
    """MLP([x; r; z]) with `depth` hidden layers, one at least.

    Args:
        n_features: F.
        size: O.
        n_classes: C.
        width: of the hidden layers.
        depth, norm: see `layers.encoders.mlp`.
        has_latent: whether z exists.
        draws_per_target: how many of the draws a target is decoded under in training; with more of
            them targets take turns, so that every draw has some.
        compiled: a cross-entropy after one hidden layer by `kernels.decoder`, if it can.
    """

    def __init__(self, n_features: int, size: int, n_classes: int, *, width: int, depth: int,
                 norm: bool, has_latent: bool, draws_per_target: int,
                 compiled: bool = False) -> None:
        super().__init__(n_features, size, width, has_latent=has_latent)
        self.compiled = compiled and depth == 1 and not norm
        self.draws_per_target = draws_per_target
        self.norm = RectifiedNorm(width) if norm else nn.ReLU(inplace=True)
        self.rest = mlp(width, width, n_classes, depth=depth - 1, norm=norm)

    @property
    def additive(self) -> bool:
        """See `LinearDecoder.additive`."""
        return False

    def forward(self, x: torch.Tensor, r: torch.Tensor, z: torch.Tensor,
                cells: Cells) -> AdditiveLogits | FullLogits | HiddenLogits:
        """See `LinearDecoder.forward`."""
        targets, draws = self.of_targets(x, r), self.from_z(z)  # (B, O), (S, K, O)
        turns = max(len(draws) // self.draws_per_target, 1)
        if turns == 1 and draws.shape[1] == 1:
            return FullLogits(self.logits(targets + draws))
        each = len(draws) // turns
        if len(draws) % turns:
            draws = draws[:each * turns]
        draws = draws.view(each, turns * draws.shape[1], -1)

        def full() -> FullLogits:
            shape = (each, -1, -1)
            hidden = torch.baddbmm(targets.expand(shape), cells.own_in(turns).expand(shape), draws)
            return FullLogits(self.logits(hidden))

        if self.compiled and fits(targets):
            return HiddenLogits(targets, draws, cells, cast(nn.Linear, self.rest[0]), full)
        return full()

    def every_head(self, x: torch.Tensor, r: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """See `LinearDecoder.every_head`."""
        if len(self.rest) > 1 or isinstance(self.norm, RectifiedNorm):
            return super().every_head(x, r, z)
        last = cast(nn.Linear, self.rest[0])
        draws = self.from_z(z).transpose(0, 1).flatten(0, 1)  # (T' S, O)
        # relu(a + d) = max(a, -d) + d, whose second part is known before any target.
        hidden = torch.maximum(self.of_targets(x, r), -draws.unsqueeze(1))  # (T' S, B, O)
        by_class = torch.baddbmm(last(draws).unsqueeze(2), last.weight.expand(len(draws), -1, -1),
                                 hidden.mT)  # (T' S, C, B)
        found: torch.Tensor = by_class.mT.unflatten(0, (z.shape[1], -1))
        return found

    def answers(self, x: torch.Tensor, r: torch.Tensor, z: torch.Tensor,
                all_heads: bool) -> torch.Tensor | None:
        """See `LinearDecoder.answers`."""
        targets = self.of_targets(x, r)
        if not (self.compiled and fits(targets)):
            return None
        last = cast(nn.Linear, self.rest[0])
        return kernels.answers(targets, self.from_z(z).transpose(0, 1), last.weight, last.bias,
                               all_heads)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """From the first layer's sum to logits; in place, it is the largest tensor of a step."""
        hidden = self.norm(hidden)
        *before, last = self.rest
        for layer in before:
            hidden = layer(hidden)
        draws = hidden.flatten(0, -3)  # (S, B, O), or of every head
        by_class = _by_class(draws, last.weight, last.bias)  # (S, C, B)
        found: torch.Tensor = by_class.mT.unflatten(0, hidden.shape[:-2])
        return found


class _ByClass(torch.autograd.Function):
    """A linear layer of rows (S, B, O) as (S, C, B), which a cross-entropy reads in one go.

    With few classes torch's own takes three times as long for these many rows.
    """

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, weight: torch.Tensor,
                bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(rows, weight)
        return torch.baddbmm(bias.unsqueeze(1), weight.expand(rows.shape[0], -1, -1), rows.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, weight = ctx.saved_tensors
        return (torch.bmm(grad.mT, weight.expand(rows.shape[0], -1, -1)),
                torch.bmm(grad, rows).sum(0), grad.sum((0, 2)))


_by_class: Any = _ByClass.apply
