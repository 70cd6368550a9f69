"""One more task from images that no benchmark brought."""
from collections.abc import Sequence
from typing import Any

import torch

from datasets.utils.images import ImageDataset
from datasets.utils.loaders import TensorLoader
from datasets.utils.wrapper import MammothDatasetWrapper
from engine.errors import UsageError
from engine.training_step import take_step
from utils.checkpoints import Position
from utils.schedulers import get_scheduler


def label_numbers(labels: Any, count: int, names: Sequence[str], first: int,
                  last: int) -> torch.Tensor:
    """Labels (count,) as numbers of the classes from `first` to before `last`.

    Args:
        labels: numbers or class names.
        names: of all classes.

    Raises:
        UsageError: they are too few or too many, or of other classes.
    """
    values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if len(values) != count:
        raise UsageError(f"Expected a label for each of the {count} images, but got {len(values)}.")
    known = {name: number for number, name in enumerate(names)}
    numbers = [known.get(value, -1) if isinstance(value, str) else value for value in values]
    wrong = next((value for value, number in zip(values, numbers, strict=True)
                  if not isinstance(number, int) or not first <= number < last), None)
    if wrong is not None:
        raise UsageError(f"The next task learns {', '.join(names[first:last])} (labels {first} to "
                         f"{last - 1}), but one of the labels is {wrong!r}.")
    return torch.tensor(numbers, dtype=torch.long)


def teach(model: Any, benchmark: Any, data: ImageDataset, epochs: int | None,
          batch_size: int | None) -> None:
    """Let a method learn a training set as its next task.

    Args:
        data: items `(augmented, label, image)`.
        epochs, batch_size: those of the method's arguments by default.

    Raises:
        UsageError: a number is not positive.
        RunError: the loss became infinite.
    """
    args = model.args
    epochs = args.n_epochs if epochs is None else epochs
    batch_size = args.batch_size if batch_size is None else batch_size
    if epochs < 1 or batch_size < 1:
        raise UsageError(f"Expected positive numbers of epochs and samples per batch, but got "
                         f"{epochs} and {batch_size}.")
    loader = TensorLoader(MammothDatasetWrapper(data, train=True), batch_size, shuffle=True,
                          generator=torch.Generator().manual_seed(args.seed + model.current_task))
    tested = TensorLoader(MammothDatasetWrapper(data, train=False), batch_size)
    benchmark.c_task = model.current_task
    benchmark.train_loader = loader
    missing = model.current_task + 1 - len(benchmark.test_loaders)
    benchmark.test_loaders += [tested] * missing  # their number is the number of the task
    model.net.train()
    model.meta_begin_task(benchmark)
    scheduler = get_scheduler(model, args)
    position = Position(task=model.current_task)
    for epoch in range(epochs):
        position.epoch, position.batch = epoch, 0
        model.meta_begin_epoch(epoch, benchmark)
        for batch in benchmark.train_loader:
            take_step(model, batch, position)
            if scheduler is not None and args.scheduler_mode == "iter":
                scheduler.step()
        if scheduler is not None and args.scheduler_mode == "epoch":
            scheduler.step()
        model.meta_end_epoch(epoch, benchmark)
    model.meta_end_task(benchmark)
