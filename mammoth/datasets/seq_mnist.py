"""Sequential MNIST: the ten digits in five tasks of two."""
from datasets.utils.builtin import InMemoryDataset
from datasets.utils.idx import MnistImages


class SequentialMNIST(MnistImages, InMemoryDataset):
    """Class-incremental MNIST, 5 tasks x 2 classes."""

    NAME = "seq-mnist"
    SETTING = "class-il"
    N_TASKS = 5
    N_CLASSES_PER_TASK = 2
    DEFAULTS = {"backbone": "mnistmlp", "batch_size": 64, "n_epochs": 1}
