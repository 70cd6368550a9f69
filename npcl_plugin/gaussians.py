"""Diagonal Gaussians: what they are here, how to draw from them, how far apart two are.

`torch.distributions` has all of it, but a training step makes a dozen of them and both
divergences on small tensors, where the cost is the number of operations: a pair of tensors and
hand-written gradients take a third of the time. The tests hold them against torch's.
"""
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Independent normal variables: mean and standard deviation, both (*batch, O)."""

    mean: torch.Tensor
    sd: torch.Tensor

    def __getitem__(self, index: Any) -> "Gaussian":
        """Some of the batch."""
        return Gaussian(self.mean[index], self.sd[index])

    def unbind(self, dim: int) -> tuple["Gaussian", ...]:
        """One for each index of a dimension of the batch."""
        return tuple(map(Gaussian, self.mean.unbind(dim), self.sd.unbind(dim)))

    def unflatten(self, dim: int, sizes: tuple[int, ...]) -> "Gaussian":
        """A dimension of the batch split into several."""
        return Gaussian(self.mean.unflatten(dim, sizes), self.sd.unflatten(dim, sizes))

    def like(self, other: "Gaussian") -> "Gaussian":
        """Repeated for every one of another's batch."""
        shape = other.mean.shape
        return self if self.mean.shape == shape else Gaussian(self.mean.expand(shape),
                                                              self.sd.expand(shape))

    @property
    def size(self) -> int:
        """O."""
        return self.mean.shape[-1]


def draw(source: Gaussian, count: int, generator: torch.Generator | None = None) -> torch.Tensor:
    """`count` reparameterised samples (count, *batch, O), from a private generator if given.

    The noise is made on the CPU when a generator is given, so that a seed means the same
    numbers on every device.
    """
    mean, sd = source.mean, source.sd
    shape = (count, *mean.shape)
    if generator is None:
        noise = torch.randn(shape, dtype=mean.dtype, device=mean.device)
    else:
        noise = torch.randn(shape, dtype=mean.dtype, generator=generator).to(mean.device)
    if count == 1:  # backwards nothing has to be summed up
        return torch.addcmul(mean, sd, noise[0]).unsqueeze(0)
    return torch.addcmul(mean, sd, noise)


def kl(posterior: Gaussian, prior: Gaussian, weight: torch.Tensor | float = 1.0) -> torch.Tensor:
    """Closed-form KL(posterior || prior), weighted and summed up to a number.

    Args:
        posterior, prior: batch (...).
        weight: of each element of the batch; broadcasts.
    """
    value: torch.Tensor = _kl(posterior.mean, posterior.sd, prior.mean, prior.sd,
                              _of_units(weight))
    return value


def js(now: Gaussian, then: Gaussian, weight: torch.Tensor | float = 1.0) -> torch.Tensor:
    """Our stand-in for the Jensen-Shannon divergence, weighted and summed up to a number.

    The mean of the two KLs to the Gaussian with averaged mean and averaged standard deviation:
    symmetric, finite, 0 iff equal. Both KLs have the same squared distance to the middle,
    (a - b)^2 / 4, so their mean is one expression.

    Args:
        now: batch (...).
        then: its batch broadcasts to now's; a constant.
        weight: of each element of the batch; broadcasts.
    """
    value: torch.Tensor = _js(now.mean, now.sd, then.mean, then.sd, _of_units(weight))
    return value


def _of_units(weight: torch.Tensor | float) -> torch.Tensor | float:
    return weight.unsqueeze(-1) if isinstance(weight, torch.Tensor) else weight


class _KL(torch.autograd.Function):
    """(r^2 + d^2 - 1) / 2 - log r of each unit; r = s_p / s_q, d = (m_p - m_q) / s_q.

    As the result is a number, the gradient is known forwards but for a factor.
    """

    @staticmethod
    def forward(ctx: Any, mean: torch.Tensor, sd: torch.Tensor, other_mean: torch.Tensor,
                other_sd: torch.Tensor, weight: torch.Tensor | float) -> torch.Tensor:
        ratio, distance = sd / other_sd, (mean - other_mean) / other_sd
        squares = torch.addcmul(ratio * ratio, distance, distance).sub_(1)
        value = torch.add(squares, ratio.log(), alpha=-2).mul_(weight).sum().div_(2)
        scale = weight / other_sd
        ctx.save_for_backward(distance.mul_(scale), (ratio - 1 / ratio).mul_(scale),
                              squares.mul_(scale))
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        of_mean, of_sd, less_of_other_sd = (grad * each for each in ctx.saved_tensors)
        return of_mean, of_sd, -of_mean, -less_of_other_sd, None


class _JS(torch.autograd.Function):
    """(1 + log(s^2 / (4 p))) / 2 - (2 p - d^2 / 2) / s^2 of each unit.

    s = s_a + s_b, p = s_a s_b, d = a - b. Only the first Gaussian has a gradient.
    """

    @staticmethod
    def forward(ctx: Any, mean: torch.Tensor, sd: torch.Tensor, other_mean: torch.Tensor,
                other_sd: torch.Tensor, weight: torch.Tensor | float) -> torch.Tensor:
        distance, total, product = mean - other_mean, sd + other_sd, sd * other_sd
        square = total * total
        excess = torch.addcmul(product, distance, distance, value=-0.25).div_(square)
        logs = (square / product).log_().add_(1 - math.log(4))
        value = torch.add(logs, excess, alpha=-4).mul_(weight).sum().div_(2)
        scale = weight / square
        # d/ds_a: 2 s_a / s^2 + (4 excess - 1) / s - 1 / (2 s_a)
        of_sd = torch.addcmul(2 * sd, excess.mul_(4).sub_(1), total).addcdiv_(square, sd, value=-.5)
        ctx.save_for_backward(distance.mul_(scale), of_sd.mul_(scale))
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        of_mean, of_sd = ctx.saved_tensors
        return grad * of_mean, grad * of_sd, None, None, None


_kl: Any = _KL.apply
_js: Any = _JS.apply
