"""From (features, context vector, latent) to logits, without repeating work per draw.

The first layer is linear, so W [x; r; z] = W_x x + W_r r + W_z z: the first two are computed
once a target, the third once a draw, and only their sum has both dimensions.
"""
import torch
from torch import nn
from torch.nn import functional as F

from npcl_plugin.layers.encoders import mlp


class Decoder(nn.Module):
    """MLP([x; r; z]) with `depth` hidden layers; linear with none.

    Args:
        n_features: F.
        size: O, also the width.
        n_classes: C.
        depth, norm: see `layers.encoders.mlp`.
    """

    def __init__(self, n_features: int, size: int, n_classes: int, depth: int,
                 norm: bool) -> None:
        super().__init__()
        width = size if depth else n_classes
        whole = nn.Linear(n_features + 2 * size, width)  # initialised as the one layer it is
        nn.init.xavier_uniform_(whole.weight)
        self.from_x = nn.Linear(n_features, width)
        self.from_r = nn.Linear(size, width, bias=False)
        self.from_z = nn.Linear(size, width, bias=False)
        parts = whole.weight.detach().split((n_features, size, size), dim=1)
        for layer, part in zip((self.from_x, self.from_r, self.from_z), parts, strict=True):
            layer.weight.data.copy_(part)
        nn.init.zeros_(self.from_x.bias)
        self.norm = nn.LayerNorm(size) if norm and depth else nn.Identity()
        self.rest = mlp(size, size, n_classes, depth - 1, norm) if depth else None

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.rest is None:
            return hidden
        return self.rest(torch.relu_(self.norm(hidden)))  # in place: the largest tensor of a step

    def forward(self, x: torch.Tensor, r: torch.Tensor, z: torch.Tensor,
                heads: torch.Tensor) -> torch.Tensor:
        """Each target under its own head (training, the task is known).

        Args:
            x: (B, F).
            r: (B, O).
            z: (S, T', O) draws of every head.
            heads: (B,) position of each target's head in T'.

        Returns:
            (S, B, C)
        """
        targets = self.from_x(x) + self.from_r(r)  # (B, O)
        draws = self.from_z(z)  # (S, T', O)
        if draws.shape[1] == 1:
            return self._logits(targets + draws)
        # A product with one-hot rows: much faster than indexing, above all backwards.
        chosen = F.one_hot(heads, draws.shape[1]).to(draws.dtype)  # (B, T')
        shape = (len(draws), -1, -1)
        if self.rest is None:  # laid out as (S, C, B), which a softmax over C is faster on
            return torch.baddbmm(targets.t().expand(shape), draws.mT,
                                 chosen.t().expand(shape)).mT
        return self._logits(torch.baddbmm(targets.expand(shape), chosen.expand(shape), draws))

    def every_head(self, x: torch.Tensor, r: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Each target under every head (inference): (T', S, B, C)."""
        targets = self.from_x(x) + self.from_r(r)  # (B, O)
        draws = self.from_z(z).transpose(0, 1)  # (T', S, O)
        return self._logits(targets + draws.unsqueeze(2))
