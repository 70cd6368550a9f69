"""Dark Experience Replay (Buzzega et al., 2020), equation 5.

The buffer keeps the network's logits at the time a sample was seen; replay asks the network
to still give them.
"""
import torch
from torch.nn import functional as F

from engine.argument_types import at_least
from models.utils.rehearsal import RehearsalModel
from utils.args import ArgumentParser


class Der(RehearsalModel):
    """Cross-entropy on the stream plus alpha times the drift of the stored logits."""

    NAME = "der"
    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]
    KEEPS_ONLY_BUFFER = True

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Arguments of the buffer and the weight of the distillation."""
        parser = RehearsalModel.get_parser(parser)
        parser.add_argument("--alpha", type=at_least(0.0), required=True,
                            help="weight of the squared distance to the stored logits")
        return parser

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step; the samples enter the buffer with the logits they had in it."""
        self.opt.zero_grad()
        logits = self.net(inputs)
        loss = self.loss(logits, labels)
        if not self.buffer.is_empty():
            loss = loss + self.replay_loss()
        loss.backward()
        self.opt.step()
        self.buffer.add_data(examples=not_aug_inputs, labels=labels, logits=logits.detach())
        return loss.item()

    def replay_loss(self) -> torch.Tensor:
        """Squared distance of the logits now to the logits then, on replayed samples."""
        inputs, _, stored = self.replay()
        return self.args.alpha * F.mse_loss(self.net(inputs), stored)
