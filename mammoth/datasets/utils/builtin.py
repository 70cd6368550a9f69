"""What the benchmarks of this folder share: images in memory, and kinds of tasks on them."""
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import torch

from datasets.transforms.permutation import Permutation
from datasets.transforms.rotation import Rotation
from datasets.utils.continual_dataset import ContinualDataset, store_masked_loaders
from datasets.utils.domain_union import union_of_domains
from datasets.utils.images import Domain, ImageDataset, average_pooled
from datasets.utils.label_reduction import UNLABELED
from datasets.utils.masking import make_loader
from datasets.utils.seeds import numpy_rng
from engine.argument_types import PositiveInt
from engine.errors import UsageError


class PlainImages:
    """Images that are used as they are: values in [0, 1], no augmentation."""

    def get_transform(self) -> Any:
        """No augmentation."""
        return None

    def get_normalization_transform(self) -> Any:
        """No normalisation: values stay in [0, 1]."""
        return None

    def get_denormalization_transform(self) -> Any:
        """No normalisation to undo."""
        return None


class InMemoryDataset(PlainImages, ContinualDataset):
    """A benchmark on uint8 images, without augmentation unless a subclass says so."""

    def load_split(self, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Images (N, H, W) or (N, H, W, C) uint8 and labels (N,) int64 of one split."""
        raise NotImplementedError

    def next_domain(self) -> Domain | None:
        """How the images look in the task that comes next; None: as they are."""
        return None

    @classmethod
    def can_join(cls) -> bool:
        """Domains can be joined too: `get_data_loaders` then brings the union of all of them."""
        return super().can_join() or cls.SETTING == "domain-il"

    def get_data_loaders(self) -> tuple[Any, Any]:
        """The training and test loader of the next task; both are kept in `self` too.

        With `--joint 1` in domain-IL: all training sets as one, whose samples carry their task
        as `task_ids`, and a test loader in `self` for each task.
        """
        if self.SETTING == "domain-il" and getattr(self.args, "joint", False):
            return self._join_domains()
        return self._next_task()

    def _join_domains(self) -> tuple[Any, Any]:
        parts = (self._next_task()[0].dataset for _ in self.task_order)
        train = union_of_domains(parts)
        self.unlabeled_mask = (train.targets == UNLABELED).nonzero().flatten().numpy()
        self.train_loader = make_loader(train, self, 0)
        return self.train_loader, self.test_loaders[-1]

    def _next_task(self) -> tuple[Any, Any]:
        domain = self.next_domain()
        train, test = (
            ImageDataset(*self.load_split(is_train), transform, is_train, domain)
            for is_train, transform in ((True, self._train_transform()),
                                        (False, self._test_transform())))
        return store_masked_loaders(train, test, self)

    def _train_transform(self) -> Any:
        return None

    def _test_transform(self) -> Any:
        return None


class PermutedDataset(InMemoryDataset):
    """Each task rearranges the pixels in its own way, the first one too.

    The permutation depends on the seed and the task alone: every method sees the same tasks.
    """

    def next_domain(self) -> Domain:
        """The permutation of the task that comes next."""
        task = self.task_order[len(self.test_loaders)]
        height, width = self.SIZE
        return Permutation(height * width, numpy_rng(self.data_seed, task))


class RotatedDataset(InMemoryDataset):
    """Each task turns the images by its own angle in [0, 180), the first one too.

    The angle depends on the seed and the task alone: every method sees the same tasks.
    """

    def next_domain(self) -> Domain:
        """The rotation of the task that comes next."""
        task = self.task_order[len(self.test_loaders)]
        return Rotation(0, 180, numpy_rng(self.data_seed, task))


class ColourDataset(InMemoryDataset):
    """Colour images with the class's TRANSFORM for training and TEST_TRANSFORM for testing.

    Args:
        image_size: pixels on a side, a divisor of the benchmark's: each becomes the average of
            those that it stands for, and random crops move by as much less.
    """

    MEAN: Sequence[float]
    STD: Sequence[float]
    pooling = 1  # how many of the benchmark's pixels, across, become one

    def __init__(self, args: Namespace, image_size: PositiveInt | None = None) -> None:
        super().__init__(args)
        self._pooled: dict[bool, torch.Tensor] = {}
        image_size = image_size or self.DEFAULTS.get("image_size")
        if image_size is None:
            return
        from datasets.utils.pipelines import for_smaller_images

        full = self.SIZE[0]
        if full % image_size:
            smaller = [str(size) for size in range(full, 3, -1) if full % size == 0]
            raise UsageError(f"Expected --image_size to divide the {full} pixels of {self.NAME} "
                             f"({', '.join(smaller)}), but got {image_size}.")
        self.pooling = full // image_size
        self.SIZE = (image_size, image_size)
        self.TRANSFORM = for_smaller_images(self.TRANSFORM, self.pooling)

    def at_size(self, train: bool, images: torch.Tensor) -> torch.Tensor:
        """All images (N, H, W, 3) of a split at `--image_size`; computed once."""
        if self.pooling == 1:
            return images
        if train not in self._pooled:
            self._pooled[train] = average_pooled(images, self.pooling)
        return self._pooled[train]

    def _train_transform(self) -> Any:
        return self.TRANSFORM

    def _test_transform(self) -> Any:
        from torchvision import transforms

        if getattr(self, "TEST_TRANSFORM", None) is not None:
            return self.TEST_TRANSFORM
        return transforms.Compose([transforms.ToTensor(), self.get_normalization_transform()])

    def get_transform(self) -> Any:
        """Augmentation for images in [0, 1], e.g. from a buffer."""
        from torchvision import transforms

        return transforms.Compose([transforms.ToPILImage(), self.TRANSFORM])

    def get_normalization_transform(self) -> Any:
        """Normalize with this benchmark's MEAN and STD."""
        from torchvision import transforms

        return transforms.Normalize(self.MEAN, self.STD)

    def get_denormalization_transform(self) -> Any:
        """The inverse of the normalisation."""
        from datasets.transforms.denormalization import DeNormalize

        return DeNormalize(self.MEAN, self.STD)
