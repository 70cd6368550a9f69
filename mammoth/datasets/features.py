"""Any features as a benchmark: `--dataset features --features FILE.npz --classes_per_task 10`."""
import functools
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from datasets.utils.features.benchmark import FeatureBenchmark
from datasets.utils.npz import read_npz, wrong
from engine.argument_rules import tasks_out_of_range
from engine.argument_types import PositiveInt
from engine.errors import UsageError
from engine.identity import file_digest

_ARRAYS = ("train_x", "train_y", "test_x", "test_y")


@functools.lru_cache(maxsize=1)
def read_features(path: Path, digest: str) -> dict[str, np.ndarray]:
    """The arrays of a file, checked.

    Args:
        path: an .npz file with `train_x` (N, F), `train_y` (N,), `test_x`, `test_y` and, if there
            are any, `class_names` (C,).
        digest: of the file's content; a changed file is read again.

    Raises:
        UsageError: what is wrong with it, in one sentence.
    """
    arrays = read_npz(path, _ARRAYS, ("class_names",))
    for split in ("train", "test"):
        arrays[f"{split}_x"] = _checked_features(path, split, arrays[f"{split}_x"])
        arrays[f"{split}_y"] = _checked_labels(path, split, arrays)
    _check_classes(path, arrays)
    return arrays


def _checked_features(path: Path, split: str, features: np.ndarray) -> np.ndarray:
    """(N, F), float16 or float32."""
    if features.ndim != 2 or 0 in features.shape:
        raise wrong(path, f"{split}_x must have one row of numbers for each sample, shape (N, F), "
                           f"but has {features.shape}")
    if features.dtype.kind not in "fiu":
        raise wrong(path, f"{split}_x must hold numbers, but holds {features.dtype}")
    with np.errstate(over="ignore"):
        found = features if features.dtype == np.float16 else features.astype(np.float32)
    bad = int((~np.isfinite(found)).any(axis=1).sum())
    if bad:
        raise wrong(path, f"{split}_x has {bad} rows with values that are not finite")
    return found


def _checked_labels(path: Path, split: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """(N,) int64."""
    labels, count = arrays[f"{split}_y"], len(arrays[f"{split}_x"])
    if labels.shape != (count,):
        raise wrong(path, f"{split}_x has {count} rows, so {split}_y must have shape ({count},), "
                           f"but has {labels.shape}")
    if labels.dtype.kind not in "iu":
        raise wrong(path, f"{split}_y must hold whole numbers, but holds {labels.dtype}")
    return labels.astype(np.int64)


def _check_classes(path: Path, arrays: dict[str, np.ndarray]) -> None:
    if arrays["train_x"].shape[1] != arrays["test_x"].shape[1]:
        raise wrong(path, f"train_x has {arrays['train_x'].shape[1]} numbers for each sample, but "
                           f"test_x has {arrays['test_x'].shape[1]}")
    found = np.unique(arrays["train_y"])
    count = len(found)
    if not np.array_equal(found, np.arange(count)):
        raise wrong(path, f"train_y has {count} different labels, so they must be 0 to "
                           f"{count - 1}, but they lie in {found[0]} to {found[-1]}")
    tested = np.unique(arrays["test_y"])
    if not np.array_equal(tested, found):
        odd = sorted(set(tested.tolist()) ^ set(found.tolist()))
        raise wrong(path, f"train_y and test_y must have the same classes, but class {odd[0]} is "
                           "in one of them only")
    names = arrays.get("class_names")
    if names is not None and (names.shape != (count,) or names.dtype.kind != "U"):
        raise wrong(path, f"class_names must be {count} texts, but is {names.dtype} of shape "
                           f"{names.shape}")


class Features(FeatureBenchmark):
    """Class-incremental learning on the features in a file.

    Args:
        classes_per_task: classes that each task brings.
    """

    NAME = "features"
    SETTING = "class-il"
    N_TASKS: Any = None  # the file says it
    N_CLASSES_PER_TASK: Any = None
    N_CLASSES: Any = None

    def __init__(self, args: Namespace, classes_per_task: PositiveInt) -> None:
        path = Path(args.features)
        self._arrays = read_features(path, file_digest(path))
        count = int(self._arrays["train_y"].max()) + 1
        if count % classes_per_task:
            raise UsageError(f"Expected --classes_per_task to divide the {count} classes of "
                             f"{path.name}, but got {classes_per_task}.")
        self.N_CLASSES, self.N_CLASSES_PER_TASK = count, classes_per_task
        self.N_TASKS = count // classes_per_task
        for problem in tasks_out_of_range(args, self.N_TASKS):
            raise UsageError(problem)
        self.SIZE = (self._arrays["train_x"].shape[1],)
        if "class_names" in self._arrays:
            self.CLASS_NAMES = tuple(self._arrays["class_names"].tolist())
        super().__init__(args)

    def load_split(self, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Features (N, F) and labels (N,)."""
        split = "train" if train else "test"
        samples, labels = (torch.from_numpy(self._arrays[f"{split}_{kind}"]) for kind in "xy")
        return samples, labels
