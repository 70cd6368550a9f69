"""In which order classes or tasks are learned."""
from argparse import Namespace
from itertools import chain
from typing import Any

import numpy as np

from datasets.utils.seeds import data_seed
from engine.errors import UsageError


def parse_order(text: str, count: int, argument: str) -> list[int]:
    """A command-line list such as `3,1,2,0` (or `3-1-2-0`) that names each number once.

    Raises:
        UsageError: it is not a rearrangement of 0 .. count-1.
    """
    parts = text.replace("-", ",").split(",")
    if not all(part.strip().isdigit() for part in parts) \
            or sorted(int(part) for part in parts) != list(range(count)):
        raise UsageError(f"Expected --{argument} to list each number from 0 to {count - 1} once, "
                         f"separated by commas, but got `{text}`.")
    return [int(part) for part in parts]


def _new_labels(learned: list[int]) -> np.ndarray:
    """New label of each original class, given the original classes in the order of learning."""
    order = np.empty(len(learned), dtype=np.int64)
    order[learned] = np.arange(len(learned))
    return order


def set_order(dataset: Any) -> None:
    """Read the ordering arguments of a dataset.

    Sets `dataset.task_order` (original number of the task learned at each place) and
    `dataset.class_order` (new label of each original class, or None for the original order); the
    latter also as `args.class_order`, where model files look for it.

    Raises:
        UsageError: the lists are wrong, or both are given.
    """
    args: Namespace = dataset.args
    classes = getattr(args, "custom_class_order", None)
    tasks = getattr(args, "custom_task_order", None)
    if classes and tasks:
        raise UsageError("Expected one of --custom_class_order and --custom_task_order, but got "
                         "both; leave one out.")
    dataset.class_order = None
    dataset.task_order = list(range(dataset.N_TASKS))
    if tasks:
        dataset.task_order = parse_order(tasks, dataset.N_TASKS, "custom_task_order")
        if has_class_tasks(dataset):
            ranges = [range(*dataset.get_offsets(task)) for task in dataset.task_order]
            dataset.class_order = _new_labels(list(chain(*ranges)))
            if not isinstance(dataset.N_CLASSES_PER_TASK, int):
                dataset.N_CLASSES_PER_TASK = [len(part) for part in ranges]
    elif classes:
        learned = parse_order(classes, dataset.N_CLASSES, "custom_class_order")
        dataset.class_order = _new_labels(learned)
    elif getattr(args, "permute_classes", False):
        given = getattr(args, "class_order", None)
        rng = np.random.default_rng(data_seed(args))
        dataset.class_order = rng.permutation(dataset.N_CLASSES) if given is None \
            else np.asarray(given)
    if dataset.class_order is not None:
        args.class_order = dataset.class_order


def has_class_tasks(dataset: Any) -> bool:
    """Whether tasks are groups of classes (and not, say, versions of the same images)."""
    return "class-il" in dataset.SETTING or "task-il" in dataset.SETTING


def fix_class_names_order(class_names: list[str], args: Namespace) -> list[str]:
    """Sort the names of all classes by the labels that the classes have in this run."""
    reordered = any(getattr(args, name, None) for name in
                    ("permute_classes", "custom_class_order", "custom_task_order"))
    order = getattr(args, "class_order", None)
    if not reordered or order is None:
        return class_names
    return [class_names[original] for original in np.argsort(np.asarray(order))]
