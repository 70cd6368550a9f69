"""A-GEM with a reservoir (Buzzega et al., 2020): no task boundaries needed."""
from typing import Any

import torch

from models.agem import AGem as _AGem


class AGemr(_AGem):
    """A-GEM whose memory is a uniform sample of the stream."""

    NAME = "agem_r"
    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """A-GEM's step; the stream's samples then enter the reservoir."""
        loss = super().observe(inputs, labels, not_aug_inputs, epoch)
        self.buffer.add_data(examples=not_aug_inputs, labels=labels)
        return loss

    def end_task(self, dataset: Any) -> None:
        """The reservoir is filled on the way."""
