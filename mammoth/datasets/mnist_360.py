"""MNIST-360: digits 0 to 8 in a stream, two at a time, all slowly turning.

Reference: Buzzega et al., Dark Experience for General Continual Learning, NeurIPS 2020.
"""
from argparse import Namespace
from typing import Any

import numpy as np
import torch

from datasets.transforms.rotation import IncrementalRotation, rotate_each
from datasets.utils.builtin import PlainImages
from datasets.utils.gcl_dataset import GCLDataset
from datasets.utils.idx import MNIST, load_idx
from datasets.utils.images import ImageDataset
from datasets.utils.loaders import TensorLoader
from datasets.utils.seeds import numpy_rng, torch_generator
from datasets.utils.validation import get_validation_indexes, validation_fraction
from datasets.utils.wrapper import MammothDatasetWrapper
from engine.errors import UsageError

_CLASSES = 9
_ROUNDS = 3
_DEBUG_SAMPLES = 120

Stream = tuple[np.ndarray, np.ndarray, list[int]]  # positions, angles and batch sizes


def mix_sizes(first: int, second: int, batch_size: int) -> list[tuple[int, int]]:
    """How many samples of two digits each batch holds, in proportion to what is left of them."""
    sizes = []
    while first + second > 0:
        a = min(round(first / (first + second) * batch_size), first)
        b = min(batch_size - a, second)
        sizes.append((a, b))
        first, second = first - a, second - b
    return sizes


def training_stream(labels: np.ndarray, batch_size: int, rng: np.random.Generator) -> Stream:
    """The stream that every method sees.

    The samples of a digit come in six parts, each shuffled; a round goes through the pairs (0, 1),
    (1, 2), ..., (8, 0) and each pair takes the next part of both digits. Every sample comes once.
    Digit j starts at (j - 1) * 60 degrees and has made a full turn at the end.

    Returns:
        Positions of the samples in the order of the stream, their angles, the batch sizes.
    """
    parts, angles = [], []
    for digit in range(_CLASSES):
        members = np.flatnonzero(labels == digit)
        size = len(members) // (2 * _ROUNDS) + 1
        cut = [members[i * size:(i + 1) * size] for i in range(2 * _ROUNDS)]
        parts.append([rng.permutation(part) for part in cut])  # the last is taken first
        turn = IncrementalRotation((digit - 1) * 60, 360 / len(members))
        angles.append([turn.angles(len(part)) for part in reversed(cut)][::-1])
    order, degrees, sizes = [], [], []
    for step in range(_ROUNDS * _CLASSES):
        pair = step % _CLASSES, (step + 1) % _CLASSES
        samples = [parts[digit].pop() for digit in pair]
        turned = [angles[digit].pop() for digit in pair]
        used = [0, 0]
        for counts in mix_sizes(len(samples[0]), len(samples[1]), batch_size):
            for side, count in enumerate(counts):
                order.append(samples[side][used[side]:used[side] + count])
                degrees.append(turned[side][used[side]:used[side] + count])
                used[side] += count
            sizes.append(sum(counts))
    return np.concatenate(order), np.concatenate(degrees), sizes


def evaluation_stream(labels: np.ndarray,
                      batch_size: int) -> Stream:
    """Digit after digit, each making a full turn from 0 degrees; returns as training_stream."""
    order, degrees, sizes = [], [], []
    for digit in range(_CLASSES):
        members = np.flatnonzero(labels == digit)
        order.append(members)
        degrees.append(IncrementalRotation(0, 360 / len(members)).angles(len(members)))
        sizes += [len(members[i:i + batch_size]) for i in range(0, len(members), batch_size)]
    return np.concatenate(order), np.concatenate(degrees), sizes


def first_of_each_digit(images: np.ndarray, labels: np.ndarray,
                        count: int) -> tuple[np.ndarray, np.ndarray]:
    """A stream short enough for a smoke test: `count` samples of each digit."""
    rows = np.sort(np.concatenate([np.flatnonzero(labels == digit)[:count]
                                   for digit in range(_CLASSES)]))
    return images[rows], labels[rows]


class SequentialMNIST360(PlainImages, GCLDataset):
    """General continual MNIST: one stream of 9 classes without task boundaries."""

    NAME = "mnist-360"
    SETTING = "general-continual"
    N_CLASSES = 9
    SIZE = (28, 28)
    DEFAULTS = {"backbone": "mnistmlp", "batch_size": 16, "n_epochs": 1}
    CLASS_NAMES = tuple(str(digit) for digit in range(_CLASSES))

    def __init__(self, args: Namespace) -> None:
        super().__init__(args)
        if getattr(args, "label_perc", 1) != 1 or getattr(args, "label_perc_by_class", 1) != 1:
            raise UsageError(f"{self.NAME} is fully labelled: leave out --label_perc and "
                             "--label_perc_by_class.")

    def get_data_loaders(self) -> tuple[Any, Any]:
        """The stream and the test loader; both are kept in `self` too."""
        train, test = self._split(True), self._split(False)
        if validation_fraction(getattr(self.args, "validation", None)):
            whole = Namespace(targets=train[1])
            stay, held_out = get_validation_indexes(self.args.validation, whole,
                                                    getattr(self.args, "seed", None))
            train, test = ((train[0][rows], train[1][rows]) for rows in (stay, held_out))
        if getattr(self.args, "debug_mode", False):
            train, test = (first_of_each_digit(*part, _DEBUG_SAMPLES) for part in (train, test))
        size = self.args.batch_size
        stream = training_stream(train[1], size, numpy_rng(self.data_seed, 0))
        self.train_loader = self._loader(*train, stream, train=True)
        stream = evaluation_stream(test[1], size)
        self.test_loaders.append(self._loader(*test, stream, train=False))
        return self.train_loader, self.test_loaders[-1]

    def _split(self, train: bool) -> tuple[np.ndarray, np.ndarray]:
        images, labels = (part.numpy() for part in load_idx(MNIST, train))
        images, labels = images[labels < _CLASSES], labels[labels < _CLASSES]
        return images, labels if self.class_order is None else self.class_order[labels]

    def _loader(self, images: np.ndarray, labels: np.ndarray, stream: Stream,
                train: bool) -> TensorLoader:
        order, degrees, sizes = stream
        turned = torch.from_numpy(rotate_each(images[order], degrees))
        dataset = ImageDataset(turned, torch.from_numpy(labels[order]), train=train)
        return TensorLoader(MammothDatasetWrapper(dataset, train), self.args.batch_size,
                            batch_sizes=sizes, generator=torch_generator(self.data_seed))
