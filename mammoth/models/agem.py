"""Averaged GEM (Chaudhry et al., 2019), equation 11.

One constraint instead of one per task: the gradient may not point against that of a batch drawn
from typing import Any
from the memory of all past tasks. The memory is divided evenly among the tasks; a task's part
is drawn at its end.
"""
from typing import Any

import torch

from models.utils.gradients import batch_gradient, flat_gradient, write_gradient
from models.utils.rehearsal import RehearsalModel
from models.utils.task_samples import draw_samples


class AGem(RehearsalModel):
    """The stream's gradient without its part that hurts the memory."""

    NAME = "agem"
    COMPATIBILITY = ["class-il", "domain-il", "task-il"]
    KEEPS_ONLY_BUFFER = True

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step along the corrected gradient of the stream."""
        self.opt.zero_grad()
        loss = self.loss(self.net(inputs), labels)
        loss.backward()
        if not self.buffer.is_empty():
            replayed, replayed_labels = self.replay()
            memory = batch_gradient(self.net, self.loss, replayed, replayed_labels)  # (P,)
            parameters = list(self.net.parameters())
            gradient = flat_gradient(parameters)
            if torch.dot(gradient, memory) < 0:
                write_gradient(parameters, project(gradient, memory))
        self.opt.step()
        return loss.item()

    def end_task(self, dataset: Any) -> None:
        """Fill the task's part of the memory."""
        _, labels, images = draw_samples(dataset, max(self.args.buffer_size // self.N_TASKS, 1))
        self.buffer.add_data(examples=images, labels=labels)


def project(gxy: torch.Tensor, ger: torch.Tensor) -> torch.Tensor:
    """The part of the vector `gxy` (P,) that is orthogonal to `ger` (P,)."""
    return gxy - torch.dot(gxy, ger) / torch.dot(ger, ger) * ger
