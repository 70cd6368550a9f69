"""Sequential MNIST: the ten digits in five tasks of two."""
import torch

from datasets.utils import set_default_from_args
from datasets.utils.builtin import InMemoryDataset
from datasets.utils.idx import MNIST, load_idx


class SequentialMNIST(InMemoryDataset):
    """Class-incremental MNIST, 5 tasks x 2 classes."""

    NAME = "seq-mnist"
    SETTING = "class-il"
    N_TASKS = 5
    N_CLASSES_PER_TASK = 2
    N_CLASSES = 10
    SIZE = (28, 28)
    CLASS_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

    def load_split(self, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Images (N, 28, 28) uint8 and labels (N,)."""
        return load_idx(MNIST, train)

    @set_default_from_args("backbone")
    def get_backbone() -> str:
        """An MLP suffices."""
        return "mnistmlp"

    @set_default_from_args("batch_size")
    def get_batch_size() -> int:
        """Samples a batch."""
        return 64

    @set_default_from_args("n_epochs")
    def get_epochs() -> int:
        """Epochs a task."""
        return 1
