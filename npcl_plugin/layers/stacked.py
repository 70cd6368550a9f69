"""Layers of which every task has its own: one stacked parameter, one batched product.

A stack of T layers is a parameter (T, in, out). Calling it takes rows that are already grouped
by task, (T', n, in), and the numbers of these tasks, so no Python loop runs over tasks.
"""
import torch
from torch import nn
from torch.nn import functional as F

from npcl_plugin.kernels import linear as kernels
from npcl_plugin.layers.linear import Compilable


def chosen(stack: torch.Tensor, tasks: torch.Tensor) -> torch.Tensor:
    """The parameters of some tasks, (T, ...) -> (T', ...)."""
    return stack if stack.shape[0] == 1 == tasks.shape[0] else stack.index_select(0, tasks)


class StackedLinear(Compilable):
    """T linear layers.

    Args:
        count: T.
        n_in: input size.
        n_out: output size.
        bias: whether each has one.
    """

    def __init__(self, count: int, n_in: int, n_out: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(count, n_out)) if bias else None
        self.initialise(n_in, n_out)

    def initialise(self, n_in: int, n_out: int) -> None:
        """Xavier-uniform weights of layers of these sizes, which ours may be parts of."""
        bound = (6.0 / (n_in + n_out)) ** 0.5
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: torch.Tensor, tasks: torch.Tensor) -> torch.Tensor:
        """(T', n, in), numbers of the tasks (T',) -> (T', n, out)."""
        if self.is_compiled(x):
            return kernels.linear(x, self.weight, self.bias, tasks)
        weight = chosen(self.weight, tasks)
        if self.bias is None:
            return torch.bmm(x, weight)
        return torch.baddbmm(chosen(self.bias, tasks).unsqueeze(1), x, weight)


class StackedLayerNorm(nn.Module):
    """T layer normalisations over the last dimension."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(count, size))
        self.bias = nn.Parameter(torch.zeros(count, size))

    def forward(self, x: torch.Tensor, tasks: torch.Tensor) -> torch.Tensor:
        """(T', n, size) -> (T', n, size)."""
        normal = F.layer_norm(x, x.shape[-1:])
        return torch.addcmul(chosen(self.bias, tasks).unsqueeze(1), normal,
                             chosen(self.weight, tasks).unsqueeze(1))


class StackedRectifiedNorm(StackedLayerNorm, Compilable):
    """T layer normalisations and ReLU."""

    def forward(self, x: torch.Tensor, tasks: torch.Tensor) -> torch.Tensor:
        """(T', n, size) -> (T', n, size)."""
        if self.is_compiled(x):
            return kernels.rectified_norm(x, self.weight, self.bias, tasks)
        return F.relu(super().forward(x, tasks))


class StackedMLP(nn.Module):
    """T perceptrons: `depth` hidden layers (linear, [LayerNorm], ReLU) and a linear output.

    Args:
        count: T.
        n_in: input size.
        n_hidden: width of the hidden layers.
        n_out: output size.
        depth: number of hidden layers.
        norm: whether each hidden layer is normalised (the paper's class-IL networks are).
    """

    def __init__(self, count: int, n_in: int, n_hidden: int, n_out: int, depth: int,
                 norm: bool) -> None:
        super().__init__()
        sizes = [n_in, *[n_hidden] * depth]
        self.hidden = nn.ModuleList(StackedLinear(count, a, b)
                                    for a, b in zip(sizes[:-1], sizes[1:], strict=True))
        self.norms = nn.ModuleList(StackedRectifiedNorm(count, n_hidden)
                                   for _ in range(depth if norm else 0))
        self.out = StackedLinear(count, sizes[-1], n_out)

    def forward(self, x: torch.Tensor, tasks: torch.Tensor) -> torch.Tensor:
        """(T', n, in) -> (T', n, out)."""
        for i, layer in enumerate(self.hidden):
            x = layer(x, tasks)
            x = self.norms[i](x, tasks) if len(self.norms) else F.relu(x)
        found: torch.Tensor = self.out(x, tasks)
        return found
