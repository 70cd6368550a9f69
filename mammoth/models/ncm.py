"""Nearest class mean (Mensink et al., 2013), on pretrained features also known as SimpleCIL.

A class is the mean of its samples' features. SimpleCIL (Zhou et al., 2023) compares directions,
the default here; the older rule compares distances.
"""
from argparse import Namespace
from typing import Any

import torch
from torch.nn import functional as F

from backbone.base import MammothBackbone
from models.utils.closed_form import ClosedFormModel
from utils.args import ArgumentParser


class Ncm(ClosedFormModel):
    """The class whose mean is nearest."""

    NAME = "ncm"

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """What nearest means."""
        parser = ClosedFormModel.get_parser(parser)
        parser.add_argument("--ncm_distance", choices=["cosine", "euclidean"], default="cosine",
                            help="how the distance to a class mean is measured")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """Start without samples."""
        super().__init__(backbone, loss, args, transform, dataset)
        self.zeros("sums", self.num_classes, self.feature_dim)

    def add(self, features: torch.Tensor, labels: torch.Tensor) -> None:
        """Sum the features of each class."""
        self.sums.index_add_(0, labels, features)

    def solve(self) -> torch.Tensor:
        """The class means (C, F)."""
        return self.means()

    def scores(self, features: torch.Tensor, solution: torch.Tensor) -> torch.Tensor:
        """Cosine, or minus half the squared distance, to each mean."""
        if self.args.ncm_distance == "cosine":
            return F.normalize(features, dim=1) @ F.normalize(solution, dim=1).T
        return -0.5 * torch.cdist(features, solution).square()
