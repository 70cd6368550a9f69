"""RanPAC (McDonnell et al., 2023): random projection and ridge regression.

Features pass a fixed random layer with ReLU; a ridge regression from there to the one-hot labels
answers. The sums H^T H and H^T Y are all that is kept, so the answer at any time is that of a batch
regression on everything seen. The authors may adapt the network to the first task before; here
it stays as it is ("without PETL" in their tables).

The ridge is chosen after each task. The authors try powers of ten on a held-out fifth of the task;
here generalised cross-validation (Golub et al., 1979) chooses among the same powers: it needs the
sums only and does not depend on the order of the samples.
"""
from argparse import Namespace
from typing import Any

import torch

from backbone.base import MammothBackbone
from engine.argument_types import at_least
from engine.errors import RunError
from models.utils.closed_form import ClosedFormModel
from models.utils.positive_definite import solve_positive
from utils.args import ArgumentParser

RIDGES = [10.0 ** power for power in range(-4, 9)]


class Ranpac(ClosedFormModel):
    """Ridge regression on randomly projected features."""

    NAME = "ranpac"
    projection: torch.Tensor  # (F, M)
    gram: torch.Tensor  # (M, M)

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Width of the projection and the ridge."""
        parser = ClosedFormModel.get_parser(parser)
        parser.add_argument("--rp_size", type=at_least(0), default=10000,
                            help="units of the random layer; 0: the features themselves")
        parser.add_argument("--ridge", type=at_least(0.0), default=0.0,
                            help="weight of the squared coefficients; 0: chosen after each task by "
                                 "generalised cross-validation")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """Draw the projection (by the seed) and start without samples."""
        super().__init__(backbone, loss, args, transform, dataset)
        self.width = args.rp_size or self.feature_dim  # M
        projection = torch.randn(self.feature_dim, args.rp_size)
        self.register_buffer("projection", projection.double())
        self.zeros("gram", self.width, self.width)
        self.zeros("sums", self.num_classes, self.width)

    def project(self, features: torch.Tensor) -> torch.Tensor:
        """(B, M) from features (B, F)."""
        return torch.relu(features @ self.projection) if self.args.rp_size else features

    def add(self, features: torch.Tensor, labels: torch.Tensor) -> None:
        """Sum h h^T over all samples, and h for each class."""
        hidden = self.project(features)
        self.sums.index_add_(0, labels, hidden)
        self.gram.addmm_(hidden.T, hidden)

    def solve(self) -> torch.Tensor:
        """The coefficients (M, C)."""
        ridge = self.args.ridge or best_ridge(self.gram, self.sums.T, self.counts.sum())
        return solve_positive(with_ridge(self.gram, ridge), self.sums.T, "--ridge")

    def scores(self, features: torch.Tensor, solution: torch.Tensor) -> torch.Tensor:
        """The regression's estimate of the one-hot label."""
        return self.project(features) @ solution


def with_ridge(gram: torch.Tensor, ridge: float) -> torch.Tensor:
    """gram + ridge * I."""
    matrix = gram.clone()
    matrix.diagonal().add_(ridge)
    return matrix


def validation_errors(gram: torch.Tensor, moments: torch.Tensor,
                      count: torch.Tensor) -> list[float]:
    """Generalised cross-validation: n * residual sum of squares / (n - degrees of freedom)^2.

    Args:
        gram: H^T H, (M, M).
        moments: H^T Y, (M, C), of one-hot labels Y.
        count: n, the number of samples, which is also the sum of the squares in Y.

    Returns:
        The error of each ridge; infinite where the matrix is singular to working precision.
    """
    spectrum = torch.linalg.eigvalsh(gram).clamp(min=0)  # (M,)
    errors = []
    for ridge in RIDGES:
        factor, failed = torch.linalg.cholesky_ex(with_ridge(gram, ridge))
        if failed:
            errors.append(float("inf"))
            continue
        weights = torch.cholesky_solve(moments, factor)
        residual = count - (weights * moments).sum() - ridge * weights.square().sum()
        freedom = (spectrum / (spectrum + ridge)).sum()
        left = (count - freedom).clamp(min=1e-9)
        errors.append(float(count * residual.clamp(min=0) / left.square()))
    return errors


def best_ridge(gram: torch.Tensor, moments: torch.Tensor, count: torch.Tensor) -> float:
    """The power of ten with the least generalised cross-validation error.

    Raises:
        RunError: none gives a matrix that can be inverted.
    """
    if not gram.isfinite().all():
        raise RunError("The features have no finite sums, so no ridge fits them; look for values "
                       "that are not finite.")
    errors = validation_errors(gram, moments, count)
    return RIDGES[min(range(len(RIDGES)), key=errors.__getitem__)]
