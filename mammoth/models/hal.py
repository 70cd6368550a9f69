"""Hindsight Anchor Learning (Chaudhry et al., 2021).

Each task leaves one anchor per class: an image made by gradient ascent on which the network would
forget most if it were tuned on the memory (equation 8). Each step then looks ahead: where the
ordinary step would change the outputs on the anchors, it is bent back (equations 5 and 6).
"""
from argparse import Namespace
from typing import Any

import torch

from backbone.base import MammothBackbone
from datasets.utils.label_reduction import UNLABELED
from engine.argument_types import at_least, share
from models.utils.gradients import call_with
from models.utils.rehearsal import RehearsalModel
from utils.args import ArgumentParser
from utils.batch_norm import bn_track_stats

ANCHOR_STEPS = 100


class HAL(RehearsalModel):
    """Replay with a penalty on what a step would do to the anchors."""

    NAME = "hal"
    COMPATIBILITY = ["class-il", "domain-il", "task-il"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Arguments of the buffer and of the anchors."""
        parser = RehearsalModel.get_parser(parser)
        parser.add_argument("--hal_lambda", type=at_least(0.0), default=0.1,
                            help="weight of the change of the outputs on the anchors")
        parser.add_argument("--beta", type=share, default=0.5,
                            help="decay of the running mean of the features")
        parser.add_argument("--gamma", type=at_least(0.0), default=0.1,
                            help="weight of an anchor's distance to the mean of the features")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """Start with an empty buffer and without anchors."""
        super().__init__(backbone, loss, args, transform, dataset)
        self.anchors: torch.Tensor | None = None  # (A, C, H, W)
        self.phi = None  # (F,) running mean of the task's features

    def begin_task(self, dataset: Any) -> None:
        """The mean of the features is the task's own."""
        self.phi = None

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step on stream and replay that keeps the outputs on the anchors."""
        batch, batch_labels = self.with_replay(inputs, labels)
        self.opt.zero_grad()
        loss = self.loss(self.net(batch), batch_labels)
        loss.backward()
        value = loss.item()
        with bn_track_stats(self.net, False):
            if self.anchors is not None:
                value += self.add_anchor_gradient()
            self.opt.step()
            with torch.no_grad():
                mean = self.net(inputs, returnt="features").mean(0)
        beta = self.args.beta
        self.phi = (0 if self.phi is None else beta * self.phi) + (1 - beta) * mean
        self.buffer.add_data(examples=not_aug_inputs, labels=labels)
        return value

    def add_anchor_gradient(self) -> float:
        """Add the gradient of the anchors' penalty to that of the step; returns the penalty."""
        lr = self.opt.param_groups[0]["lr"]
        with torch.no_grad():
            ahead = {name: p - lr * p.grad for name, p in self.net.named_parameters()
                     if p.grad is not None}
            moved = call_with(self.net, ahead, self.anchors)
        change = (self.net(self.anchors) - moved).square().mean()
        penalty = self.args.hal_lambda * change
        penalty.backward()
        return penalty.item()

    def end_task(self, dataset: Any) -> None:
        """Learn the anchors of the task's classes."""
        if self.phi is None:  # no step was taken (--start_from)
            return
        targets = torch.as_tensor(dataset.train_loader.dataset.targets)
        classes = targets[targets != UNLABELED].unique()
        self.net.eval()
        new = self.learn_anchors(classes.to(self.device))
        self.net.train()
        self.anchors = new if self.anchors is None else torch.cat((self.anchors, new))

    def learn_anchors(self, classes: torch.Tensor) -> torch.Tensor:
        """Images that are remembered now, but not after tuning on the memory.

        Ascends on loss(tuned) - loss(now) - gamma |features - phi|^2, all classes at once.

        Args:
            classes: (A,) one anchor for each.

        Returns:
            (A, C, H, W)
        """
        tuned = self.tuned_parameters()
        shape = self.buffer.examples.shape[1:]
        anchors = torch.rand(len(classes), *shape, device=self.device)
        steps = self.get_debug_iters() if self.args.debug_mode else ANCHOR_STEPS
        for _ in range(steps):
            anchors.requires_grad_(True)
            features = self.net(anchors, returnt="features")
            forgetting = (self.loss(call_with(self.net, tuned, anchors), classes)
                          - self.loss(self.net.classifier(features), classes))
            distance = (features - self.phi).square().sum()
            objective = len(classes) * forgetting - self.args.gamma * distance
            ascent, = torch.autograd.grad(objective, anchors)
            anchors = anchors.detach() + self.args.lr * ascent
        return anchors

    def tuned_parameters(self) -> dict[str, torch.Tensor]:
        """What one step on a batch of the memory makes of the parameters, by name."""
        inputs, labels = self.buffer.get_data(self.args.batch_size, transform=self.transform,
                                              device=self.device)
        named = {name: p for name, p in self.net.named_parameters() if p.requires_grad}
        loss = self.loss(self.net(inputs), labels)
        grads = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
        return {name: p.detach() - self.args.lr * g
                for (name, p), g in zip(named.items(), grads, strict=True) if g is not None}
