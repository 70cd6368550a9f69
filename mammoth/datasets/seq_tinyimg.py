"""Sequential Tiny-ImageNet: two hundred classes in ten tasks of twenty."""
import torch

from datasets.utils.builtin import ColourDataset
from datasets.utils.pipelines import augmented, normalised
from datasets.utils.tiny_imagenet import load_tiny_imagenet


class SequentialTinyImagenet(ColourDataset):
    """Class-incremental Tiny-ImageNet, 10 tasks x 20 classes."""

    NAME = "seq-tinyimg"
    SETTING = "class-il"
    N_TASKS = 10
    N_CLASSES_PER_TASK = 20
    N_CLASSES = 200
    SIZE = (64, 64)
    DEFAULTS = {"backbone": "resnet18", "batch_size": 32, "n_epochs": 100}  # as published
    MEAN = (0.4802, 0.4480, 0.3975)
    STD = (0.2770, 0.2691, 0.2821)
    TRANSFORM = augmented(64, MEAN, STD)
    TEST_TRANSFORM = normalised(MEAN, STD)

    def load_split(self, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Images (N, 64, 64, 3) uint8 and labels (N,)."""
        images, labels = load_tiny_imagenet(train)
        return self.at_size(train, images), labels
