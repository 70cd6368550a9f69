"""From complete training and test sets to the loaders of the next task."""
import copy
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from datasets.utils.class_order import has_class_tasks
from datasets.utils.label_noise import build_noisy_labels
from datasets.utils.label_reduction import UNLABELED, unlabeled_positions
from datasets.utils.loaders import TensorLoader
from datasets.utils.seeds import data_seed, numpy_rng, torch_generator
from datasets.utils.validation import get_validation_indexes, validation_fraction
from datasets.utils.wrapper import MammothDatasetWrapper
from engine.debug_mode import few_rows
from engine.errors import UsageError
from utils.conf import create_seeded_dataloader

if TYPE_CHECKING:
    from datasets.utils.continual_dataset import ContinualDataset

EVALUATION_BATCH = 64  # at least: answers do not depend on it, and batches of 10 take long
_CALIBRATION_STREAM = 104723
_REDUCTION_STREAM = 104729  # keeps these draws apart from the other ones that start at the seed


def store_masked_loaders(train_dataset: Any, test_dataset: Any,
                         setting: "ContinualDataset") -> tuple[Any, Any]:
    """Make the loaders of the next task and keep them in `setting`.

    Args:
        train_dataset: the complete training set; has `data` and `targets`, items `(augmented,
            label, image)`.
        test_dataset: the complete test set, items `(image, label)`.
        setting: the benchmark; its `train_loader` is replaced, `test_loaders` grows by one.

    Returns:
        The training and the test loader.
    """
    task = len(setting.test_loaders)
    train = MammothDatasetWrapper(train_dataset, train=True)
    test = MammothDatasetWrapper(test_dataset, train=False)
    if has_class_tasks(setting):
        setting.c_task += 1
    for part in (train, test):
        labels = torch.as_tensor(part.targets).long().clone().numpy()
        part.targets = labels if setting.class_order is None else setting.class_order[labels]
    args = setting.args
    if validation_fraction(getattr(args, "validation", None)):
        _hold_out(train, test, args)
    noisy = bool(getattr(args, "noise_rate", 0))
    if noisy:
        train.true_labels = train.targets.copy()
        train.targets = build_noisy_labels(train.targets, args, setting.class_order)
    if has_class_tasks(setting):
        _select_task(train, test, setting)
    for part in (train, test):
        rows = few_rows(part.targets, args, part is train)
        if rows is not None:
            _keep(part, rows)
    if getattr(args, "calibrate", None):
        _keep_apart(train, test_dataset, setting, task)
    if noisy:
        train.add_extra_return_field("true_labels", torch.as_tensor(train.true_labels))
    _drop_labels(train, setting, task)
    setting.train_loader = make_loader(train, setting, task)
    setting.test_loaders.append(make_loader(test, setting, task))
    return setting.train_loader, setting.test_loaders[-1]


def _rows(values: Any, chosen: np.ndarray) -> Any:
    """Rows of an array, tensor or list."""
    if isinstance(values, list):
        return [values[i] for i in np.arange(len(values))[chosen]]
    return values[torch.from_numpy(chosen) if torch.is_tensor(values) else chosen]


def _keep(part: MammothDatasetWrapper, chosen: np.ndarray, source: Any = None) -> None:
    """Restrict a set to rows, of its own or of `source`."""
    source = part if source is None else source
    optional = [name for name in ("task_ids", "true_labels") if hasattr(source, name)]
    for name in ("data", "targets", "indexes", *optional):
        setattr(part, name, _rows(getattr(source, name), chosen))


def _hold_out(train: MammothDatasetWrapper, test: MammothDatasetWrapper, args: Namespace) -> None:
    """Test on a part of the training set (with the test transform), train on the rest."""
    stay, held_out = get_validation_indexes(args.validation, train, getattr(args, "seed", None))
    _keep(test, held_out, source=train)
    _keep(train, stay)


def _keep_apart(train: MammothDatasetWrapper, test_dataset: Any, setting: "ContinualDataset",
                task: int) -> None:
    """Take `--calibrate` samples out of training; those of the tasks before give way to them."""
    count = setting.args.calibrate
    if count >= len(train.targets):
        raise UsageError(f"--calibrate {count} leaves nothing to train on: task {task + 1} has "
                         f"{len(train.targets)} samples; keep fewer apart.")
    rng = numpy_rng(data_seed(setting.args), _CALIBRATION_STREAM, task)
    rows = rng.permutation(len(train.targets))
    apart = MammothDatasetWrapper(copy.copy(test_dataset), train=False)
    _keep(apart, rows[:count], source=train)
    _keep(train, np.sort(rows[count:]))
    setting.kept_apart.append(make_loader(apart, setting, task))
    share = np.arange(max(count // (task + 1), 1))
    for loader in setting.kept_apart:
        _keep(loader.dataset, share)


def _select_task(train: MammothDatasetWrapper, test: MammothDatasetWrapper,
                 setting: "ContinualDataset") -> None:
    """Restrict both sets to the classes (or `task_ids`) of the current task."""
    mode = getattr(setting.args, "validation_mode", None) or "current"
    if mode not in ("current", "complete"):
        raise UsageError(f"Expected --validation_mode current or complete, but got {mode}.")
    key = "task_ids" if hasattr(train, "task_ids") else "targets"
    task = setting.c_task
    first, last = (task, task + 1) if key == "task_ids" else setting.get_offsets(task)
    for part, begin in ((train, first), (test, 0 if mode == "complete" else first)):
        keys = np.asarray(getattr(part, key))
        _keep(part, (keys >= begin) & (keys < last))


def _drop_labels(train: MammothDatasetWrapper, setting: "ContinualDataset", task: int) -> None:
    per_task = setting.N_CLASSES_PER_TASK
    if not isinstance(per_task, int):
        per_task = per_task[setting.c_task]
    rng = numpy_rng(data_seed(setting.args), _REDUCTION_STREAM, task)
    classes = np.unique(train.targets)
    setting.unlabeled_mask = unlabeled_positions(train.targets, setting.args, per_task, rng)
    train.targets[setting.unlabeled_mask] = UNLABELED
    without = np.setdiff1d(classes, train.targets)
    if len(without):
        raise UsageError(f"--label_perc or --label_perc_by_class leaves class {without[0]} of task "
                         f"{task + 1} without a single label; raise it.")


def make_loader(part: MammothDatasetWrapper, setting: "ContinualDataset", task: int) -> Any:
    """The fast loader where the dataset can fetch batches, else an ordinary DataLoader."""
    part.targets = torch.as_tensor(part.targets)
    args = setting.args
    is_train = vars(part)["train"]
    size = args.batch_size if is_train else max(args.batch_size, EVALUATION_BATCH)
    drop_last = bool(getattr(args, "drop_last", False)) and is_train
    if is_train and len(part.targets) < (size if drop_last else 1):
        raise UsageError(f"Task {task + 1} has {len(part.targets)} training samples, too few for a "
                         f"batch of --batch_size {size}{' with --drop_last 1' * drop_last}; choose "
                         "a smaller one, or hold out less with --validation.")
    if hasattr(part.dataset, "fetch"):
        generator = torch_generator(data_seed(args), task, int(is_train))
        return TensorLoader(part, size, shuffle=is_train, drop_last=drop_last,
                            generator=generator)
    return create_seeded_dataloader(args, part, batch_size=size, shuffle=is_train,
                                    drop_last=drop_last)
