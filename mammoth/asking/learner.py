"""A trained continual learner outside of its benchmark: ask it, teach it more, save it."""
import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from asking.abstaining import Curve
from asking.answer import Answer, answer_from
from asking.explanation import Explanation, explain
from asking.images import Prepared, prepare, prepare_features, shape_of
from asking.teaching import label_numbers, teach
from datasets.utils.class_order import has_class_tasks
from datasets.utils.images import ImageDataset
from engine.errors import UsageError
from utils.checkpoints import Position, Progress, load_checkpoint, save_checkpoint
from utils.conf import get_rng_state, set_rng_state
from utils.evaluate import evaluation_mode, told_the_task
from utils.loggers import Logger
from utils.notebooks import load_runner

BATCH = 64
_NAMED_CLASSES = 4


def load_model(checkpoint: str | Path, **options: Any) -> "Learner":
    """The learner in a checkpoint, ready to be asked.

    Args:
        checkpoint: a file written by `--savecheck` or `Learner.save`.
        options: arguments of this machine, e.g. `device="cpu"` or `base_path="data"`.

    Raises:
        UsageError: the file is missing, damaged, or holds nothing that was trained.
    """
    before = get_rng_state()
    try:
        settings = {"loadcheck": str(checkpoint), "inference_only": 1, "non_verbose": 1, **options}
        model, dataset = load_runner(None, None, settings)
    finally:
        set_rng_state(before)
    run = load_checkpoint(checkpoint).get("run")
    position = Position(**run["progress"]["position"]) if run else Position()
    return Learner(model, dataset, str(checkpoint), position.inside_task)


