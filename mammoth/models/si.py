"""Synaptic Intelligence (Zenke et al., 2017).

While a task is learned, every parameter collects how much of the fall of the loss it caused,
omega_i = -sum over steps of gradient_i * step_i. Divided by how far it went, that is its
importance; later tasks pay c * importance_i * (theta_i - theta*_i)^2 for moving it (equations
3-5). As in the code behind the published tables, the gradient is the one that is applied: of the
loss with its penalty, clipped.
"""
from argparse import Namespace
from typing import Any

import torch
from torch.nn.utils import clip_grad_value_

from backbone.base import MammothBackbone
from engine.argument_types import at_least, positive
from models.utils.continual_model import ContinualModel
from utils.args import ArgumentParser

_CLIP = 1.0  # largest entry of a gradient: the published results are clipped so


class SI(ContinualModel):
    """Cross-entropy plus a quadratic penalty weighted by path-integral importance."""

    NAME = "si"
    COMPATIBILITY = ["class-il", "domain-il", "task-il"]
    anchor: torch.Tensor  # (P,) theta*
    path: torch.Tensor  # (P,) omega
    importance: torch.Tensor  # (P,) Omega

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Strength of the penalty and damping of the importance."""
        parser.add_argument("--c", type=at_least(0.0), required=True,
                            help="c, the weight of the penalty")
        parser.add_argument("--xi", type=positive, required=True,
                            help="xi, which bounds the importance of parameters that hardly moved")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """Nothing matters yet: path integral and importance are zero."""
        super().__init__(backbone, loss, args, transform, dataset)
        parameters = self.net.get_params().detach()
        self.register_buffer("anchor", parameters.clone())
        self.register_buffer("path", parameters.new_zeros(parameters.shape))
        self.register_buffer("importance", parameters.new_zeros(parameters.shape))

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step on the stream; the path integral goes along."""
        before = self.net.get_params().detach()
        self.opt.zero_grad()
        loss = self.loss(self.net(inputs), labels) + self.args.c * self.penalty()
        loss.backward()
        clip_grad_value_(self.get_parameters(), _CLIP)
        self.opt.step()
        step = self.net.get_params().detach() - before
        self.path -= self.net.get_grads() * step
        return loss.item()

    def penalty(self) -> torch.Tensor:
        """Squared distance to the anchor, weighted by importance."""
        return (self.importance * (self.net.get_params() - self.anchor).square()).sum()

    def end_task(self, dataset: Any) -> None:
        """Turn the path integral into importance and start a new one from here."""
        parameters = self.net.get_params().detach()
        self.importance += self.path / ((parameters - self.anchor).square() + self.args.xi)
        self.anchor = parameters
        self.path.zero_()
