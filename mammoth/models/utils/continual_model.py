"""The base class of every method: Mammoth's `ContinualModel`.

A method overrides `observe` (one training step) and, where it needs them, the hooks around
tasks, epochs and evaluations. The `meta_*` functions are the harness's side of the hooks:
they keep counters and class ranges so that a method file holds nothing but the method.
"""
import inspect
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import nn

from backbone.base import MammothBackbone
from engine.debug_mode import BATCHES
from engine.errors import UsageError
from engine.optimisers import SGD, Adam, AdamW
from utils.args import ArgumentParser
from utils.augmentations import to_batch_transform
from utils.conf import get_device, warn_once
from utils.evaluate import evaluation_mode


class ContinualModel(nn.Module):
    """A continual learner around a backbone.

    Args:
        backbone: the network, kept as `self.net`; its parameters are what is optimised.
        loss: the benchmark's loss function.
        args: the run's arguments.
        transform: the benchmark's training transform (torchvision); becomes the batch-wise
            `self.transform`, which augments each sample by itself and normalises.
        dataset: the benchmark.
    """

    NAME: str
    COMPATIBILITY: list[str]
    _own_steps = 0
    AVAIL_OPTIMS = ["sgd", "adam", "adamw"]
    TRAINS_BY_GRADIENT = True  # False: solved in closed form, without learning rate and epochs
    # Arguments that only concern how a trained model answers: evaluation may change them.
    INFERENCE_ARGUMENTS: tuple[str, ...] = ()
    LEARNS_EACH_TASK = True  # False for bounds that train at the end: transfer means nothing then
    # True: of the past it keeps the rows of its buffer (if any) and nothing else besides images
    # and labels, so that its storage can be counted; False where old networks, importances,
    # statistics or scores are kept too.
    KEEPS_ONLY_BUFFER = False

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        """Declare the method's own arguments."""
        return parser

    def __init__(self, backbone: MammothBackbone, loss: Any, args: Namespace, transform: Any,
                 dataset: Any = None) -> None:
        super().__init__()
        if not getattr(self, "NAME", None) or not getattr(self, "COMPATIBILITY", None):
            raise UsageError(f"{type(self).__name__} does not define NAME and COMPATIBILITY; add "
                             "them there.")
        if dataset is None:
            from datasets import get_dataset
            dataset = get_dataset(args)
        self.net = backbone
        self.loss = loss
        self.args = args
        self.dataset = dataset
        self.original_transform = transform
        self.transform = None if transform is None else to_batch_transform(transform)
        normalisation = dataset.get_normalization_transform()
        if normalisation is not None:
            self.normalization_transform = to_batch_transform(normalisation)
        self.N_CLASSES = self.num_classes = dataset.N_CLASSES
        self.N_TASKS = self.n_tasks = dataset.N_TASKS
        self.SETTING = dataset.SETTING
        self._cpt = dataset.N_CLASSES_PER_TASK
        self._current_task = 0
        self.n_classes_current_task = self.n_past_classes = -1
        self.n_seen_classes = self.n_remaining_classes = -1
        self.task_iteration = self.epoch_iteration = 0
        self._last_epoch: int | None = None
        self.custom_scheduler = None
        self.temperature = getattr(args, "temperature", None) or 1.0  # at which it answers
        self.device = get_device(getattr(args, "device", None))
        self.opt = self.get_optimizer()

    @property
    def current_task(self) -> int:
        """Index of the task in training; one more from `end_task` on."""
        return self._current_task

    @property
    def cpt(self) -> int | list[int]:
        """Classes per task."""
        return self._cpt

    classes_per_task = cpt

    def get_offsets(self, task: int) -> tuple[int, int]:
        """First class of a task and the one after its last."""
        return self.dataset.get_offsets(task)

    def get_parameters(self) -> Iterator[nn.Parameter]:
        """What the optimiser trains."""
        return self.net.parameters()

    def get_optimizer(self, params: Any = None, lr: float | None = None) -> torch.optim.Optimizer:
        """The optimiser that the arguments ask for, over `get_parameters()` by default.

        Raises:
            UsageError: the method does not support `--optimizer`.
        """
        args = self.args
        params = list(self.get_parameters() if params is None else params)
        lr = args.lr if lr is None else lr
        if args.optimizer not in self.AVAIL_OPTIMS:
            raise UsageError(f"{self.NAME} works with --optimizer {' or '.join(self.AVAIL_OPTIMS)},"
                             f" but got {args.optimizer}.")
        if args.optimizer == "sgd":
            # In one call for all parameters, where that gives the same numbers to the last bit.
            fused = True if self.device.type == "cpu" and not args.optim_mom else None
            return SGD(params, lr=lr, weight_decay=args.optim_wd, momentum=args.optim_mom,
                       nesterov=bool(args.optim_nesterov), fused=fused)
        kind = {"adam": Adam, "adamw": AdamW}[args.optimizer]
        return kind(params, lr=lr, weight_decay=args.optim_wd)

    def observe(self, inputs: torch.Tensor, labels: torch.Tensor, not_aug_inputs: torch.Tensor,
                epoch: int | None = None) -> float | dict[str, float]:
        """One training step on a batch of the stream; returns the loss."""
        raise NotImplementedError(f"{type(self).__name__} must define observe().")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Ask the model: `forward` in evaluation mode, without gradients, at its temperature.

        The answer for an image does not depend on its neighbours in the batch, and the model is
        afterwards as it was. Only the method's own steps and hooks reach `forward` as it is.
        """
        if self._own_steps:
            return super().__call__(*args, **kwargs)
        with evaluation_mode(self):
            found = super().__call__(*args, **kwargs)
        return found if self.temperature == 1 else found / self.temperature

    @contextmanager
    def _own_step(self) -> Iterator[None]:
        """While the method itself is at work, which may train with `self(x)`."""
        self._own_steps += 1
        try:
            yield
        finally:
            self._own_steps -= 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of all classes, (B, C)."""
        return self.net(x)

    def begin_task(self, dataset: Any) -> None:
        """Called before the first epoch of a task."""

    def end_task(self, dataset: Any) -> None:
        """Called after the last epoch of a task, before its evaluation."""

    def begin_epoch(self, epoch: int, dataset: Any) -> None:
        """Called before each epoch."""

    def end_epoch(self, epoch: int, dataset: Any) -> None:
        """Called after each epoch."""

    def end_eval(self, dataset: Any, accs: Any) -> None:
        """Called after the evaluation at the end of a task."""

    def load_buffer(self, buffer: Any) -> None:
        """Take over a buffer, its `state_dict`, or the bare tensors of one (`serialize`)."""
        if not isinstance(buffer, dict):
            self.buffer = buffer
        elif "num_seen_examples" in buffer:
            self.buffer.load_state_dict(buffer)
        else:
            self.buffer.empty()
            self.buffer.add_data(**buffer)

    def get_debug_iters(self) -> int:
        """Index of the last batch of an epoch in debug mode."""
        return BATCHES - 1

    def to(self, device: Any) -> "ContinualModel":  # type: ignore[override]
        """Move to a device and remember it."""
        self.device = torch.device(device)
        return super().to(device)

    def autolog_wandb(self, locals: dict, extra: dict | None = None) -> None:  # noqa: A002
        """Kept for methods written for upstream: what `observe` returns is logged instead."""

    def meta_begin_task(self, dataset: Any) -> None:
        """Set the class counts of the new task, renew the optimiser, call `begin_task`."""
        self.task_iteration = self.epoch_iteration = 0
        self._last_epoch = None
        self.count_classes(dataset, self._current_task)
        self.opt = self.get_optimizer()
        with self._own_step():
            self.begin_task(dataset)

    def count_classes(self, dataset: Any, task: int) -> None:
        """Set what is known about classes while a task is learned."""
        start, end = dataset.get_offsets(task)
        self.n_past_classes, self.n_seen_classes = start, end
        self.n_classes_current_task = end - start
        self.n_remaining_classes = self.N_CLASSES - end

    def meta_end_task(self, dataset: Any) -> None:
        """Call `end_task`, then count the task as done."""
        with self._own_step():
            self.end_task(dataset)
        self._current_task += 1

    def meta_begin_epoch(self, epoch: int, dataset: Any) -> None:
        """Call `begin_epoch` with the epoch's counter at zero."""
        self.epoch_iteration = 0
        with self._own_step():
            self.begin_epoch(epoch, dataset)

    def meta_end_epoch(self, epoch: int, dataset: Any) -> None:
        """Call `end_epoch`."""
        with self._own_step():
            self.end_epoch(epoch, dataset)

    def meta_end_eval(self, dataset: Any, accs: Any) -> None:
        """Call `end_eval` with `current_task` naming the task that was just learned."""
        self._current_task -= 1
        try:
            with self._own_step():
                self.end_eval(dataset, accs)
        finally:
            self._current_task += 1

    def meta_observe(self, inputs: torch.Tensor, labels: torch.Tensor,
                     not_aug_inputs: torch.Tensor, *args: Any, **extra: Any) -> Any:
        """Drop unlabelled rows and unknown extras, call `observe`, count the step."""
        labelled = labels != -1
        if "cssl" not in self.COMPATIBILITY and not labelled.all():
            if not labelled.any():
                return 0.0
            inputs, labels = inputs[labelled], labels[labelled]
            not_aug_inputs = not_aug_inputs[labelled]
            extra = {name: value[labelled] if torch.is_tensor(value) else value
                     for name, value in extra.items()}
        names, takes_all = observe_parameters(type(self).observe)
        wanted = extra if takes_all else {k: v for k, v in extra.items() if k in names}
        with self._own_step():
            loss = self.observe(inputs, labels, not_aug_inputs, *args, **wanted)
        self.task_iteration += 1
        self.epoch_iteration += 1
        return loss


@cache
def observe_parameters(observe: Callable) -> tuple[frozenset[str], bool]:
    """Names that a method's `observe` takes, and whether it takes any name."""
    parameters = inspect.signature(observe).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if "not_aug_inputs" not in parameters and not takes_all:
        warn_once(f"{observe.__qualname__} has no parameter `not_aug_inputs`")
    return frozenset(parameters), takes_all
