"""Learning without Forgetting (Li & Hoiem, 2016).

A copy of the network from before the task says what the old classes' outputs were on the new
images; the network has to keep them (knowledge distillation at temperature T) while it learns
the new classes, whose part of the classifier is warmed up first.
"""
from argparse import Namespace
from typing import Any

import torch
from torch.nn import functional as F

from backbone.base import MammothBackbone
from datasets.utils.label_reduction import labelled_rows
from engine.argument_types import at_least, positive
from engine.optimisers import SGD
from models.utils.continual_model import ContinualModel
from models.utils.snapshots import frozen_copy
from utils.args import ArgumentParser


def distillation_loss(logits: torch.Tensor, old_logits: torch.Tensor,
                      temperature: float) -> torch.Tensor:
    """Cross-entropy between softened outputs, averaged over the batch.

    A softmax raised to 1/T and normalised again, as the paper's equation 3 has it, is the softmax
    of the logits divided by T.
    """
    return F.cross_entropy(logits / temperature, (old_logits / temperature).softmax(dim=1))


class Lwf(ContinualModel):
    """Cross-entropy on the seen classes plus alpha times the distillation of the past ones."""

    NAME = "lwf"
    COMPATIBILITY = ["class-il", "task-il"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Weight and temperature of the distillation."""
        parser.add_argument("--alpha", type=at_least(0.0), default=0.5,
                            help="weight of the distillation")
        parser.add_argument("--softmax_temp", type=positive, default=2,
                            help="T, the temperature of both softmaxes")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """There is no past yet."""
        super().__init__(backbone, loss, args, transform, dataset)
        self.old_net: MammothBackbone | None = None

    def begin_task(self, dataset: Any) -> None:
        """Let the new part of the classifier catch up before it can disturb the rest."""
        if self.old_net is None:
            return
        opt = SGD(self.net.classifier.parameters(), lr=self.args.lr)
        new = slice(self.n_past_classes, self.n_seen_classes)
        self.net.eval()
        for _ in range(self.args.n_epochs):
            for batch in dataset.train_loader:
                inputs, labels = (part.to(self.device) for part in labelled_rows(batch[:2]))
                if not len(labels):
                    continue
                with torch.no_grad():
                    features = self.net(inputs, returnt="features")  # (B, F)
                opt.zero_grad()
                self.loss(self.net.classifier(features)[:, new], labels - new.start).backward()
                opt.step()
        self.net.train()

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step; the copy answers the same images that the network sees."""
        self.opt.zero_grad()
        logits = self.net(inputs)  # (B, C)
        loss = self.loss(logits[:, :self.n_seen_classes], labels)
        if self.old_net is not None:
            past = slice(self.n_past_classes)
            old_logits = self.old_net(inputs)
            loss = loss + self.args.alpha * distillation_loss(
                logits[:, past], old_logits[:, past], self.args.softmax_temp)
        loss.backward()
        self.opt.step()
        return loss.item()

    def end_task(self, dataset: Any) -> None:
        """This network is the past of the next one."""
        self.old_net = frozen_copy(self.net)
