"""Joint training: the upper bound that sees all tasks at once.

Nothing happens while the tasks arrive; at the end of the last one the network is trained on the
data of all of them together, for the benchmark's epochs.
"""
from typing import Any

import torch
from tqdm import tqdm

from datasets import get_dataset
from datasets.utils.label_reduction import labelled_rows
from models.utils.continual_model import ContinualModel
from utils.schedulers import get_scheduler


class Joint(ContinualModel):
    """Trains once, on the union of the tasks."""

    NAME = "joint"
    COMPATIBILITY = ["class-il", "domain-il", "task-il"]
    KEEPS_ONLY_BUFFER = True
    LEARNS_EACH_TASK = False

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float:
        """The stream is left alone until its end."""
        return 0.0

    def end_task(self, dataset: Any) -> None:
        """After the last task: train on a mixture of all tasks' samples."""
        if len(dataset.test_loaders) < self.N_TASKS:
            return
        tasks = self.task_data()
        self.opt = self.get_optimizer()
        scheduler = get_scheduler(self, self.args)
        sizes = torch.tensor([len(task) for task in tasks])
        owner = torch.arange(len(tasks)).repeat_interleave(sizes)  # task of each sample
        first = sizes.cumsum(0) - sizes
        self.net.train()
        for epoch in range(self.args.n_epochs):
            batches = torch.randperm(len(owner)).split(self.args.batch_size)
            if self.args.drop_last and len(batches[-1]) < self.args.batch_size:
                batches = batches[:-1]
            bar = tqdm(batches, desc=f"Joint - Epoch {epoch + 1}", leave=False, mininterval=0.3,
                       disable=bool(self.args.non_verbose) or None)
            for i, rows in enumerate(bar):
                if self.args.debug_mode and i > self.get_debug_iters():
                    break
                self.step(*mixed_batch(tasks, owner[rows], rows - first[owner[rows]]))
            if scheduler is not None:
                scheduler.step()

    def task_data(self) -> list[Any]:
        """The training sets of all tasks, from a second reading of the benchmark."""
        dataset = get_dataset(self.args)
        return [dataset.get_data_loaders()[0].dataset for _ in range(self.N_TASKS)]

    def step(self, inputs: torch.Tensor, labels: torch.Tensor) -> None:
        """One step of cross-entropy on what is labelled."""
        inputs, labels = labelled_rows((inputs, labels))
        if not len(labels):
            return
        self.opt.zero_grad()
        loss = self.loss(self.net(inputs.to(self.device)), labels.to(self.device))
        loss.backward()
        self.opt.step()


def mixed_batch(tasks: list[Any], owner: torch.Tensor,
                index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Fetch samples of several tasks as one batch.

    Args:
        tasks: datasets with `fetch`, or ordinary ones that are read sample by sample.
        owner: (B,) task of each sample.
        index: (B,) its position there.

    Returns:
        (B, C, H, W) augmented images and (B,) labels.
    """
    inputs, labels = [], []
    for task in owner.unique().tolist():
        rows, data = index[owner == task], tasks[task]
        if hasattr(data, "fetch"):
            batch = data.fetch(rows)
        else:
            items = [data[int(row)] for row in rows]
            batch = [torch.stack([item[0] for item in items]),
                     torch.tensor([int(item[1]) for item in items])]
        inputs.append(batch[0])
        labels.append(batch[1])
    return torch.cat(inputs), torch.cat(labels)
