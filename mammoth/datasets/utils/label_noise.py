"""Wrong training labels, on purpose.

Symmetric noise moves a label to any other class; asymmetric noise makes the mistakes that people
make (CIFAR-10: truck -> automobile, bird -> airplane, deer -> horse, cat <-> dog; CIFAR-100: the
next class of the same superclass).

Reference: Patrini et al., Making Deep Neural Networks Robust to Label Noise, CVPR 2017.
"""
import hashlib
import io
import json
import zipfile
import zlib
from argparse import Namespace
from pathlib import Path

import numpy as np

from datasets.utils.seeds import data_seed, numpy_rng
from engine.errors import RunError, UsageError
from engine.files import atomic_write
from utils.conf import base_path, warn_once

_NOISE_STREAM = 7919  # keeps these draws apart from the other ones that start at the seed

_CIFAR10_MISTAKES = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}

# Superclass of each of the 100 classes.
_CIFAR100_SUPERCLASS = np.array([
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7,
    6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10,
    16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16,
    12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13])


def _cifar100_mistakes() -> dict[int, int]:
    mistakes: dict[int, int] = {}
    for group in range(20):
        members = np.flatnonzero(np.equal(_CIFAR100_SUPERCLASS, group))
        mistakes.update(zip(members.tolist(), np.roll(members, -1).tolist(), strict=True))
    return mistakes


def _mistakes(dataset: str, class_order: np.ndarray | None) -> dict[int, int]:
    """Asymmetric noise in terms of the labels in use, which may be reordered."""
    if "cifar100" in dataset:
        mistakes = _cifar100_mistakes()
    elif "cifar10" in dataset:
        mistakes = _CIFAR10_MISTAKES
    else:
        raise UsageError(f"Expected CIFAR-10 or CIFAR-100 for --noise_type asymmetric, but got "
                         f"{dataset}; use --noise_type symmetric.")
    if class_order is None:
        return mistakes
    return {int(class_order[a]): int(class_order[b]) for a, b in mistakes.items()}


def noisy_labels(targets: np.ndarray, rate: float, rng: np.random.Generator,
                 mistakes: dict[int, int] | None = None) -> np.ndarray:
    """Labels of which a fraction `rate` of each class is wrong.

    Args:
        targets: (N,) true labels.
        mistakes: true class -> wrong class; None draws among all other classes.
    """
    noisy = targets.copy()
    classes = np.unique(targets)
    for label in classes:
        members = rng.permutation(np.flatnonzero(targets == label))
        wrong = members[:round(len(members) * rate)]
        if mistakes is None:
            noisy[wrong] = rng.choice(classes[classes != label], size=len(wrong))
        else:
            noisy[wrong] = mistakes.get(int(label), label)
    return noisy


def build_noisy_labels(targets: np.ndarray, args: Namespace,
                       class_order: np.ndarray | None = None) -> np.ndarray:
    """What `--noise_rate` and `--noise_type` make of the labels; kept in a file for other runs.

    Raises:
        UsageError: the rate is not in [0, 1], or the type does not fit the benchmark.
    """
    rate = args.noise_rate
    if not 0 <= rate <= 1:
        raise UsageError(f"Expected --noise_rate to lie between 0 and 1, but got {rate}.")
    kind = getattr(args, "noise_type", "symmetric")
    mistakes = _mistakes(args.dataset, class_order) if kind == "asymmetric" else None
    about = _description(args, kind, targets, class_order)
    cache = _cache_file(args, kind, about)
    noisy = _read_cache(cache, about, targets)
    if noisy is None:
        noisy = noisy_labels(targets, rate, numpy_rng(data_seed(args), _NOISE_STREAM), mistakes)
        _write_cache(cache, about, noisy)
    return noisy


def _description(args: Namespace, kind: str, targets: np.ndarray,
                 class_order: np.ndarray | None) -> str:
    """All that wrong labels depend on, as text: the true labels stand for the split too."""
    return json.dumps({
        "dataset": getattr(args, "dataset", ""), "type": kind, "rate": repr(float(args.noise_rate)),
        "seed": data_seed(args), "true_labels": _digest(targets),
        "class_order": None if class_order is None else _digest(class_order)}, sort_keys=True)


def _digest(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, dtype=np.int64).tobytes()).hexdigest()


def _cache_file(args: Namespace, kind: str, about: str) -> Path | None:
    if getattr(args, "disable_noisy_labels_cache", True):
        return None
    folder = Path(base_path(), getattr(args, "cache_path_noisy_labels", "noisy_labels"))
    name = hashlib.sha256(about.encode()).hexdigest()[:16]
    return folder / args.dataset / kind / repr(float(args.noise_rate)) / f"{name}.npz"


def _read_cache(path: Path | None, about: str, targets: np.ndarray) -> np.ndarray | None:
    """The kept labels, if they are whole and were made for exactly this."""
    if path is None or not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as kept:
            noisy, said, digest = kept["labels"], str(kept["about"]), str(kept["digest"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        noisy, said, digest = np.empty(0), "", ""
    if said == about and noisy.shape == targets.shape and noisy.dtype.kind == "i" \
            and digest == _digest(noisy):
        return noisy
    warn_once(f"{path} is damaged and is made anew.")
    return None


def _write_cache(path: Path | None, about: str, noisy: np.ndarray) -> None:
    if path is None:
        return
    content = io.BytesIO()
    np.savez(content, labels=noisy, about=np.array(about), digest=np.array(_digest(noisy)))
    try:
        atomic_write(path, content.getvalue())
    except RunError as error:
        warn_once(f"The noisy labels could not be kept: {error}")
