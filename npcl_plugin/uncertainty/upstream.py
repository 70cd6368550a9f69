"""`--uncertainty 1` in an upstream checkout, through the hooks that every model has there.

Upstream's training loop calls a model's `end_epoch` after each epoch and its `end_eval`, with the
accuracies, after each task was evaluated. Both are empty in upstream's own models, and what is
done in them here leaves no trace in the run: every module's mode, the gradients' switch and the
generators of Python, numpy and torch are put back, and test sets are read row by row, without
their loaders. The files have the form of our harness's run folders, so the report reads them.
"""
import json
import os
import platform
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from npcl_plugin import contract
from npcl_plugin.contract import evaluation_mode, usage_error
from npcl_plugin.generators import untouched_generators
from npcl_plugin.import_hooks import harness_file
from npcl_plugin.settings import own_settings
from npcl_plugin.uncertainty.files import FOLDER, save_json
from npcl_plugin.uncertainty.printing import table
from npcl_plugin.uncertainty.recorder import Recorder

_OF_HARNESS = ("model", "dataset", "backbone", "seed", "lr", "batch_size", "n_epochs", "n_iters",
               "fitting_mode", "optimizer", "optim_wd", "optim_mom", "joint", "validation",
               "noise_rate", "label_perc", "debug_mode", "start_from", "stop_after")


def recording_for(model: Any, args: Namespace) -> "Recording | None":
    """What a model calls from its hooks; None unless `--uncertainty 1` asks for it."""
    return Recording(model, args) if getattr(args, "uncertainty", 0) else None


class Recording:
    """The recorder of our harness, called by a model instead of by a harness.

    Raises:
        an error of usage: no folder is named, or it cannot be written.
    """

    def __init__(self, model: Any, args: Namespace) -> None:
        if not args.uncertainty_path:
            raise usage_error("--uncertainty 1 needs a folder to write to in upstream Mammoth; "
                              "give --uncertainty_path FOLDER.")
        self.recorder = Recorder(args)
        stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}_upstream"
        path = Path(args.uncertainty_path, "runs", args.dataset, args.model, stamp)
        try:
            (path / FOLDER).mkdir(parents=True)
        except OSError as error:
            raise usage_error(f"--uncertainty_path {args.uncertainty_path} cannot be written "
                              f"({error.strerror}).") from error
        self.run = SimpleNamespace(model=model, args=args, dataset=model.dataset,
                                   folder=SimpleNamespace(path=path))
        self.accuracies: tuple[list[list[float]], list[list[float]]] = ([], [])
        self.began = time.time()
        arguments = {**{name: getattr(args, name, None) for name in _OF_HARNESS},
                     **own_settings(args), "harness": "upstream"}
        self.about = {"args": json.loads(json.dumps(arguments, default=str)),
                      "command": shlex.join(["python", *sys.argv]),
                      "versions": {"python": platform.python_version(),
                                   "torch": torch.__version__, "numpy": np.__version__}}
        save_json(path / "args.json", self.about)

    def after_epoch(self, epoch: int, dataset: Any) -> None:
        """An epoch was trained."""
        self._look(dataset, lambda: self.recorder.after_epoch(
            self.run, self.run.model.current_task, epoch))

    def after_eval(self, dataset: Any, accuracies: Sequence[Sequence[float]]) -> None:
        """A task was evaluated; after the last one everything is measured."""
        args, task = self.run.args, self.run.model.current_task
        for kept, row in zip(self.accuracies, accuracies, strict=True):
            kept.append([float(value) for value in row[:task + 1]])
        self._look(dataset, lambda: self.recorder.after_task(self.run, task))
        if task + 1 == (args.stop_after or dataset.N_TASKS):
            self._look(dataset, self._finish)

    def _look(self, dataset: Any, function: Callable[[], Any]) -> None:
        """Call a function so that the run does not notice; its time is not the run's."""
        began = time.time()
        self.run.dataset = dataset
        with untouched_generators(), evaluation_mode(self.run.model):
            function()
        self.began += time.time() - began

    def _finish(self) -> None:
        """Everything from the files, then result.json in the form of our harness."""
        seconds, path = time.time() - self.began, self.run.folder.path
        values = self.recorder.finish(self.run)
        model, dataset, args = self.run.model, self.run.dataset, self.run.args
        names = [dataset.SETTING, *(["task-il"] if dataset.SETTING == "class-il" else [])]
        matrices = dict(zip(names, self.accuracies, strict=False))
        metrics = harness_file("utils.metrics")
        save_json(path / "result.json", {
            "model": model.NAME, "dataset": dataset.NAME, "setting": dataset.SETTING,
            "seed": args.seed, "buffer_size": args.buffer_size,
            "accuracy": {name: float(np.mean(rows[-1])) for name, rows in matrices.items()},
            "accuracy_matrix": matrices,
            "transfer": {kind: {name: getattr(metrics, kind)(rows)
                                for name, rows in matrices.items()}
                         for kind in ("backward_transfer", "forgetting")},
            "n_parameters": sum(p.numel() for p in model.get_parameters()),
            "debug_mode": bool(args.debug_mode), "seconds": seconds,
            **self.about, FOLDER: values})
        print(f"\nuncertainty\n{table(values, path)}\nReport: python utils/report.py {path}",
              flush=True)


def novel_images(name: str, own: Any) -> Any:
    """uint8 images of another kind, where upstream keeps its data; `own` are the newest task's.

    Raises:
        an error of usage: the files are not there.
    """
    if name in ("inverted", "shuffled"):
        return torch.as_tensor(own)
    from torchvision import datasets

    kind, folders = {"mnist": ("MNIST", ("MNIST", "")), "fashion-mnist": (
        "FashionMNIST", ("FMNIST", "FashionMNIST", "")), "cifar10": ("CIFAR10", ("CIFAR10", "")),
        "cifar100": ("CIFAR100", ("CIFAR100", ""))}[name]
    for folder in folders:
        try:
            found = getattr(datasets, kind)(os.path.join(contract.base_path(), folder), train=False)
        except RuntimeError:  # not there; nothing is downloaded for a measure
            continue
        images, labels = torch.as_tensor(found.data), torch.as_tensor(found.targets)
        return images[labels < 10] if name == "cifar100" else images
    raise usage_error(f"{kind} is not below {contract.base_path()}.")
