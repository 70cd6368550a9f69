"""The base of all benchmarks: a sequence of tasks and what belongs to it."""
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch.nn import functional

import utils.torchvision_compat  # noqa: F401  (benchmarks may import torchvision from here on)
from datasets.utils import default_args
from datasets.utils.class_order import fix_class_names_order, has_class_tasks, set_order
from datasets.utils.masking import store_masked_loaders
from datasets.utils.seeds import data_seed
from datasets.utils.variants import set_class_fields
from datasets.utils.wrapper import MammothDatasetWrapper
from engine.errors import UsageError

__all__ = ["ContinualDataset", "MammothDatasetWrapper", "fix_class_names_order",
           "store_masked_loaders"]


def _evaluate(*args: Any, **kwargs: Any) -> Any:
    from utils.evaluate import evaluate

    return evaluate(*args, **kwargs)


def _log(*args: Any, **kwargs: Any) -> Any:
    from utils.loggers import log_accs

    return log_accs(*args, **kwargs)


def count_classes(benchmark: Any) -> int | None:
    """Classes of a whole benchmark, given it or its class; None if that does not say."""
    per_task = getattr(benchmark, "N_CLASSES_PER_TASK", None)
    total = getattr(benchmark, "N_CLASSES", None)
    if per_task is None or (has_class_tasks(benchmark) and total is not None):
        return total
    if isinstance(per_task, int):
        return per_task * benchmark.N_TASKS if has_class_tasks(benchmark) else per_task
    return sum(per_task)