class Learner:
    """A method with what it has learned.

    Args:
        model: the method, trained.
        dataset: its benchmark; no data of it is read.
        origin: the checkpoint that it came from.
        inside_task: whether its newest task is not learned to the end.

    Raises:
        UsageError: nothing was learned yet.
    """

    def __init__(self, model: Any, dataset: Any, origin: str, inside_task: bool = False) -> None:
        self.model, self.dataset, self.origin = model, dataset, origin
        self.inside_task = inside_task
        if model.n_seen_classes <= 0:
            raise UsageError(f"{origin} holds a {model.NAME} that has learned nothing yet; save "
                             "one with --savecheck last after training.")
        self._curve: tuple[Any, Curve | None] = (None, None)

    @property
    def classes(self) -> list[str]:
        """Names of the classes learned so far, in the order of their labels."""
        return self._names()[:self.model.n_seen_classes]

    @property
    def tasks_learned(self) -> int:
        """How many tasks were learned."""
        return self.model.current_task

    def __repr__(self) -> str:
        return (f"{self.model.NAME} on {self.dataset.NAME} ({self.dataset.SETTING}): "
                f"{self.tasks_learned} of {self.dataset.N_TASKS} tasks learned, "
                f"{len(self.classes)} classes ({_listed(self.classes)})")

    def ask(self, images: Any, task: int | None = None) -> Answer:
        """What is on the images, and how sure that is.

        Nothing changes by asking: the method is in evaluation mode, without gradients, and the
        random generators are left as they were. One image gets the same answer as in a batch.

        Args:
            images: a file name, a folder, a PIL image, an array or tensor, or a list of these;
                values from 0 to 255 (whole numbers) or 0 to 1. On a benchmark of features: rows
                of numbers.
            task: number of the task, from 0 on, where it is known: only its classes are in the
                race, and domain-IL shows the images as that task does.

        Raises:
            UsageError: something is no image, or the method has to be told the task.
        """
        self._check_task(task)
        ready = self._prepared(images)
        first, last = self._range(task)
        data = ImageDataset(ready.rows, torch.zeros(len(ready.rows), dtype=torch.long),
                            self._transform(train=False), domain=self._domain(task))
        parts = (data.fetch(slice(begin, begin + BATCH))[0]
                 for begin in range(0, len(data), BATCH))
        said = self._explained(parts, first, last, task)
        return answer_from(said, ready.names, first, self._names()[first:last], self._task_name,
                           notes=ready.notes, remembered=self.remembered)

    def learn(self, images: Any, labels: Any, epochs: int | None = None,
              batch_size: int | None = None) -> "Learner":
        """Learn one task more from images, as the benchmark would have brought it.

        Args:
            images: as in `ask`.
            labels: a number or class name for each: in class-IL those of the next task's
                classes, otherwise any.
            epochs, batch_size: the benchmark's by default.

        Raises:
            UsageError: there is no room for a task, or labels and images do not fit.
            RunError: the loss became infinite.
        """
        task, benchmark = self.tasks_learned, self.dataset
        if task >= benchmark.N_TASKS:
            raise UsageError(f"All {benchmark.N_TASKS} tasks of {benchmark.NAME} are learned, and "
                             f"{self.model.NAME} was built for so many; train one with "
                             "--stop_after to leave room for tasks of your own.")
        if self.inside_task:
            raise UsageError(f"{self.origin} was saved in the middle of task {task + 1}; finish "
                             "that with --resume before teaching another one.")
        if not self.model.LEARNS_EACH_TASK:
            raise UsageError(f"{self.model.NAME} trains on all tasks at once and cannot learn one "
                             "more; choose another method.")
        ready = self._prepared(images)
        first, last = benchmark.get_offsets(task)
        numbers = label_numbers(labels, len(ready.rows), self._names(), first, last)
        data = ImageDataset(ready.rows, numbers, self._transform(train=True), train=True)
        teach(self.model, benchmark, data, epochs, batch_size)
        return self

    def save(self, path: str | Path) -> Path:
        """Write a checkpoint that `load_model` takes.

        Raises:
            UsageError: the name of the file does not end in `.pt`.
            RunError: it cannot be written.
        """
        path = Path(path).absolute()
        if path.suffix != ".pt":
            raise UsageError(f"Expected a file name that ends in .pt, but got {path.name}.")
        args = self.model.args
        logger = Logger(args, self.dataset.SETTING, self.dataset.NAME, self.model.NAME)
        progress = Progress(Position(task=self.tasks_learned))
        return save_checkpoint(str(path.with_suffix("")), args, self.model, progress, logger, None,
                               None, {}, "saved", "saved")

    def remembered(self) -> Curve | None:
        """Accuracy against confidence on the samples in the method's memory; None without any."""
        buffer = getattr(self.model, "buffer", None)
        if buffer is None or buffer.is_empty() or "labels" not in buffer.used_attributes:
            return None
        state = (buffer.num_seen_examples, self.tasks_learned)
        if self._curve[0] != state:
            count = len(buffer)
            normalise = getattr(self.model, "normalization_transform", None) or (lambda x: x)
            parts = (normalise(part) for part in buffer.examples[:count].split(BATCH))
            said = self._explained(parts, 0, self.model.n_seen_classes, None)
            confidence, label = (part.cpu().numpy() for part in said.probs.max(1))
            self._curve = (state, Curve.of(
                confidence, label == buffer.labels[:count].cpu().numpy()))
        return self._curve[1]

    def _explained(self, parts: Any, first: int, last: int, task: int | None) -> Explanation:
        """What the method says about batches of images, put together."""
        before = get_rng_state()
        try:
            with evaluation_mode(self.model):
                said = [explain(self.model, part.to(self.model.device), first, last, task)
                        for part in parts]
        finally:
            set_rng_state(before)

        def joined(name: str, dim: int) -> torch.Tensor | None:
            values = [getattr(one, name) for one in said]
            return None if values[0] is None else torch.cat(values, dim)

        return Explanation(torch.cat([one.probs for one in said]), joined("draws", 1),
                           joined("head", 0), joined("novel", 0))

    def _prepared(self, images: Any) -> Prepared:
        """Images, or rows of features, as the benchmark has them."""
        dataset = self.dataset
        if len(dataset.SIZE) == 1 and not hasattr(dataset, "embed"):
            return prepare_features(images, dataset.SIZE[0])
        ready = prepare(images, shape_of(dataset))
        if hasattr(dataset, "embed"):
            ready = ready._replace(rows=dataset.embed(ready.rows, "asked"))
        return ready

    def _transform(self, train: bool) -> Any:
        """What the benchmark does with images of a split."""
        own = getattr(self.dataset, "_train_transform" if train else "_test_transform", None)
        if own is not None:
            return own()
        return self.dataset.get_transform() if train \
            else self.dataset.get_normalization_transform()

    def _domain(self, task: int | None) -> Any:
        """How a task shows its images, where tasks are versions of the same images."""
        if task is None or not hasattr(self.dataset, "next_domain"):
            return None
        then = copy.copy(self.dataset)
        then.test_loaders = [None] * task
        return then.next_domain()

    def _check_task(self, task: int | None) -> None:
        if task is None and told_the_task(self.model):
            raise UsageError(f"{self.model.NAME} has to be told the task of an image: give `task`, "
                             f"0 to {self.tasks_learned - 1}.")
        known = max(self.tasks_learned, 1)  # a checkpoint may be of the middle of the first
        if task is not None and not 0 <= task < known:
            raise UsageError(f"Expected `task` to lie in 0 to {known - 1}, the tasks learned so "
                             f"far, but got {task}.")

    def _range(self, task: int | None) -> tuple[int, int]:
        if task is None or not has_class_tasks(self.dataset):
            return 0, self.model.n_seen_classes
        return self.dataset.get_offsets(task)

    def _names(self) -> list[str]:
        """Of all classes of the benchmark; numbers where it has no names."""
        try:
            return [str(name) for name in self.dataset.get_class_names()]
        except NotImplementedError:
            return [str(number) for number in range(self.dataset.N_CLASSES)]

    def _task_name(self, head: int) -> str:
        """A head's task in words: its classes, where tasks are classes."""
        if not has_class_tasks(self.dataset) or head >= self.dataset.N_TASKS:
            return f"task {head + 1}"
        first, last = self.dataset.get_offsets(head)
        return f"task {head + 1}: {_listed(self._names()[first:last])}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED_CLASSES])
    return shown if len(names) <= _NAMED_CLASSES else f"{shown}, ..."
