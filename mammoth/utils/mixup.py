"""Mixup (Zhang et al., 2018) of several pairs of batches with the same coefficients."""
from collections.abc import Sequence

import torch
from torch.distributions import Beta


def mixup(couples: Sequence[tuple[torch.Tensor, torch.Tensor]], alpha: float,
          force_lambda: float | None = None) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Convex combinations, sample by sample; the first of a couple has the larger share.

    Args:
        couples: pairs of tensors of the same shape (B, ...), e.g. images and label vectors.
        alpha: of the Beta(alpha, alpha) from which a share is drawn per sample.
        force_lambda: this share for all samples instead.

    Returns:
        The mixed tensors; a single one for a single couple.
    """
    first = couples[0][0]
    if force_lambda is None:
        drawn = Beta(float(alpha), float(alpha)).sample((len(first),)).to(first.device)
        shares = torch.maximum(drawn, 1 - drawn)
    else:
        shares = torch.full((len(first),), float(force_lambda), device=first.device)
    mixed = tuple(torch.lerp(other, one, shares.view(-1, *[1] * (one.dim() - 1)).to(one))
                  for one, other in couples)
    return mixed if len(mixed) > 1 else mixed[0]
