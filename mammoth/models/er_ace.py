"""Experience Replay with Asymmetric Cross-Entropy (Caccia et al., 2022).

New samples must not push the old classes' representations away: in the stream's softmax the seen
classes that are not in the batch are left out; replayed samples compete among all classes.
"""
from argparse import Namespace
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from backbone.base import MammothBackbone
from engine.errors import UsageError
from models.utils.rehearsal import RehearsalModel
from utils import binary_to_boolean_type
from utils.args import ArgumentParser


class CosineClassifier(nn.Linear):
    """Scores that are cosines between features and class weights, times 10."""

    SCALE = 10.0

    def __init__(self, in_features: int, out_features: int) -> None:
        """No bias: only the angle counts."""
        super().__init__(in_features, out_features, bias=False)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """(B, F) to (B, C)."""
        return self.SCALE * F.linear(F.normalize(features), F.normalize(self.weight))


def use_cosine_classifier(backbone: nn.Module) -> None:
    """Replace the backbone's classifier under each name that it is known by."""
    old = getattr(backbone, "classifier", None)
    if not isinstance(old, nn.Linear):
        raise UsageError(f"er_ace needs a backbone with a linear `classifier`, which "
                         f"{type(backbone).__name__} lacks; give --use_custom_classifier 0.")
    new = CosineClassifier(old.in_features, old.out_features)
    for module in list(backbone.modules()):
        for name, child in list(module.named_children()):
            if child is old:
                setattr(module, name, new)


class ErACE(RehearsalModel):
    """Masked cross-entropy on the stream plus plain cross-entropy on replayed samples."""

    NAME = "er_ace"
    COMPATIBILITY = ["class-il", "task-il"]
    KEEPS_ONLY_BUFFER = True
    seen: torch.Tensor  # (C,) whether there were samples of the class

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Arguments of the buffer and the two variants of the original."""
        parser = RehearsalModel.get_parser(parser)
        parser.add_argument("--task_free", type=binary_to_boolean_type, default=False,
                            help="mask and replay from the first step on, not only from the "
                                 "second task on")
        parser.add_argument("--use_custom_classifier", type=binary_to_boolean_type, default=True,
                            help="cosine classifier, as in the paper, instead of the backbone's")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """Start with an empty buffer and no class seen."""
        if args.use_custom_classifier:
            use_cosine_classifier(backbone)
        super().__init__(backbone, loss, args, transform, dataset)
        self.register_buffer("seen", torch.zeros(self.num_classes, dtype=torch.bool))

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step; the stream's samples then enter the buffer."""
        asymmetric = self.args.task_free or self.current_task > 0
        self.opt.zero_grad()
        logits = self.net(inputs)
        if asymmetric:
            logits = logits.masked_fill(self.absent_classes(labels), float("-inf"))
        loss = self.loss(logits, labels)
        if asymmetric and not self.buffer.is_empty():
            replayed, replayed_labels = self.replay()
            loss = loss + self.loss(self.net(replayed), replayed_labels)
        loss.backward()
        self.opt.step()
        self.seen[labels] = True
        self.buffer.add_data(examples=not_aug_inputs, labels=labels)
        return loss.item()

    def absent_classes(self, labels: torch.Tensor) -> torch.Tensor:
        """Classes seen before that this batch does not hold; unseen ones stay, (C,)."""
        absent = self.seen.clone()
        absent[labels] = False
        return absent
