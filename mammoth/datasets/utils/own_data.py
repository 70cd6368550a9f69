"""Benchmarks made of somebody's own images: all that follows from the images is found here.

`--dataset folder` and `--dataset arrays` read `Samples`; their `Facts` (classes, tasks, size,
normalisation, a digest of the content) make a benchmark class. A checkpoint keeps the facts, so a
trained model can be asked without the data.
"""
import functools
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from datasets.utils.builtin import ColourDataset
from datasets.utils.image_files import Shape
from engine.argument_types import PositiveInt
from engine.errors import UsageError

_TEST_SHARE = 0.2
_SPLIT_SEED = 0  # the split is part of the benchmark, not of a run
_BATCH = 32
_STEPS = 200  # per task, as far as the images of a task allow it in 50 epochs
_MOST_EPOCHS = 50
_PERCEPTRON = 1024  # numbers per image up to which a perceptron is the default network
_SMALL = 5000  # training images up to which the settings of the digits benchmarks fit
_LISTED = 6


@dataclass(frozen=True)
class Samples:
    """All images of a source.

    Attributes:
        images: (N, H, W) or (N, H, W, 3) uint8.
        labels: (N,) positions in `class_names`.
        is_test: (N,) whether a sample is for testing; None: nobody said.
        class_names: of all classes.
        digest: of the content.
        domains: (N,) positions in `domain_names`; None where tasks are classes.
        domain_names: of the domains.
        resized_from: what size the images had, in words, if they were resized.
    """

    images: np.ndarray
    labels: np.ndarray
    is_test: np.ndarray | None
    class_names: list[str]
    digest: str
    domains: np.ndarray | None = None
    domain_names: list[str] = field(default_factory=list)
    resized_from: str = ""

    @functools.cached_property
    def test_rows(self) -> np.ndarray:
        """(N,) whether a sample is for testing: a fifth of each class where nobody said.

        Raises:
            UsageError: a class has no sample for training or none for testing.
        """
        is_test = np.zeros(len(self.labels), dtype=bool) if self.is_test is None else self.is_test
        rng = np.random.default_rng(_SPLIT_SEED)
        of = self.domains if self.domains is not None else np.zeros_like(self.labels)
        for domain, label in sorted(set(zip(of.tolist(), self.labels.tolist(), strict=True))):
            members = np.flatnonzero((self.labels == label) & (of == domain))
            name = self.class_names[label]
            where = f"{name} of {self.domain_names[domain]}" if self.domains is not None else name
            if self.is_test is None:
                if len(members) < 2:
                    raise UsageError(f"The class {where} has a single image; it needs two at "
                                     "least, one to learn from and one to test.")
                count = max(round(len(members) * _TEST_SHARE), 1)
                is_test[rng.permutation(members)[:count]] = True
            elif is_test[members].all() or not is_test[members].any():
                missing = "train" if is_test[members].all() else "test"
                raise UsageError(f"The class {where} has no images to {missing} with; add some or "
                                 "leave the class out.")
        return is_test


