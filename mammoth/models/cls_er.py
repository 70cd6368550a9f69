"""CLS-ER: complementary learning systems with experience replay (Arani et al., 2022).

Beside the network that learns, two averages of its weights are kept: a plastic one that follows
quickly and a stable one that follows slowly. On replayed samples the network is pulled towards the
logits of whichever of the two is surer of the true class. The stable average answers.
"""
from argparse import Namespace
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from backbone.base import MammothBackbone
from engine.argument_types import at_least, share
from models.utils.rehearsal import RehearsalModel
from models.utils.snapshots import frozen_copy
from utils.args import ArgumentParser


class ClsEr(RehearsalModel):
    """Replay that follows the better of two weight averages."""

    NAME = "cls_er"
    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Arguments of the buffer, of the consistency and of the two averages."""
        parser = RehearsalModel.get_parser(parser)
        parser.add_argument("--reg_weight", type=at_least(0.0), default=0.1,
                            help="weight of the squared distance to the averages' logits")
        for name, often in (("plastic", 0.9), ("stable", 0.7)):
            parser.add_argument(f"--{name}_model_update_freq", type=share, default=often,
                                help=f"probability that a step updates the {name} average")
            parser.add_argument(f"--{name}_model_alpha", type=share, default=0.999,
                                help=f"weight of the past in the {name} average")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """Both averages start at the network's first weights."""
        super().__init__(backbone, loss, args, transform, dataset)
        self.plastic = frozen_copy(backbone).train()
        self.stable = frozen_copy(backbone).train()
        self.steps = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (B, C) of the stable average."""
        return self.stable(x)

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step on stream and replay, then the averages follow."""
        new = len(labels)
        batch, batch_labels = self.with_replay(inputs, labels)
        self.opt.zero_grad()
        logits = self.net(batch)
        loss = self.loss(logits, batch_labels)
        if len(batch) > new:
            goal = self.surer_logits(batch[new:], batch_labels[new:])
            loss = loss + self.args.reg_weight * F.mse_loss(logits[new:], goal)
        loss.backward()
        self.opt.step()
        self.buffer.add_data(examples=not_aug_inputs, labels=labels)
        self.follow()
        return loss.item()

    @torch.no_grad()
    def surer_logits(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """For each sample the logits of the average that gives its class more probability."""
        plastic, stable = self.plastic(inputs), self.stable(inputs)  # (B, C)
        plastic_share, stable_share = (logits.softmax(1).gather(1, labels[:, None])
                                       for logits in (plastic, stable))  # (B, 1)
        return torch.where(stable_share > plastic_share, stable, plastic)

    def follow(self) -> None:
        """Move each average towards the network, with its probability."""
        self.steps += 1
        args = self.args
        for average, often, past in (
                (self.plastic, args.plastic_model_update_freq, args.plastic_model_alpha),
                (self.stable, args.stable_model_update_freq, args.stable_model_alpha)):
            if torch.rand(()) < often:
                self.move(average, min(1 - 1 / (self.steps + 1), past))

    @torch.no_grad()
    def move(self, average: nn.Module, past: float) -> None:
        """average = past * average + (1 - past) * network, for all parameters."""
        for kept, current in zip(average.parameters(), self.net.parameters(), strict=True):
            kept.lerp_(current, 1 - past)
