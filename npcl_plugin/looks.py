"""How images look as a whole: colour, contrast and texture, as a handful of numbers each.

Features are made to tell the known classes apart, and lose what no known class differs in. These
numbers are not learned, so that they also tell images that the network has no features for. A
few samples are enough for their Gaussians: those in the buffer are.
"""
from typing import NamedTuple

import torch

# Weight of the identity in the correlations of the statistics.
_SHRINKAGE = 0.05


def statistics(images: torch.Tensor) -> torch.Tensor:
    """(B, 4 K) of images (B, K, H, W): of each channel mean, deviation and mean absolute
    difference of neighbours, across and down.
    """
    across = (images[..., 1:] - images[..., :-1]).abs().mean((2, 3))
    down = (images[..., 1:, :] - images[..., :-1, :]).abs().mean((2, 3))
    return torch.cat((images.mean((2, 3)), images.flatten(2).std(2, unbiased=False), across, down),
                     1)


class Looks(NamedTuple):
    """Gaussians of the statistics, one for each class, with correlations in common."""

    means: torch.Tensor  # (n, D) of each class, whitened
    whiten: torch.Tensor  # (D, D)

    @classmethod
    def of(cls, images: torch.Tensor, labels: torch.Tensor) -> "Looks":
        """Fitted to images (m, K, H, W) with labels (m,)."""
        found = statistics(images).double()
        _, groups, counts = labels.unique(return_inverse=True, return_counts=True)
        means = found.new_zeros(len(counts), found.shape[1]).index_add_(0, groups, found)
        means = means / counts.unsqueeze(1)
        rest = found - means[groups]
        spread = rest.square().mean(0).sqrt().clamp_min(torch.finfo(torch.float32).tiny)
        scaled = rest / spread
        correlation = scaled.t() @ scaled / len(scaled)
        identity = torch.eye(len(spread)).to(correlation)
        lower = torch.linalg.cholesky((1 - _SHRINKAGE) * correlation + _SHRINKAGE * identity)
        whiten = torch.linalg.inv(lower).t() / spread.unsqueeze(1)
        return cls(means @ whiten, whiten)

    def unlikeness(self, images: torch.Tensor) -> torch.Tensor:
        """How unlike every class images (B, K, H, W) look, (B,) from 0 to 1.

        d / (1 + d); d is the squared Mahalanobis distance to the nearest class, divided by the
        number of statistics: about 1 for a typical image of a class.
        """
        found = statistics(images).double() @ self.whiten
        least = torch.cdist(found, self.means).square().amin(1) / found.shape[1]
        return (least / (1 + least)).to(images)
