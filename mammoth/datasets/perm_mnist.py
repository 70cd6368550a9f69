"""Permuted MNIST: twenty tasks, each with its own rearrangement of the pixels."""
from datasets.utils.builtin import PermutedDataset
from datasets.utils.idx import MnistImages


class PermutedMNIST(MnistImages, PermutedDataset):
    """Domain-incremental MNIST, 20 tasks x 10 classes.

    Reference: Kirkpatrick et al., Overcoming catastrophic forgetting, PNAS 2017.
    """

    NAME = "perm-mnist"
    SETTING = "domain-il"
    N_TASKS = 20
    N_CLASSES_PER_TASK = 10
    DEFAULTS = {"backbone": "mnistmlp", "batch_size": 128, "n_epochs": 1}