class ContinualDataset:
    """A benchmark: `get_data_loaders()` brings the next task each time it is called.

    Attributes:
        NAME: what `--dataset` calls it.
        SETTING: "class-il", "task-il", "domain-il" or "general-continual".
        N_TASKS, N_CLASSES_PER_TASK, N_CLASSES: how many; the second may be a list.
        SIZE: height and width of the images.
        MEAN, STD, TRANSFORM, TEST_TRANSFORM: normalisation and torchvision pipelines, if any.
        LIKE: the benchmark whose settings a method takes where it has none for this one.
        DEFAULTS: the benchmark's own values of command-line arguments, e.g. `n_epochs`; the
            decorator `set_default_from_args` says the same in upstream's way.
        train_loader: of the current task.
        test_loaders: one for each task so far.
        kept_apart: with `--calibrate`, a loader for each task so far of samples that are not
            trained on.
        c_task: number of the current task, -1 at first; counts for class- and task-IL only.
        class_order: new label of each original class, or None.
        task_order: original number of the task at each place of the sequence.
        unlabeled_mask: numbers of the current task's training samples without a label.
        data_seed: what all randomness of the data starts from.
        eval_fn, log_fn: how a model is evaluated and its accuracies are reported.
    """

    base_fields = ("SETTING", "N_CLASSES_PER_TASK", "N_TASKS", "SIZE", "N_CLASSES", "AVAIL_SCHEDS")
    optional_fields = ("MEAN", "STD")
    composed_fields = ("TRANSFORM", "TEST_TRANSFORM")
    AVAIL_SCHEDS = ["multisteplr", "cosine"]
    # Declared, not set: what a benchmark leaves out is found missing.
    NAME: str
    SETTING: str
    N_TASKS: int
    N_CLASSES_PER_TASK: int | Sequence[int]
    N_CLASSES: int
    SIZE: tuple[int, ...]
    MEAN: Sequence[float] | None
    STD: Sequence[float] | None
    TRANSFORM: Any
    TEST_TRANSFORM: Any
    class_order: np.ndarray | None
    task_order: list[int]
    unlabeled_mask: np.ndarray
    _before_variant: dict[str, Any]
    DEFAULTS: dict[str, Any] = {}
    CLASS_NAMES: tuple[str, ...] | None = None
    class_names: list[str] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        default_args(cls)

    def __init__(self, args: Namespace) -> None:
        self.args = args
        self.eval_fn: Callable = _evaluate
        self.log_fn: Callable = _log
        self.train_loader: Any = None
        self.test_loaders: list[Any] = []
        self.kept_apart: list[Any] = []
        self.c_task = -1
        self.data_seed = data_seed(args)
        missing = [name for name in self.base_fields if getattr(self, name, None) is None
                   and name != "N_CLASSES"]
        if missing:
            raise UsageError(f"The benchmark of class {type(self).__name__} is not complete: it "
                             f"does not define {', '.join(missing)}; add it there.")
        n_classes = count_classes(self)
        assert n_classes is not None, "N_CLASSES_PER_TASK is there, and says it"
        self.N_CLASSES = n_classes
        set_order(self)
        if getattr(args, "joint", 0):
            self._join_tasks()

    @classmethod
    def can_join(cls) -> bool:
        """Whether `--joint 1` can make one task of all: by itself where tasks are classes."""
        return has_class_tasks(cls)

    def _join_tasks(self) -> None:
        if not self.can_join():
            raise UsageError(f"--joint 1 makes one task of several, but {self.NAME} "
                             f"({self.SETTING}) cannot do that; leave it out.")
        self.N_CLASSES_PER_TASK = self.N_CLASSES
        self.N_TASKS = 1

    @property
    def current_task(self) -> int:
        """How many tasks have been brought so far."""
        if self.c_task == -1 and has_class_tasks(self):
            raise ValueError("Expected get_data_loaders() to be called first: there is no task "
                             "yet.")
        return len(self.test_loaders)

    def get_offsets(self, task_idx: int | None = None) -> tuple[int, int]:
        """First and last (exclusive) label of a task, by default of the current one.

        In domain-IL all tasks have the same labels.
        """
        task = 0 if not has_class_tasks(self) else self.c_task if task_idx is None else task_idx
        per_task = self.N_CLASSES_PER_TASK
        if isinstance(per_task, int):
            return per_task * task, per_task * (task + 1)
        return sum(per_task[:task]), sum(per_task[:task + 1])

    @classmethod
    def set_default_from_config(cls, config: dict[str, Any],
                                parser: ArgumentParser) -> dict[str, Any]:
        """Make this class the variant that a YAML file describes.

        Fields of the benchmark are set on the class, everything else becomes a class attribute
        and a default of the parser. What an earlier call set is undone first, so an empty
        `config` brings the benchmark back.

        Returns:
            The part of `config` that is command-line arguments.
        """
        arguments = set_class_fields(cls, config)
        parser.set_defaults(**arguments)
        return arguments

    @staticmethod
    def evaluate(model: Any, dataset: "ContinualDataset", last: bool = False,
                 return_loss: bool = False) -> Any:
        """Accuracies of a model on the tasks so far; see `utils.evaluate.evaluate`."""
        return dataset.eval_fn(model, dataset, last=last, return_loss=return_loss)

    def log(self, *args: Any, **kwargs: Any) -> Any:
        """Report accuracies; see `utils.loggers.log_accs`."""
        return self.log_fn(*args, **kwargs)

    def get_data_loaders(self) -> tuple[Any, Any]:
        """The training and test loader of the next task; both are kept in `self` too."""
        raise NotImplementedError

    def get_backbone(self) -> str:
        """Name of the backbone to use unless `--backbone` says otherwise."""
        return self.DEFAULTS["backbone"]

    def get_transform(self) -> Any:
        """`Compose([ToPILImage(), Compose([...])])`: augmentation from [0, 1] images, or None."""
        raise NotImplementedError

    @staticmethod
    def get_loss() -> Callable:
        """The loss function."""
        return functional.cross_entropy

    def get_normalization_transform(self) -> Any:
        """torchvision's Normalize for these images, or None."""
        raise NotImplementedError

    def get_denormalization_transform(self) -> Any:
        """The inverse of the normalisation, or None."""
        raise NotImplementedError

    def get_epochs(self) -> int | None:
        """Epochs per task, if the benchmark has an opinion."""
        return self.DEFAULTS.get("n_epochs")

    def get_iters(self) -> int | None:
        """Iterations per task, if the benchmark has an opinion."""
        return self.DEFAULTS.get("n_iters")

    def get_batch_size(self) -> int | None:
        """Samples per batch, if the benchmark has an opinion."""
        return self.DEFAULTS.get("batch_size")

    def get_minibatch_size(self) -> int | None:
        """Samples per replay batch: as many as in a batch of the stream."""
        return self.get_batch_size()

    def get_class_names(self) -> list[str]:
        """Names of the classes, in the order of their labels in this run."""
        if self.CLASS_NAMES is None:
            raise NotImplementedError(f"{self.NAME} does not know the names of its classes.")
        self.class_names = fix_class_names_order(list(self.CLASS_NAMES), self.args)
        return self.class_names

    def get_prompt_templates(self) -> list[str]:
        """Sentences around a class name, for models that read text."""
        return ["a photo of a {}."]
