"""Dark Experience Replay ++ (Buzzega et al., 2020), equation 6.

DER with, besides, the cross-entropy of a second, independent batch of the buffer.
"""
import torch

from engine.argument_types import at_least
from models.der import Der as _Der
from utils.args import ArgumentParser


class Derpp(_Der):
    """DER plus beta times the cross-entropy on replayed labels."""

    NAME = "derpp"

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """DER's arguments and the weight of the replayed labels."""
        parser = _Der.get_parser(parser)
        parser.add_argument("--beta", type=at_least(0.0), required=True,
                            help="weight of the cross-entropy on replayed samples")
        return parser

    def replay_loss(self) -> torch.Tensor:
        """DER's term and that of the labels, each on a batch of its own."""
        inputs, labels, _ = self.replay()
        label_loss = self.loss(self.net(inputs), labels)
        return super().replay_loss() + self.args.beta * label_loss
