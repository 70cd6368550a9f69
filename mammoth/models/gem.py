"""Gradient Episodic Memory (Lopez-Paz and Ranzato, 2017).

The step may not increase the loss of any past task on its part of the memory: where the
gradient g conflicts with the tasks' gradients G, it is replaced by g + G^T v, with v the solution
of the dual quadratic programme (equation 11)

    min_v  1/2 v^T (G G^T) v + (G g)^T v    subject to v >= gamma.

The memory of M samples is divided evenly among the tasks; a task's part is drawn at its end.
"""
from argparse import Namespace
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from backbone.base import MammothBackbone
from engine.argument_types import at_least
from engine.errors import UsageError
from models.utils.gradients import (
    batch_gradient,
    flat_gradient,
    group_gradients,
    write_gradient,
)
from models.utils.rehearsal import RehearsalModel
from models.utils.task_samples import draw_samples
from utils.args import ArgumentParser

Parameters = Callable[[], Iterable[nn.Parameter]]


class Gem(RehearsalModel):
    """Gradients projected to where no past task gets worse."""

    NAME = "gem"
    COMPATIBILITY = ["class-il", "domain-il", "task-il"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Arguments of the buffer and the margin of the constraints."""
        parser = RehearsalModel.get_parser(parser)
        parser.add_argument("--gamma", type=at_least(0.0), default=0.5,
                            help="least weight of each past task's gradient in a projection")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """Start with an empty buffer; tell at once if the solver is missing."""
        super().__init__(backbone, loss, args, transform, dataset)
        solver()

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step along the gradient, projected if a past task objects."""
        past = None if self.buffer.is_empty() else self.past_gradients()  # (T', P)
        self.opt.zero_grad()
        loss = self.loss(self.net(inputs), labels)
        loss.backward()
        if past is not None:
            parameters = list(self.net.parameters())
            gradient = project(flat_gradient(parameters), past, self.args.gamma)
            write_gradient(parameters, gradient)
        self.opt.step()
        return loss.item()

    def past_gradients(self) -> torch.Tensor:
        """The gradient of each past task's loss on its part of the memory, (T', P)."""
        inputs, labels, tasks = self.buffer.get_all_data(self.transform, self.device)
        order = tasks.argsort(stable=True)
        sizes = tasks.unique(return_counts=True)[1].tolist()
        inputs, labels = inputs[order], labels[order]
        if len(set(sizes)) == 1:
            inputs, labels = (x.unflatten(0, (len(sizes), -1)) for x in (inputs, labels))
            return group_gradients(self.net, self.loss, inputs, labels)
        return torch.stack([batch_gradient(self.net, self.loss, x, y) for x, y in zip(
            inputs.split(sizes), labels.split(sizes), strict=True)])

    def end_task(self, dataset: Any) -> None:
        """Fill the task's part of the memory."""
        share = max(self.args.buffer_size // self.N_TASKS, 1)
        _, labels, images = draw_samples(dataset, share)
        self.buffer.add_data(examples=images, labels=labels,
                             task_labels=torch.full_like(labels, self.current_task))


def solver() -> ModuleType:
    """The module that solves quadratic programmes.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import quadprog
    except ImportError as error:
        raise UsageError("gem needs the package quadprog, which is not installed; run "
                         "`pip install quadprog` (or install the extra `gem`).") from error
    return quadprog


def project(gradient: torch.Tensor, past: torch.Tensor, margin: float,
            ridge: float = 1e-3) -> torch.Tensor:
    """The gradient if it agrees with the past gradients, else the nearest vector that does.

    Args:
        gradient: (P,).
        past: (T', P).
        margin: lower bound of the dual variables; above 0 it favours the past.
        ridge: added to the diagonal of the quadratic form, which may be singular.

    Returns:
        (P,)
    """
    agreement = past @ gradient  # (T',)
    if not (agreement.isfinite().all() and (agreement < 0).any()):
        return gradient
    gram = (past @ past.T).double().cpu().numpy()
    quadratic = (gram + gram.T) / 2 + ridge * np.eye(len(past))
    bound = np.full(len(past), float(margin))
    weights = solver().solve_qp(quadratic, -agreement.double().cpu().numpy(), np.eye(len(past)),
                                bound)[0]
    return gradient + torch.from_numpy(weights).to(past) @ past


def store_grad(params: Parameters, grads: torch.Tensor, grad_dims: list[int]) -> None:
    """Copy the gradients of `params()` into the vector `grads` (upstream's calling form)."""
    assert grads.numel() == sum(grad_dims), "one entry per parameter"
    grads.copy_(flat_gradient(params()))


def overwrite_grad(params: Parameters, newgrad: torch.Tensor, grad_dims: list[int]) -> None:
    """Copy the vector `newgrad` into the gradients of `params()` (upstream's calling form)."""
    assert newgrad.numel() == sum(grad_dims), "one entry per parameter"
    write_gradient(params(), newgrad)
