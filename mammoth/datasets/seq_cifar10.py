"""Sequential CIFAR-10: ten classes in five tasks of two."""
from argparse import Namespace
from typing import Literal

import torch

from datasets.utils.builtin import ColourDataset
from datasets.utils.cifar import CIFAR10, load_cifar
from datasets.utils.pipelines import augmented, colour_jitter, normalised
from engine.argument_types import PositiveInt
from engine.errors import UsageError


class SequentialCIFAR10(ColourDataset):
    """Class-incremental CIFAR-10, 5 tasks x 2 classes.

    Args:
        transform_type: `weak` is crop and flip, `strong` adds colour jitter.
    """

    NAME = "seq-cifar10"
    SETTING = "class-il"
    N_TASKS = 5
    N_CLASSES_PER_TASK = 2
    N_CLASSES = 10
    SIZE = (32, 32)
    DEFAULTS = {"backbone": "resnet18", "batch_size": 32, "n_epochs": 50}
    MEAN = (0.4914, 0.4822, 0.4465)
    STD = (0.2470, 0.2435, 0.2615)
    TRANSFORM = augmented(32, MEAN, STD)
    TEST_TRANSFORM = normalised(MEAN, STD)
    CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse",
                   "ship", "truck")

    def __init__(self, args: Namespace,
                 transform_type: Literal["weak", "strong"] = "weak",
                 image_size: PositiveInt | None = None) -> None:
        if transform_type not in ("weak", "strong"):
            raise UsageError(f"Expected --transform_type weak or strong, but got "
                             f"{transform_type}.")
        if transform_type == "strong":
            self.TRANSFORM = augmented(32, self.MEAN, self.STD, colour_jitter())
        super().__init__(args, image_size)

    def load_split(self, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Images (N, 32, 32, 3) uint8 and labels (N,)."""
        images, labels = load_cifar(CIFAR10, train)
        return self.at_size(train, images), labels
