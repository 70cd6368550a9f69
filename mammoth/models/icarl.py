"""iCaRL (Rebuffi et al., 2017).

The memory joins the training data of each new task. All classes seen so far are learned as
separate yes-or-no questions: new ones from the labels, old ones from the answers of the network
before the task. Exemplars are chosen by herding; the class whose mean of exemplars is nearest in
feature space is the answer.
"""
from argparse import Namespace
from typing import Any

import torch
import torch.nn.functional as F

from backbone.base import MammothBackbone
from engine.argument_types import at_least
from engine.errors import UsageError
from models.utils.exemplar_means import ExemplarMeans
from models.utils.rehearsal import RehearsalModel
from models.utils.snapshots import frozen_copy
from utils import binary_to_boolean_type
from utils.args import ArgumentParser
from utils.augmentations import BatchCompose, RandomCrop, RandomHorizontalFlip
from utils.buffer import Buffer, fill_buffer, icarl_replay


class ICarl(RehearsalModel):
    """Distilled sigmoid outputs, herding, nearest mean of exemplars."""

    NAME = "icarl"
    COMPATIBILITY = ["class-il", "task-il"]
    SHARES_BUFFER = True

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Arguments of the buffer and of variants of the method."""
        parser = RehearsalModel.get_parser(parser)
        parser.add_argument("--compute_theoretical_best", type=binary_to_boolean_type, default=0,
                            help="class means over all training samples, memory rounded up to "
                                 "equal shares: what unlimited exemplars would give")
        parser.add_argument("--use_original_icarl_transform", type=binary_to_boolean_type,
                            default=0, help="crop and flip after the normalisation, as in the "
                                            "authors' CIFAR-100 code")
        parser.add_argument("--opt_wd", type=at_least(0.0), default=1e-5,
                            help="weight of the squared parameters in the loss")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """Start with an empty memory; mirror images count where the benchmark augments."""
        super().__init__(backbone, loss, args, transform, dataset)
        if args.use_original_icarl_transform and len(self.dataset.SIZE) != 2:
            raise UsageError("--use_original_icarl_transform crops and flips images, but these "
                             "samples are features; leave it out.")
        if args.compute_theoretical_best:
            self.ncm_buffer = Buffer(args.buffer_size, sample_selection_strategy="unlimited")
        self.means = ExemplarMeans(self.num_classes, flip=self.transform is not None,
                                   batch_size=args.batch_size)
        self.old_net: MammothBackbone | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Minus the squared distance to each class's mean of exemplars, (B, C).

        Before there are exemplars the network's own logits answer.
        """
        if self.buffer.is_empty():
            return self.net(x)
        exemplars = getattr(self, "ncm_buffer", self.buffer)
        return self.means.scores(self.net, x, exemplars,
                                 getattr(self, "normalization_transform", None))

    def begin_task(self, dataset: Any) -> None:
        """The memory joins the training data."""
        icarl_replay(self, dataset)

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step on new and old classes."""
        if self.args.use_original_icarl_transform:
            inputs = self.original_augmentation(not_aug_inputs)
        self.means.drop()
        self.opt.zero_grad()
        loss = self.classification_loss(inputs, labels)
        if self.args.opt_wd:
            loss = loss + self.args.opt_wd * self.net.get_params().square().sum()
        loss.backward()
        self.opt.step()
        return loss.item()

    def classification_loss(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Binary cross-entropy of each class seen so far; old ones ask the old network."""
        seen, past = self.n_seen_classes, self.n_past_classes
        targets = F.one_hot(labels, seen).to(inputs.dtype)  # (B, seen)
        if self.old_net is not None:
            with torch.no_grad():
                targets[:, :past] = self.old_net(inputs)[:, :past].sigmoid()
        return F.binary_cross_entropy_with_logits(self.net(inputs)[:, :seen], targets)

    def original_augmentation(self, images: torch.Tensor) -> torch.Tensor:
        """Normalise, pad by four pixels, crop and flip at random."""
        normalise = getattr(self, "normalization_transform", None)
        if normalise is not None:
            images = normalise(images)
        height, width = images.shape[2:]
        crop = RandomCrop((height, width), padding=(4, 4, 4, 4))
        return BatchCompose([crop, RandomHorizontalFlip()])(images)

    @torch.no_grad()
    def end_task(self, dataset: Any) -> None:
        """Keep the network as the teacher of the next task and choose exemplars."""
        best = self.args.compute_theoretical_best
        fill_buffer(self.buffer, dataset, self.current_task, net=self.net, use_herding=True,
                    normalize_features=True, extend_equalize_buffer=best)
        if best:
            fill_buffer(self.ncm_buffer, dataset, self.current_task, net=self.net)
        self.old_net = frozen_copy(self.net)
        self.means.drop()
