"""Online Elastic Weight Consolidation (Kirkpatrick et al., 2017; Schwarz et al., 2018).

Each parameter is tied to its value after the last task, by a spring as stiff as the Fisher
information says that the parameter mattered: loss = CE + lambda sum_i F_i (theta_i - theta*_i)^2.
One running Fisher, F <- gamma F + F_task, stands for all tasks.
"""
from argparse import Namespace
from typing import Any

import torch

from backbone.base import MammothBackbone
from engine.argument_types import at_least, share
from models.utils.continual_model import ContinualModel
from models.utils.fisher import diagonal_fisher
from utils.args import ArgumentParser


class EwcOn(ContinualModel):
    """Cross-entropy plus a quadratic penalty around the last task's parameters."""

    NAME = "ewc_on"
    COMPATIBILITY = ["class-il", "domain-il", "task-il"]
    anchor: torch.Tensor  # (P,)
    fisher: torch.Tensor  # (P,)

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Strength and memory of the penalty."""
        parser.add_argument("--e_lambda", type=at_least(0.0), required=True,
                            help="lambda, the weight of the penalty")
        parser.add_argument("--gamma", type=share, required=True,
                            help="how much of the earlier tasks' Fisher information stays")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """Nothing matters yet: the Fisher information is zero."""
        super().__init__(backbone, loss, args, transform, dataset)
        parameters = self.net.get_params().detach()
        self.register_buffer("anchor", parameters.clone())
        self.register_buffer("fisher", parameters.new_zeros(parameters.shape))

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step on the stream, held back by the springs."""
        self.opt.zero_grad()
        loss = self.loss(self.net(inputs), labels) + self.args.e_lambda * self.penalty()
        loss.backward()
        self.opt.step()
        return loss.item()

    def penalty(self) -> torch.Tensor:
        """Squared distance to the anchor, in the metric of the Fisher information."""
        return (self.fisher * (self.net.get_params() - self.anchor).square()).sum()

    def end_task(self, dataset: Any) -> None:
        """Add the task's Fisher information and move the anchor."""
        task_fisher = diagonal_fisher(self.net, dataset.train_loader, self.device)
        self.fisher = self.args.gamma * self.fisher + task_fisher
        self.anchor = self.net.get_params().detach()
