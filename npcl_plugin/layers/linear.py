"""Layers that are functions in C where the run has these; else they are torch's."""
import torch
from torch import nn
from torch.nn import functional as F

from npcl_plugin.kernels import linear as kernels
from npcl_plugin.kernels.operators import fits


class Compilable(nn.Module):
    """A layer that may be a function in C; who builds the network says whether it shall be."""

    compiled = False

    def is_compiled(self, x: torch.Tensor) -> bool:
        """Whether it is one for this input."""
        return self.compiled and fits(x)


class Linear(nn.Linear, Compilable):
    """A linear layer."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., in) -> (..., out)."""
        if self.is_compiled(x):
            return kernels.linear(x, self.weight, self.bias)
        return super().forward(x)


class RectifiedNorm(nn.LayerNorm, Compilable):
    """LayerNorm and ReLU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., size) -> (..., size)."""
        if self.is_compiled(x):
            return kernels.rectified_norm(x, self.weight, self.bias)
        return F.relu(super().forward(x), inplace=True)
