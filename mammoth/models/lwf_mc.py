"""Learning without Forgetting, multi-class (Rebuffi et al., 2017, section 4: LwF.MC).

iCaRL without exemplars: every class is a binary problem. A new class has its label as target, a
past one the probability that the network gave it before the task.
"""
from argparse import Namespace
from typing import Any

import torch
from torch.nn import functional as F

from backbone.base import MammothBackbone
from engine.argument_types import at_least
from models.utils.continual_model import ContinualModel
from models.utils.snapshots import frozen_copy
from utils.args import ArgumentParser


class LwFMC(ContinualModel):
    """Binary cross-entropy to labels (new classes) and to old outputs (past classes)."""

    NAME = "lwf_mc"
    COMPATIBILITY = ["class-il", "task-il"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Weight of the parameters' norm."""
        parser.add_argument("--wd_reg", type=at_least(0.0), default=0.0,
                            help="weight of the squared norm of the parameters in the loss")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """There is no past yet."""
        super().__init__(backbone, loss, args, transform, dataset)
        self.old_net: MammothBackbone | None = None

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step on the stream."""
        self.opt.zero_grad()
        logits = self.net(inputs)[:, :self.n_seen_classes]
        loss = F.binary_cross_entropy_with_logits(logits, self.targets(inputs, labels))
        if self.args.wd_reg:
            loss = loss + self.args.wd_reg * self.net.get_params().square().sum()
        loss.backward()
        self.opt.step()
        return loss.item()

    def targets(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """What each seen class should answer, (B, seen classes)."""
        targets = F.one_hot(labels, self.n_seen_classes).float()
        if self.old_net is not None:
            past = slice(self.n_past_classes)
            targets[:, past] = self.old_net(inputs)[:, past].sigmoid()
        return targets

    def end_task(self, dataset: Any) -> None:
        """This network is the past of the next one."""
        self.old_net = frozen_copy(self.net)
