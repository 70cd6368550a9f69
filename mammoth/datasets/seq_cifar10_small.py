"""Sequential CIFAR-10 for a CPU: small images and a small network, so that epochs are cheap."""
from datasets.seq_cifar10 import SequentialCIFAR10


class SequentialCIFAR10Small(SequentialCIFAR10):
    """Class-incremental CIFAR-10 with 16 x 16 images, 5 tasks x 2 classes."""

    NAME = "seq-cifar10-small"
    LIKE = "seq-cifar10"
    DEFAULTS = {"backbone": "smallconv", "image_size": 16, "batch_size": 128,
                "minibatch_size": 128, "n_epochs": 15}