def class_tasks(names: Sequence[str], per_task: int | None,
                file: str | None) -> list[list[str]]:
    """Which classes each task brings.

    Args:
        names: of all classes, in the order of learning where nothing else is said.
        per_task: classes of a task; the last one has what is left.
        file: YAML, a list of class names for each task.

    Raises:
        UsageError: that makes no tasks.
    """
    if file is not None and per_task is not None:
        raise UsageError("Expected one of --classes_per_task and --tasks, but got both; leave one "
                         "out.")
    if len(names) < 2:
        raise UsageError(f"There must be two classes at least, but there is {len(names)} "
                         f"({_listed(names)}).")
    if file is not None:
        tasks = _tasks_in(Path(file), names)
    else:
        size = min(2, len(names) // 2) if per_task is None else per_task
        tasks = [list(names[begin:begin + size]) for begin in range(0, len(names), size)]
    if len(tasks) < 2:
        raise UsageError(f"All {len(names)} classes are in a single task, which leaves nothing to "
                         "learn later; " + ("name several tasks in " + str(file) if file else
                                            "lower --classes_per_task") + ".")
    return tasks


def _tasks_in(file: Path, names: Sequence[str]) -> list[list[str]]:
    from engine.bounded import Unreadable, read_yaml_value

    try:
        content = read_yaml_value(file)
    except FileNotFoundError as error:
        raise UsageError(f"There is no file {file} (--tasks).") from error
    except Unreadable as error:
        raise UsageError(f"{file} {error}; mend it (--tasks).") from error
    if not isinstance(content, list) or not all(isinstance(task, list) and task
                                                for task in content):
        raise UsageError(f"Expected {file} to list the class names of each task, e.g. "
                         "`- [cat, dog]`.")
    tasks = [[str(name) for name in task] for task in content]
    named = [name for task in tasks for name in task]
    for name in named:
        if name not in names:
            raise UsageError(f"{file} names the class `{name}`, but there is none; there are "
                             f"{_listed(names)}.")
        if named.count(name) > 1:
            raise UsageError(f"{file} names the class `{name}` twice; keep one.")
    left = [name for name in names if name not in named]
    if left:
        raise UsageError(f"{file} puts no task to the class `{left[0]}`; name every class once.")
    return tasks


def facts_of(samples: Samples, per_task: int | None, tasks_file: str | None) -> dict[str, Any]:
    """What a benchmark needs to know of its data, as plain values that fit a checkpoint.

    Raises:
        UsageError: the data make no benchmark.
    """
    train = ~samples.test_rows
    if samples.domains is None:
        tasks = class_tasks(samples.class_names, per_task, tasks_file)
        facts: dict[str, Any] = {"setting": "class-il", "task_sizes": [len(t) for t in tasks],
                                 "class_names": [name for task in tasks for name in task]}
    else:
        if per_task is not None or tasks_file is not None:
            raise UsageError("Each folder of a domain is a task of its own: leave out "
                             "--classes_per_task and --tasks.")
        if len(samples.class_names) < 2:
            raise UsageError(f"There must be two classes at least, but there is only "
                             f"{samples.class_names[0]}.")
        facts = {"setting": "domain-il", "class_names": samples.class_names,
                 "domain_names": samples.domain_names}
    mean, std = _moments(samples.images[train])
    return facts | {
        "size": list(samples.images.shape[1:3]), "mean": mean, "std": std,
        "train": int(train.sum()), "test": int((~train).sum()),
        "resized_from": samples.resized_from, "held_out": samples.is_test is None,
        "digest": samples.digest}


def _moments(images: np.ndarray) -> tuple[list[float], list[float]]:
    """Mean and deviation of each channel of values in [0, 1], to four digits."""
    channels = 1 if images.ndim == 3 else images.shape[3]
    counts = np.stack([np.bincount(images[..., c].ravel() if images.ndim == 4 else images.ravel(),
                                   minlength=256) for c in range(channels)])  # (C, 256)
    values = np.arange(256) / 255
    share = counts / counts.sum(1, keepdims=True)
    mean = share @ values
    std = np.sqrt(np.maximum((share * (values - mean[:, None]) ** 2).sum(1), 1e-8))
    return [round(float(m), 4) for m in mean], [max(round(float(s), 4), 1e-4) for s in std]


class OwnImages(ColourDataset):
    """A benchmark of somebody's own images, once `resolved` has found out what they are.

    Args:
        data: folder or file that holds them.
        classes_per_task: classes that each task brings; 2 by default.
        tasks: YAML file with a list of class names for each task, instead.
        image_size: pixels on a side that images are resized to; by default it follows from them.
        augment: `crop` moves training images by up to 4 pixels, `flip` mirrors them as well; by
            default `none` for a perceptron, `crop` for larger networks.
    """

    SETTING = "class-il"
    N_TASKS: Any = None
    N_CLASSES_PER_TASK: Any = None
    SIZE: Any = None
    WHERE: ClassVar[str]
    FACTS: ClassVar[dict[str, Any] | None] = None
    SOURCE: ClassVar[tuple[str | None, int | None]] = (None, None)
    _read: Samples | None = None

    def __init__(self, args: Namespace, data: str | None = None,
                 classes_per_task: PositiveInt | None = None, tasks: str | None = None,
                 image_size: PositiveInt | None = None,
                 augment: Literal["auto", "none", "crop", "flip"] = "auto") -> None:
        self.TRANSFORM = self._augmentation(args, augment)
        super().__init__(args)

    @classmethod
    def read(cls, path: Path, size: int | None) -> Samples:
        """All images at a path.

        Raises:
            UsageError: they cannot be read.
        """
        raise NotImplementedError

    @classmethod
    def resolved(cls, args: Namespace) -> type["OwnImages"]:
        """The benchmark that arguments mean: with `data_facts` of a checkpoint, or by the data.

        Raises:
            UsageError: neither is there (a page of help needs none), or the data are no good.
        """
        facts = getattr(args, "data_facts", None)
        if facts is None:
            if getattr(args, "data", None) is None:
                if getattr(args, "help", False):
                    return cls
                raise UsageError(f"--data is needed: {cls.NAME} reads its images there; give "
                                 f"{cls.WHERE}.")
            samples = cls.read(Path(args.data), args.image_size)
            facts = facts_of(samples, args.classes_per_task, args.tasks)
        elif getattr(args, "tasks", None) and Path(args.tasks).is_file():
            names = facts["class_names"]
            planned = class_tasks(names, None, args.tasks)
            if [len(task) for task in planned] != facts.get("task_sizes") \
                    or [name for task in planned for name in task] != names:
                raise UsageError(f"{args.tasks} does not divide the classes as the checkpoint "
                                 "learned them; leave out --tasks.")
        source = getattr(args, "data", None), getattr(args, "image_size", None)
        return type(cls.__name__, (cls,), {**_fields(facts), "FACTS": facts, "SOURCE": source,
                                           "__module__": cls.__module__, "__doc__": cls.__doc__})

    @classmethod
    def can_join(cls) -> bool:
        """Tasks of classes can; domains of one's own have images of their own each."""
        return cls.SETTING == "class-il"

    def load_split(self, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Images and labels of a split, of the next task where tasks are domains.

        Raises:
            UsageError: the data are gone, or are not those that the facts are of.
        """
        samples = self._samples()
        assert self.FACTS is not None
        rows = samples.test_rows != train
        if samples.domains is not None:
            rows = rows & (samples.domains == self.task_order[len(self.test_loaders)])
        order = {name: number for number, name in enumerate(self.FACTS["class_names"])}
        labels = np.array([order[name] for name in samples.class_names])[samples.labels[rows]]
        return torch.from_numpy(samples.images[rows]), torch.from_numpy(labels)

    def _samples(self) -> Samples:
        assert self.FACTS is not None
        if self._read is None:
            path, size = self.SOURCE
            if path is None:
                raise UsageError(f"--data is needed: the images of {self.NAME} are to be read; "
                                 f"give {self.WHERE}.")
            self._read = self.read(Path(path), size)
            if self._read.digest != self.FACTS["digest"]:
                raise UsageError(f"{path} does not hold the images that the checkpoint was trained "
                                 "on; give these with --data.")
        return self._read

    def _augmentation(self, args: Namespace, kind: str) -> Any:
        from torchvision import transforms

        if kind == "auto":
            kind = "none" if "mlp" in str(args.backbone) else "crop"
        moving = [] if kind == "none" else [transforms.RandomCrop(tuple(self.SIZE), padding=4)]
        moving += [transforms.RandomHorizontalFlip()] if kind == "flip" else []
        return transforms.Compose([*moving, transforms.ToTensor(),
                                   transforms.Normalize(self.MEAN, self.STD)])

    def describe(self) -> str:
        """The data and what followed from them, in a few aligned lines."""
        facts = self.FACTS
        assert facts is not None
        height, width = facts["size"]
        shape = Shape(height, width, len(facts["mean"]))
        split = "a fifth of each class held out for testing" if facts["held_out"] else \
            "as the data divide them"
        if self.SETTING == "domain-il":
            tasks = _listed([f"[{name}]" for name in facts["domain_names"]], "")
        else:
            ends = np.cumsum([0, *facts["task_sizes"]])
            tasks = _listed([f"[{', '.join(facts['class_names'][a:b])}]"
                             for a, b in zip(ends, ends[1:], strict=False)], "")
        lines = [("classes", f"{len(facts['class_names'])}: {_listed(facts['class_names'])}"),
                 ("images", f"{facts['train']} to train, {facts['test']} to test ({split})"),
                 ("pixels", f"{shape.width}x{shape.height} "
                            f"{'grey' if shape.channels == 1 else 'colour'}, normalised by mean "
                            f"{_numbers(facts['mean'])} and deviation {_numbers(facts['std'])}"),
                 ("tasks", f"{self.N_TASKS}: {tasks}")]
        if facts["resized_from"]:
            lines.append(("resized", f"from {facts['resized_from']}; --image_size chooses another "
                                     "size"))
        where = f"Data in {self.SOURCE[0]}" if self.SOURCE[0] else "Data"
        return "\n".join([where, *(f"  {name:<8} {text}" for name, text in lines)])


def _fields(facts: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a benchmark class."""
    domains = facts["setting"] == "domain-il"
    n_tasks = len(facts["domain_names"] if domains else facts["task_sizes"])
    numbers = int(np.prod(facts["size"])) * len(facts["mean"])
    steps = max(facts["train"] / n_tasks / _BATCH, 1)
    perceptron, small = numbers <= _PERCEPTRON, facts["train"] <= _SMALL
    like = ("rot-digits" if small else "rot-mnist") if domains else \
        ("seq-digits" if small else "seq-mnist") if perceptron else "seq-cifar10"
    sizes = facts.get("task_sizes", [])
    return {
        "SETTING": facts["setting"], "N_TASKS": n_tasks, "N_CLASSES": len(facts["class_names"]),
        "N_CLASSES_PER_TASK": len(facts["class_names"]) if domains else
        sizes[0] if len(set(sizes)) == 1 else list(sizes),
        "SIZE": tuple(facts["size"]), "MEAN": tuple(facts["mean"]), "STD": tuple(facts["std"]),
        "CLASS_NAMES": tuple(facts["class_names"]), "LIKE": like,
        "DEFAULTS": {"backbone": "mnistmlp" if perceptron else "reduced-resnet18",
                     "batch_size": _BATCH,
                     "n_epochs": int(np.clip(round(_STEPS / steps), 1, _MOST_EPOCHS))}}


def _listed(names: Sequence[str], comma: str = ",") -> str:
    shown = f"{comma} ".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown}{comma} ..."


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)
