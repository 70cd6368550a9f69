"""What every method with a buffer of past samples shares."""
from argparse import Namespace
from typing import Any

import torch

from backbone.base import MammothBackbone
from engine.errors import UsageError
from models.utils.continual_model import ContinualModel
from utils.args import ArgumentParser, add_rehearsal_args
from utils.buffer import Buffer


class RehearsalModel(ContinualModel):
    """A continual learner that keeps a reservoir of the stream in `self.buffer`."""

    SHARES_BUFFER = False  # True: after each task every class so far keeps an equal share of it

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Arguments of the buffer."""
        add_rehearsal_args(parser)
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        super().__init__(backbone, loss, args, transform, dataset)
        self.buffer = Buffer(args.buffer_size)
        if self.SHARES_BUFFER and not getattr(args, "compute_theoretical_best", False):
            self._ensure_shares()

    def _ensure_shares(self) -> None:
        last = self.N_TASKS if self.args.stop_after is None else self.args.stop_after
        classes = self.N_CLASSES if self.args.joint else self.dataset.get_offsets(last - 1)[1]
        if self.args.buffer_size < classes:
            raise UsageError(f"Expected --buffer_size to be at least {classes}, one sample for "
                             f"each class that {self.NAME} will have seen, but got "
                             f"{self.args.buffer_size}.")

    def replay(self) -> tuple[torch.Tensor, ...]:
        """A batch of the buffer: augmented examples, then what is stored with them."""
        return self.buffer.get_data(self.args.minibatch_size, transform=self.transform,
                                    device=self.device)

    def with_replay(self, inputs: torch.Tensor, labels: torch.Tensor
                    ) -> tuple[torch.Tensor, torch.Tensor]:
        """A batch of the stream followed by one of the buffer (while it is empty, alone)."""
        if self.buffer.is_empty():
            return inputs, labels
        replayed, replayed_labels = self.replay()[:2]
        return torch.cat((inputs, replayed)), torch.cat((labels, replayed_labels))
