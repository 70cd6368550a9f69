"""Accuracy on the tasks seen so far, as Mammoth defines it."""
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from tqdm import tqdm


def mask_classes(outputs: torch.Tensor, dataset: Any, task: int) -> None:
    """Leave only the classes of a task in the race, in place.

    Args:
        outputs: scores (B, C or more); columns beyond the benchmark's classes stay.
    """
    start, end = dataset.get_offsets(task)
    outputs[:, :start] = -float("inf")
    outputs[:, end:dataset.N_CLASSES] = -float("inf")


@contextmanager
def evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """Every module in eval mode and no gradients; afterwards each flag is as it was."""
    training = []
    waiting: list[torch.nn.Module | None] = [model]  # `modules()` makes names besides
    while waiting:
        module = waiting.pop()
        if module is not None:
            waiting.extend(module._modules.values())
            if module.training:
                training.append(module)
    if training:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def told_the_task(model: Any) -> bool:
    """Whether a method answers only when it is told the task of an image."""
    return not {"class-il", "general-continual"} & set(model.COMPATIBILITY)


def outputs_of(model: Any, inputs: torch.Tensor, task: int | None) -> torch.Tensor:
    """Scores (B, C) of all classes; `task` is for methods that have to be told it."""
    found: torch.Tensor = model(inputs, task) if told_the_task(model) else model(inputs)
    return found


def evaluate(model: Any, dataset: Any, last: bool = False, return_loss: bool = False) -> Any:
    """Test on each task seen so far.

    Args:
        last: only the newest task.
        return_loss: also give the mean loss per sample.

    Returns:
        (accuracies, accuracies with the task known), percentages per task; the second list is
        filled in class-IL only. With `return_loss` the loss follows.
    """
    loaders = list(enumerate(dataset.test_loaders))
    loaders = loaders[-1:] if last else loaders
    accs, masked_accs = [], []
    total_loss, total = 0.0, 0
    with evaluation_mode(model):
        for task, loader in loaders:
            correct, masked, loss, count = _test_task(model, dataset, loader, task,
                                                      return_loss)
            no_class_il = told_the_task(model) and dataset.SETTING == "class-il"
            accs.append(0.0 if no_class_il else 100.0 * correct / count)
            masked_accs.append(100.0 * masked / count)
            total_loss, total = total_loss + loss, total + count
    return (accs, masked_accs, total_loss / total) if return_loss else (accs, masked_accs)


def _test_task(model: Any, dataset: Any, loader: Any, task: int, with_loss: bool) \
        -> tuple[int, int, float, int]:
    """Correct answers, correct with the task known, summed loss and samples of one task."""
    n_seen = dataset.get_offsets()[1]
    correct = torch.zeros((), dtype=torch.long, device=model.device)
    masked, loss, count = correct.clone(), torch.zeros((), device=model.device), 0
    limit = model.get_debug_iters() if model.args.debug_mode else None
    bar = tqdm(loader, desc=f"Evaluating Task {task + 1}", leave=False, mininterval=0.3,
               delay=2, disable=bool(model.args.non_verbose) or None)
    for i, batch in enumerate(bar):
        if limit is not None and i > limit:
            break
        inputs, labels = batch[0].to(model.device), batch[1].to(model.device)
        outputs = outputs_of(model, inputs, task)
        if with_loss:
            loss += model.loss(outputs, labels)
        correct += (outputs[:, :n_seen].argmax(dim=1) == labels).sum()
        count += len(labels)
        if dataset.SETTING == "class-il":
            mask_classes(outputs, dataset, task)
            masked += (outputs.argmax(dim=1) == labels).sum()
    return int(correct), int(masked), float(loss), max(count, 1)
