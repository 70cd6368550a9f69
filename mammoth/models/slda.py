"""Streaming linear discriminant analysis (Hayes and Kanan, 2020).

Every class is a Gaussian around its own mean; all share one covariance, the scatter of the samples
around their class means. The authors update that covariance sample by sample, around the means as
they are at that moment, so their answer depends on the order of the stream. Here the sums of x and
x x^T are kept instead: as small, and exactly the batch solution at any time.
"""
from argparse import Namespace
from typing import Any

import torch

from backbone.base import MammothBackbone
from engine.argument_types import positive_share
from models.utils.closed_form import ClosedFormModel
from models.utils.positive_definite import solve_positive
from utils.args import ArgumentParser


class Slda(ClosedFormModel):
    """Class means under a shared, shrunken covariance."""

    NAME = "slda"
    gram: torch.Tensor  # (F, F)

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """How far the covariance is pulled towards the identity."""
        parser = ClosedFormModel.get_parser(parser)
        parser.add_argument("--shrinkage", type=positive_share, default=1e-4,
                            help="weight of the identity in the covariance")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """Start without samples."""
        super().__init__(backbone, loss, args, transform, dataset)
        self.zeros("sums", self.num_classes, self.feature_dim)
        self.zeros("gram", self.feature_dim, self.feature_dim)

    def add(self, features: torch.Tensor, labels: torch.Tensor) -> None:
        """Sum x for each class, and x x^T for all."""
        self.sums.index_add_(0, labels, features)
        self.gram.addmm_(features.T, features)

    def covariance(self) -> torch.Tensor:
        """(F, F): mean of (x - class mean)(x - class mean)^T over all samples."""
        scatter = self.gram - self.sums.T @ self.means()
        return scatter / self.counts.sum().clamp(min=1)

    def solve(self) -> torch.Tensor:
        """Weights and bias of each class, (F + 1, C)."""
        means, share = self.means(), self.args.shrinkage
        covariance = (1 - share) * self.covariance()
        covariance.diagonal().add_(share)
        weights = solve_positive(covariance, means.T, "--shrinkage")  # (F, C)
        bias = -0.5 * (means.T * weights).sum(0, keepdim=True)
        return torch.cat((weights, bias))

    def scores(self, features: torch.Tensor, solution: torch.Tensor) -> torch.Tensor:
        """Log-probabilities under equal priors, up to what all classes share."""
        return features @ solution[:-1] + solution[-1]
