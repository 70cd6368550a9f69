"""Experience Replay (Riemer et al., 2019; Chaudhry et al., 2019).

A reservoir buffer of past samples is replayed beside the stream, in one forward pass.
"""
import torch

from models.utils.continual_model import ContinualModel
from utils.args import add_rehearsal_args
from utils.buffer import Buffer


class Er(ContinualModel):
    """Cross-entropy on the stream and on replayed samples together."""

    NAME = "er"
    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]

    @staticmethod
    def get_parser(parser):
        """Arguments of the buffer."""
        add_rehearsal_args(parser)
        return parser

    def __init__(self, backbone, loss, args, transform, dataset=None):
        """Start with an empty buffer."""
        super().__init__(backbone, loss, args, transform, dataset)
        self.buffer = Buffer(args.buffer_size)

    def observe(self, inputs, labels, not_aug_inputs, epoch=None):
        """One step on stream and replay; the stream's samples then enter the buffer."""
        stream_labels = labels
        if not self.buffer.is_empty():
            replayed, replayed_labels = self.buffer.get_data(
                self.args.minibatch_size, transform=self.transform, device=self.device)
            inputs = torch.cat((inputs, replayed))
            labels = torch.cat((labels, replayed_labels))
        self.opt.zero_grad()
        loss = self.loss(self.net(inputs), labels)
        loss.backward()
        self.opt.step()
        self.buffer.add_data(examples=not_aug_inputs, labels=stream_labels)
        return loss.item()
