"""Rotated MNIST: twenty tasks, each at its own angle."""
from datasets.utils.builtin import RotatedDataset
from datasets.utils.idx import MnistImages


class RotatedMNIST(MnistImages, RotatedDataset):
    """Domain-incremental MNIST, 20 tasks x 10 classes.

    Reference: Lopez-Paz and Ranzato, Gradient Episodic Memory, NeurIPS 2017.
    """

    NAME = "rot-mnist"
    SETTING = "domain-il"
    N_TASKS = 20
    N_CLASSES_PER_TASK = 10
    DEFAULTS = {"backbone": "mnistmlp", "batch_size": 128, "n_epochs": 1}
