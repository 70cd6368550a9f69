"""Regular Polytope Classifier (Pernici et al., 2021).

The classifier is fixed before training: the vertices of a regular simplex, one for each class that
will ever come, all equally far apart. Only the features learn, so new classes cannot move the old
ones' place. Beside it runs plain replay from a class-balanced buffer.
"""
import math
from argparse import Namespace
from typing import Any

import torch

from backbone.base import MammothBackbone
from models.utils.rehearsal import RehearsalModel
from utils.buffer import fill_buffer


def simplex_vertices(n_vertices: int) -> torch.Tensor:
    """Unit vectors with equal angles between them: the regular simplex around the origin.

    The first d are the standard basis, the last lies on the diagonal where all distances agree;
    then the centre of mass moves to the origin.

    Returns:
        (d, d + 1) with d = n_vertices - 1; a column is a vertex.
    """
    d = n_vertices - 1
    diagonal = (1 - math.sqrt(d + 1)) / d
    vertices = torch.cat((torch.eye(d), torch.full((d, 1), diagonal)), dim=1)
    vertices = vertices - vertices.mean(dim=1, keepdim=True)
    return vertices / vertices.norm(dim=0)


class RPC(RehearsalModel):
    """Replay with a fixed simplex as classifier."""

    NAME = "rpc"
    COMPATIBILITY = ["class-il", "task-il"]
    vertices: torch.Tensor  # (C - 1, C)
    SHARES_BUFFER = True

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """Place all classes and start with an empty buffer."""
        super().__init__(backbone, loss, args, transform, dataset)
        self.register_buffer("vertices", simplex_vertices(self.num_classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Inner products of the network's first C - 1 outputs with the vertices, (B, C)."""
        return self.net(x)[:, :-1] @ self.vertices

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step on stream and replay in one forward pass."""
        inputs, labels = self.with_replay(inputs, labels)
        self.opt.zero_grad()
        loss = self.loss(self(inputs), labels)
        loss.backward()
        self.opt.step()
        return loss.item()

    def end_task(self, dataset: Any) -> None:
        """Divide the buffer evenly among the classes seen so far."""
        fill_buffer(self.buffer, dataset, self.current_task)
