"""Gradient-based Sample Selection (Aljundi et al., 2019), algorithm 2 (greedy).

Experience replay whose memory prefers samples with gradients unlike those that it has; the
choice is in `utils/gss_buffer.py`.
"""

from argparse import Namespace
from typing import Any

import torch

from backbone.base import MammothBackbone
from engine.argument_types import Range, positive_int
from models.utils.rehearsal import RehearsalModel
from utils.args import ArgumentParser
from utils.gss_buffer import Buffer


class Gss(RehearsalModel):
    """Replay from a memory with diverse gradients."""

    NAME = "gss"
    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Arguments of the buffer, of its comparisons and the number of steps per batch."""
        parser = RehearsalModel.get_parser(parser)
        parser.add_argument("--batch_num", type=Range(int, least=1, most=1000), default=1,
                            help="steps on each batch of the stream, with other replayed samples")
        parser.add_argument("--gss_minibatch_size", type=positive_int,
                            help="stored samples that new gradients are compared with; default: "
                                 "--minibatch_size")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """Start with an empty buffer that knows where gradients come from."""
        super().__init__(backbone, loss, args, transform, dataset)
        self.buffer = Buffer(args.buffer_size, "cpu",
                             args.gss_minibatch_size or args.minibatch_size, self)

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """Steps on stream and replay; the stream's samples are then offered to the buffer."""
        self.buffer.reset_fathom()
        for _ in range(self.args.batch_num):
            batch, batch_labels = self.with_replay(inputs, labels)
            self.opt.zero_grad()
            loss = self.loss(self.net(batch), batch_labels)
            loss.backward()
            self.opt.step()
        self.buffer.add_data(not_aug_inputs, labels)
        return loss.item()
