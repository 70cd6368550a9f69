"""What the closed-form methods share: sums over the stream instead of gradient steps.

The network is never trained: its features are the samples. On pretrained features (`--features`,
see docs/features.md) that is how these methods are meant; on plain images they work on the
features of a network with random weights.
"""
from argparse import Namespace
from typing import Any

import torch

from backbone.base import MammothBackbone
from engine.optimisers import SGD
from models.utils.continual_model import ContinualModel
from utils.args import ArgumentParser

UNSEEN = -1e30  # the score of a class without samples: finite, so that no softmax is NaN


class ClosedFormModel(ContinualModel):
    """A learner whose answer follows from sums over all samples so far.

    Every sample is counted once, without augmentation, and the sums are kept in double precision:
    the answer does not depend on the order of the samples or on how tasks divide them. It is solved
    for when it is first asked for and kept until the next sample arrives.

    A subclass makes its sums in `__init__` (with `zeros`), extends them in `add`, and answers in
    `solve` and `scores`.
    """

    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]
    TRAINS_BY_GRADIENT = False
    counts: torch.Tensor  # (C,) samples of each class
    sums: torch.Tensor  # (C, F or wider), of each class

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """There is no learning rate, and one pass over the data suffices."""
        parser.set_defaults(lr=None, n_epochs=1)
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        super().__init__(backbone, loss, args, transform, dataset)
        self.feature_dim: int = backbone.classifier.in_features
        self.solution: torch.Tensor | None = None
        self.zeros("counts", self.num_classes)

    def zeros(self, name: str, *shape: int) -> None:
        """Register a sum that starts at zero; it is part of checkpoints."""
        self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))

    def get_optimizer(self, params: Any = None, lr: float | None = None) -> torch.optim.Optimizer:
        """One that never steps: the training loop and checkpoints expect an optimiser."""
        return SGD(list(self.get_parameters() if params is None else params), lr=0.0)

    @torch.no_grad()
    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """Count the samples, in the first pass over a task only; there is no loss."""
        if epoch:
            return 0.0
        normalise = getattr(self, "normalization_transform", None)
        images = not_aug_inputs if normalise is None else normalise(not_aug_inputs)
        features = self.features(images)
        self.counts += torch.bincount(labels, minlength=self.num_classes)
        self.add(features, labels)
        self.solution = None
        return 0.0

    @torch.no_grad()
    def features(self, images: torch.Tensor) -> torch.Tensor:
        """(B, F) float64; the network's mode is evaluation, so no batch changes its features."""
        training = self.net.training
        self.net.eval()
        found = self.net(images, returnt="features").double()
        self.net.train(training)
        return found

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores (B, C); classes without samples come last."""
        if self.solution is None:
            self.solution = self.solve()
        found = self.scores(self.features(x), self.solution)
        return found.masked_fill(self.counts == 0, UNSEEN).float()

    def means(self) -> torch.Tensor:
        """Class means (C, F); zero for classes without samples."""
        return self.sums / self.counts.clamp(min=1)[:, None]

    def add(self, features: torch.Tensor, labels: torch.Tensor) -> None:
        """Extend the sums by samples (B, F) with labels (B,)."""
        raise NotImplementedError

    def solve(self) -> torch.Tensor:
        """What `scores` needs, from the sums."""
        raise NotImplementedError

    def scores(self, features: torch.Tensor, solution: torch.Tensor) -> torch.Tensor:
        """(B, C) from features (B, F)."""
        raise NotImplementedError
