"""Nearest mean of exemplars (Rebuffi et al., 2017, algorithm 1)."""
from typing import Any

import torch
from torch import nn

from utils.batch_norm import bn_track_stats
from utils.buffer import Buffer, Transform

FARTHEST = 4.0  # squared distance of opposite vectors of length one


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Vectors (..., F) with length one."""
    return vectors / vectors.norm(dim=-1, keepdim=True).clamp(min=1e-12)


def class_means(features: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
    """Mean direction of each class: features and means have length one.

    Args:
        features: (N, F).
        labels: (N,).
        classes: C.

    Returns:
        (C, F); zero rows for classes without samples.
    """
    sums = features.new_zeros(classes, features.shape[1])
    return unit(sums.index_add_(0, labels, unit(features)))


class ExemplarMeans:
    """Class means of a memory, computed when first needed and kept until `drop`.

    They follow from weights and memory: a checkpoint leaves them out.

    Args:
        classes: C, of the whole benchmark.
        flip: whether mirror images count as exemplars too.
        batch_size: images at a time.
    """

    def __init__(self, classes: int, flip: bool, batch_size: int) -> None:
        self.classes = classes
        self.flip = flip
        self.batch_size = batch_size
        self.means: torch.Tensor | None = None

    def drop(self) -> None:
        """Forget the means: weights or memory have changed."""
        self.means = None

    def scores(self, net: nn.Module, x: torch.Tensor, buffer: Buffer,
               normalise: Transform | None) -> torch.Tensor:
        """Minus the squared distance of features to class means; the least where there is none.

        Args:
            net: the network.
            x: (B, C, H, W), normalised.
            buffer: the exemplars, not normalised.
            normalise: the benchmark's normalisation.

        Returns:
            (B, C)
        """
        if self.means is None:
            self.means = self.compute(net, buffer, normalise, x.device)
        features = unit(net(x, returnt="features"))  # (B, F)
        known = self.means.square().sum(1) > 0  # (C,)
        return torch.where(known, 2 * features @ self.means.T - 2, -FARTHEST)

    @torch.no_grad()
    def compute(self, net: nn.Module, buffer: Buffer, normalise: Transform | None,
                device: torch.device) -> torch.Tensor:
        """Class means (C, F) of the exemplars under the present weights."""
        images, labels = buffer.get_all_data(normalise)[:2]
        training = net.training
        net.eval()
        with bn_track_stats(net, False):
            features = self.features(net, images, device)
            if self.flip:
                features = torch.cat((features, self.features(net, images.flip(-1), device)))
                labels = labels.repeat(2)
        net.train(training)
        return class_means(features, labels.to(device), self.classes)

    def features(self, net: nn.Module, images: torch.Tensor,
                 device: torch.device) -> torch.Tensor:
        """Features (N, F) of images, in batches."""
        return torch.cat([net(batch.to(device), returnt="features")
                          for batch in images.split(self.batch_size)])

    def state_dict(self) -> dict[str, Any]:
        """Nothing: see above."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Other weights have been loaded."""
        self.drop()
