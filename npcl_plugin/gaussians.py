"""Diagonal Gaussians: what they are here, how to draw from them, how far apart two are.

`torch.distributions` has all of it, but a training step makes a dozen of them and both
divergences on small tensors, where the cost is the number of operations: a pair of tensors and
hand-written gradients take a third of the time. The tests hold them against torch's.
"""
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
    return torch.addcmul(mean, sd, noise)


def kl(posterior: Gaussian, prior: Gaussian) -> torch.Tensor:
    """Closed-form KL(posterior || prior), summed over the O units: the batch shape."""
    value: torch.Tensor = _kl(posterior.mean, posterior.sd, prior.mean, prior.sd)
    return value


def js(first: Gaussian, second: Gaussian) -> torch.Tensor:
    """Our stand-in for the Jensen-Shannon divergence, summed over the O units: first's batch shape.

    The mean of the two KLs to the Gaussian with averaged mean and averaged standard deviation:
    symmetric, finite, 0 iff equal. Both KLs have the same squared distance to the middle,
    (a - b)^2 / 4, so their mean is one expression.
    """
    shape = first.mean.shape
    value: torch.Tensor = _js(first.mean, first.sd, second.mean.expand(shape),
                              second.sd.expand(shape))
    return value


class _KL(torch.autograd.Function):
    """Sum over units of (r^2 + d^2 - 1) / 2 - log r; r = s_p / s_q, d = (m_p - m_q) / s_q."""

    @staticmethod
    def forward(ctx: Any, mean: torch.Tensor, sd: torch.Tensor, other_mean: torch.Tensor,
                other_sd: torch.Tensor) -> torch.Tensor:
        ratio, distance = sd / other_sd, (mean - other_mean) / other_sd
        ctx.save_for_backward(ratio, distance, sd, other_sd)
        squares = torch.addcmul(ratio * ratio, distance, distance)
        return (squares.sub_(1).div_(2).sub_(ratio.log())).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ratio, distance, sd, other_sd = ctx.saved_tensors
        scaled = grad.unsqueeze(-1) / other_sd
        of_mean = scaled * distance
        of_sd = scaled * (ratio - 1 / ratio)
        of_other_sd = scaled * (1 - ratio * ratio - distance * distance)
        return of_mean, of_sd, -of_mean, of_other_sd


class _JS(torch.autograd.Function):
    """Sum over units of q / (4 s^2) - 1/2 + log s - (log s_a + log s_b) / 2.

    s = (s_a + s_b) / 2 and q = s_a^2 + s_b^2 + (a - b)^2 / 2.
    """

    @staticmethod
    def forward(ctx: Any, mean: torch.Tensor, sd: torch.Tensor, other_mean: torch.Tensor,
                other_sd: torch.Tensor) -> torch.Tensor:
        distance, middle = mean - other_mean, (sd + other_sd) / 2
        product, square = sd * other_sd, middle * middle
        # s_a^2 + s_b^2 = 4 s^2 - 2 s_a s_b, so that q / (4 s^2) is 1 - excess.
        excess = (2 * product - distance * distance / 2) / (4 * square)
        ctx.save_for_backward(distance, middle, excess, sd, other_sd)
        return (0.5 - excess + (square / product).log() / 2).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        distance, middle, excess, sd, other_sd = ctx.saved_tensors
        half = grad.unsqueeze(-1) / 2
        of_mean = half * distance / (2 * middle * middle)
        shared = (2 * excess - 1) / middle  # (1 - q / (2 s^2)) / s
        square = middle * middle
        of_sd = [half * (own / square + shared - 1 / own) if needed else None
                 for own, needed in zip((sd, other_sd), ctx.needs_input_grad[1::2], strict=True)]
        return of_mean, of_sd[0], -of_mean if ctx.needs_input_grad[2] else None, of_sd[1]


_kl: Any = _KL.apply
_js: Any = _JS.apply
