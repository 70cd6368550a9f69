"""Function Distance Regularization (Benjamin et al., 2019).

The memory holds samples of each past task with the outputs that the network gave for them when
the task ended. After each step on the stream, a second step pulls the class probabilities of
replayed samples towards those: alpha * mean_i |softmax(f(x_i)) - softmax(stored_i)|_2.

All tasks share the memory evenly at any time: when one ends, the others give up rows for it.
"""
from typing import Any

import torch

from engine.argument_types import at_least
from models.utils.rehearsal import RehearsalModel
from models.utils.task_samples import draw_samples
from utils.args import ArgumentParser
from utils.batch_norm import bn_track_stats


class Fdr(RehearsalModel):
    """A step on the stream, then one back towards the old function."""

    NAME = "fdr"
    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Arguments of the buffer and the weight of the second step."""
        parser = RehearsalModel.get_parser(parser)
        parser.add_argument("--alpha", type=at_least(0.0), required=True,
                            help="weight of the distance to the stored outputs")
        return parser

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step on the stream and, from the second task on, one on the memory."""
        loss = self.step(self.loss(self.net(inputs), labels))
        if not self.buffer.is_empty():
            replayed, stored, _ = self.replay()
            distance = function_distance(self.net(replayed), stored)
            loss += self.step(self.args.alpha * distance)
        return loss

    def step(self, loss: torch.Tensor) -> float:
        """Descend once along a loss; returns its value."""
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    @torch.no_grad()
    def end_task(self, dataset: Any) -> None:
        """Divide the memory among one task more, and store the outputs of its samples."""
        share = max(self.args.buffer_size // (self.current_task + 1), 1)
        if not self.buffer.is_empty():
            images, logits, tasks = self.buffer.get_all_data()
            self.buffer.empty()
            rows = first_of_each(tasks, share)
            self.buffer.add_data(examples=images[rows], logits=logits[rows],
                                 task_labels=tasks[rows])
        inputs, labels, images = draw_samples(dataset, share)
        with bn_track_stats(self.net, False):
            logits = torch.cat([self.net(batch.to(self.device))
                                for batch in inputs.split(self.args.batch_size)])
        self.buffer.add_data(examples=images, logits=logits,
                             task_labels=torch.full_like(labels, self.current_task))


def function_distance(logits: torch.Tensor, stored: torch.Tensor) -> torch.Tensor:
    """Mean Euclidean distance between the class probabilities of two logits (B, C)."""
    return torch.linalg.vector_norm(logits.softmax(1) - stored.softmax(1), dim=1).mean()


def first_of_each(tasks: torch.Tensor, share: int) -> torch.Tensor:
    """Row numbers of the first `share` rows of each task, tasks in order.

    Args:
        tasks: (N,) the task of each row.
    """
    order = tasks.argsort(stable=True)
    sizes = tasks.unique(return_counts=True)[1]
    starts = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    rank = torch.arange(len(tasks), device=tasks.device) - starts  # place within its task
    return order[rank < share]
