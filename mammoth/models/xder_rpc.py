"""X-DER with a fixed simplex as classifier (Boschini et al., 2022).

As in DER the buffer keeps logits, but they are brought up to date: what later networks say about
classes that came (or will come) after a sample was stored replaces that part of its logits, scaled
down where it would outshine the true class. The stream is learned among the task's own classes
only, and classes that are still to come are held below the present ones by a margin.
"""
from argparse import Namespace
from typing import Any

import torch
from torch.nn import functional as F

from backbone.base import MammothBackbone
from engine.argument_types import at_least, positive_share
from models.rpc import simplex_vertices
from models.utils.rehearsal import RehearsalModel
from utils.args import ArgumentParser
from utils.batch_norm import bn_track_stats
from utils.buffer import fill_buffer


def transplanted(stored: torch.Tensor, fresh: torch.Tensor, labels: torch.Tensor,
                 classes: slice, gamma: float) -> torch.Tensor:
    """Stored logits whose part `classes` is taken from fresh ones.

    Where the fresh part exceeds the stored logit of the true class it is scaled so that its
    largest value becomes gamma times that logit.

    Args:
        stored, fresh: (B, C).
        labels: (B,).
    """
    part = fresh[:, classes]
    if part.shape[1] == 0:
        return stored
    true = stored.gather(1, labels[:, None])  # (B, 1)
    largest = part.amax(1, keepdim=True)
    part = torch.where(largest > true, part * (gamma * true / largest), part)
    result = stored.clone()
    result[:, classes] = part
    return result


class XDerRpc(RehearsalModel):
    """Dark replay of logits that are kept up to date."""

    NAME = "xder_rpc"
    COMPATIBILITY = ["class-il", "task-il"]
    vertices: torch.Tensor  # (C - 1, C)
    task_ends: torch.Tensor  # (T,)
    SHARES_BUFFER = True

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Arguments of the buffer and weights of the parts of the loss."""
        parser = RehearsalModel.get_parser(parser)
        parser.add_argument("--alpha", type=at_least(0.0), required=True,
                            help="weight of the squared distance to the stored logits")
        parser.add_argument("--beta", type=at_least(0.0), required=True,
                            help="weight of the replayed labels")
        parser.add_argument("--gamma", type=positive_share, default=0.85,
                            help="height of renewed logits, relative to the true class's")
        parser.add_argument("--constr_eta", type=at_least(0.0), default=0.1,
                            help="weight of the loss that keeps --constr_margin")
        parser.add_argument("--constr_margin", type=at_least(0.0), default=0.3,
                            help="the margin to classes that are still to come")
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        """Place all classes and start with an empty buffer."""
        super().__init__(backbone, loss, args, transform, dataset)
        self.register_buffer("vertices", simplex_vertices(self.num_classes))
        ends = [self.get_offsets(task)[1] for task in range(self.N_TASKS)]
        self.register_buffer("task_ends", torch.tensor(ends))
        self.renewals = torch.zeros(args.buffer_size)  # of each row, in this task

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Inner products of the network's first C - 1 outputs with the vertices, (B, C)."""
        return self.net(x)[:, :-1] @ self.vertices

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """One step; the logits of replayed samples may be renewed."""
        self.opt.zero_grad()
        past = self.n_past_classes
        outputs = self(inputs)  # (B, C)
        loss = self.loss(outputs[:, past:self.n_seen_classes], labels - past)
        all_outputs, all_labels = outputs, labels
        if not self.buffer.is_empty():
            replay_loss, replayed, replayed_labels = self.replay_logits_and_labels()
            loss = loss + replay_loss
            all_outputs = torch.cat((outputs, replayed))
            all_labels = torch.cat((labels, replayed_labels))
        loss = loss + self.args.constr_eta * self.margin_loss(all_outputs, all_labels)
        loss.backward()
        self.opt.step()
        return loss.item()

    def replay_logits_and_labels(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The loss on two batches of the buffer, and outputs and labels of the rows in them."""
        draws = [self.buffer.get_data(self.args.minibatch_size, transform=self.transform,
                                      return_index=True, device=self.device) for _ in range(2)]
        (rows, _, _, stored), (more_rows, _, more_labels, _) = draws
        with bn_track_stats(self, False):
            outputs, more_outputs = (self(draw[1]) for draw in draws)
        loss = self.args.alpha * F.mse_loss(outputs, stored) + self.args.beta * self.loss(
            more_outputs[:, :self.n_past_classes], more_labels)
        fresh = ~torch.isin(more_rows, rows)  # a row that is in both counts once
        rows, labels, logits, outputs = (
            torch.cat((first, second[fresh.to(second.device)])) for first, second in (
                (rows, more_rows), (draws[0][2], more_labels), (stored, draws[1][3]),
                (outputs, more_outputs)))
        self.renew_some(rows, labels, logits, outputs.detach())
        return loss, outputs, labels

    def renew_some(self, rows: torch.Tensor, labels: torch.Tensor, stored: torch.Tensor,
                   outputs: torch.Tensor) -> None:
        """Renew rows, each the less often the more often it was renewed in this task."""
        rows = rows.cpu()
        self.renewals[rows] += 1
        chosen = torch.rand(len(rows)) * self.renewals[rows] < 1
        on_device = chosen.to(labels.device)
        self.renew(rows[chosen], labels[on_device], stored[on_device], outputs[on_device])

    def renew(self, rows: torch.Tensor, labels: torch.Tensor, stored: torch.Tensor,
              outputs: torch.Tensor) -> None:
        """Replace what the rows' logits say about the classes from this task on."""
        later = slice(self.n_past_classes, self.num_classes)
        renewed = transplanted(stored, outputs, labels, later, self.args.gamma)
        self.buffer.logits[rows.to(self.buffer.logits.device)] = renewed.to(
            self.buffer.logits)

    def margin_loss(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """How far classes to come rise above each sample's own task, mean over those that do."""
        future = outputs[:, self.n_seen_classes:]
        if future.shape[1] == 0:
            return outputs.new_zeros(())
        task = torch.bucketize(labels, self.task_ends, right=True)  # (B,)
        column = torch.arange(self.num_classes, device=outputs.device)
        own = torch.bucketize(column, self.task_ends, right=True) == task[:, None]  # (B, C)
        best = outputs.masked_fill(~own, -torch.inf).amax(1)
        excess = future.amax(1) + self.args.constr_margin - best
        return excess.clamp(min=0).sum() / (excess > 0).sum().clamp(min=1)

    @torch.no_grad()
    def end_task(self, dataset: Any) -> None:
        """Divide the buffer among the classes; store and renew logits."""
        fill_buffer(self.buffer, dataset, self.current_task, net=self.net,
                    required_attributes=("examples", "labels", "logits"))
        examples, labels, stored = self.buffer.get_all_data(self.transform, self.device)
        with bn_track_stats(self, False):
            outputs = torch.cat([self(part) for part in examples.split(self.args.batch_size)])
        new = labels >= self.n_past_classes
        past = slice(0, self.n_past_classes)
        stored[new] = transplanted(outputs[new], outputs[new], labels[new], past, self.args.gamma)
        rows = torch.arange(len(labels))
        self.buffer.logits[rows] = stored.to(self.buffer.logits)
        old = ~new
        if old.any():
            self.renew(rows[old.cpu()], labels[old], stored[old], outputs[old])
        self.renewals.zero_()
