"""An image benchmark whose samples are features: the same tasks, classes and labels."""
import functools
from argparse import Namespace
from typing import Any

import torch

from datasets.utils.builtin import InMemoryDataset, PlainImages
from datasets.utils.continual_dataset import ContinualDataset
from datasets.utils.features.cache import features_of
from datasets.utils.features.network import network_spec
from engine.errors import UsageError


class FeatureBenchmark(InMemoryDataset):
    """What all benchmarks on features have in common, before the benchmark in the ancestry."""

    SIZE: Any = None  # (F,), known once there are features
    MEAN = None
    STD = None
    TRANSFORM = None
    TEST_TRANSFORM = None
    DEFAULTS = {"backbone": "mlp", "batch_size": 32, "n_epochs": 5, "lr_scheduler": None}

    # Features are used as they are, whatever the benchmark does with its images.
    _train_transform, _test_transform = (InMemoryDataset._train_transform,
                                         InMemoryDataset._test_transform)
    get_transform = PlainImages.get_transform
    get_normalization_transform = PlainImages.get_normalization_transform
    get_denormalization_transform = PlainImages.get_denormalization_transform


class ImageFeatures(FeatureBenchmark):
    """The features of an image benchmark's images.

    Extraction (or reading the cache) happens when the benchmark is built: the network's input size
    follows from it.
    """

    def __init__(self, args: Namespace, **own: Any) -> None:
        self.spec = network_spec(args)
        self._where = (getattr(args, "device", None), bool(getattr(args, "non_verbose", False)))
        self.SIZE = (self._split(args, True)[0].shape[1],)
        super().__init__(args, **own)

    def embed(self, images: torch.Tensor, label: str) -> torch.Tensor:
        """Features (N, F) of any images as this benchmark's own are made."""
        return features_of(images, self.spec, label, *self._where)

    def load_images(self, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """The images (N, H, W) or (N, H, W, C) and labels that the features are made of."""
        return super().load_split(train)

    def load_split(self, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Features (N, F) float16 and labels (N,)."""
        return self._split(self.args, train)

    def _split(self, args: Namespace, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = self.load_images(train)
        return self.embed(images, f"{self.NAME}-{'train' if train else 'test'}"), labels


@functools.cache
def on_features(benchmark: type[ContinualDataset]) -> type[ContinualDataset]:
    """The class of an image benchmark's counterpart on features.

    Raises:
        UsageError: its images are not simply there to be passed through a network.
    """
    if issubclass(benchmark, FeatureBenchmark):
        return benchmark
    name = benchmark.NAME
    if not issubclass(benchmark, InMemoryDataset):
        raise UsageError(f"{name} makes its images anew in every task, so they have no features "
                         "to keep; leave out --features.")
    if benchmark.next_domain is not InMemoryDataset.next_domain \
            or benchmark.SETTING == "domain-il":
        raise UsageError(f"{name} changes the pixels in every task, before any network: all images "
                         "would have to pass it once for each task; leave out --features or use a "
                         "class-incremental benchmark.")
    return type(f"{benchmark.__name__}Features", (ImageFeatures, benchmark),
                {"__doc__": f"{name} on the features of a frozen network."})
