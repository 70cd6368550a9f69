"""Context sets: which labelled samples the priors are built from.

Training on task t draws its context from D_C^t, a fixed number of samples per class chosen when
the task begins; a replayed batch uses a part of itself, with every task represented.
"""
import math
from typing import Any, NamedTuple

import numpy as np
import torch

from npcl_plugin.contract import apply_transform


class Context(NamedTuple):
    """Labelled samples as the neural process sees them."""

    x: torch.Tensor  # (m, F) features
    labels: torch.Tensor  # (m,)
    tasks: torch.Tensor  # (m,)


class Batch(NamedTuple):
    """Samples of the stream."""

    images: torch.Tensor  # (m, ...) as the network sees them
    labels: torch.Tensor  # (m,)
    task_ids: torch.Tensor | None  # (m,) where domains are joined


def rows_per_class(labels: torch.Tensor, count: int) -> torch.Tensor:
    """At most `count` random rows of each class; rows with label -1 (unlabelled) are left out.

    Args:
        labels: (n,).

    Returns:
        Row numbers, grouped by class.
    """
    order = torch.randperm(len(labels))
    order = order[labels[order] >= 0]
    order = order[labels[order].argsort(stable=True)]
    _, sizes = labels[order].unique_consecutive(return_counts=True)
    first = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    return order[torch.arange(len(order)) - first < count]


def covering_rows(tasks: torch.Tensor, count: int) -> torch.Tensor:
    """`count` random rows, but at least one of every task present.

    Args:
        tasks: (B,).

    Returns:
        Row numbers (m,).
    """
    order, of_rows = torch.randperm(len(tasks)).numpy(), tasks.cpu().numpy()
    one_each = np.full(int(of_rows.max()) + 1, -1)
    one_each[of_rows[order]] = order  # the last row of each task in this random order
    ahead = np.zeros(len(tasks), bool)
    ahead[one_each[one_each >= 0]] = True
    count = max(count, int(ahead.sum()))
    chosen = np.concatenate((ahead.nonzero()[0], order[~ahead[order]]))[:count]
    return torch.from_numpy(chosen).to(tasks.device)


def misdirect(tasks: torch.Tensor, n_seen: int) -> torch.Tensor:
    """For each task (K,) a random other one of the `n_seen` so far."""
    return (tasks + torch.randint(1, n_seen, tasks.shape, device=tasks.device)) % n_seen


class ContextSet:
    """D_C^t: raw images and labels of the task in training.

    It has `state_dict`, so the harness's checkpoints keep it.
    """

    def __init__(self) -> None:
        self.examples: torch.Tensor | None = None  # (n, ...) not augmented
        self.labels: torch.Tensor | None = None  # (n,)
        self.task_ids: torch.Tensor | None = None  # (n,) where domains are joined

    def choose(self, data: Any, per_class: int) -> None:
        """Pick samples of a training set whose items are (augmented, label, not augmented).

        Where domains are joined the set is the union of all tasks' sets.
        """
        labels, ids = torch.as_tensor(data.targets).long(), None
        if "task_ids" in getattr(data, "extra_return_fields", ()):
            ids = torch.as_tensor(data.task_ids)
            labels = torch.where(labels < 0, labels, labels + ids * (labels.max() + 1))
        rows = rows_per_class(labels, per_class)
        self.task_ids = None if ids is None else ids[rows]
        if hasattr(data, "fetch"):
            batch = data.fetch(rows)
            self.examples, self.labels = batch[2], batch[1].long()
        else:
            items = [data[int(row)] for row in rows]
            self.examples = torch.stack([item[2] for item in items])
            self.labels = torch.tensor([int(item[1]) for item in items])

    def size(self, targets: int, share: float) -> int:
        """m for a batch of targets."""
        return max(1, round(targets * share))

    def of_stream(self, inputs: torch.Tensor, labels: torch.Tensor,
                  task_ids: torch.Tensor | None, share: float, transform: Any) -> Batch:
        """The context of a stream batch, as images that the network sees; it joins the targets."""
        raw, found, ids = self.sample(self.size(len(inputs), share), inputs.device)
        return Batch(apply_transform(raw, transform), found, ids)

    def of_replay(self, labels: torch.Tensor, tasks: torch.Tensor, share: float) -> torch.Tensor:
        """Rows (m,) of a replayed batch that are its context: every task has one."""
        return covering_rows(tasks, self.size(len(labels), share))

    def sample(self, count: int, device: torch.device) \
            -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """`count` random rows: raw images, labels and, where domains are joined, tasks."""
        assert self.examples is not None and self.labels is not None  # chosen as the task began
        rows = torch.randperm(len(self.labels))[:count]
        return (self.examples.index_select(0, rows).to(device), self.labels[rows].to(device),
                None if self.task_ids is None else self.task_ids[rows].to(device))

    def state_dict(self) -> dict[str, Any]:
        """Images, labels and tasks."""
        return {"examples": self.examples, "labels": self.labels, "task_ids": self.task_ids}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the set that `state_dict` was taken from."""
        self.examples, self.labels = state["examples"], state["labels"]
        self.task_ids = state.get("task_ids")


class BatchContext(ContextSet):
    """The authors' code: a batch is its own context, of which every class has a sample.

    A task of a replayed batch may be left without any. The context of the stream counts among
    the targets twice.
    """

    def size(self, targets: int, share: float) -> int:
        """m for a batch of targets, if it has no more classes."""
        return math.ceil(targets * share)

    def of_stream(self, inputs: torch.Tensor, labels: torch.Tensor,
                  task_ids: torch.Tensor | None, share: float, transform: Any) -> Batch:
        """Some of the batch once more."""
        rows = covering_rows(labels, self.size(len(labels), share))
        return Batch(inputs[rows], labels[rows], None if task_ids is None else task_ids[rows])

    def of_replay(self, labels: torch.Tensor, tasks: torch.Tensor, share: float) -> torch.Tensor:
        """Rows (m,) of a replayed batch that are its context: every class has one."""
        return covering_rows(labels, self.size(len(labels), share))


CONTEXTS = {"dataset": ContextSet, "batch": BatchContext}
