"""Permuted MNIST: twenty tasks, each with its own rearrangement of the pixels."""
import torch

from datasets.utils import set_default_from_args
from datasets.utils.builtin import PermutedDataset
from datasets.utils.idx import MNIST, load_idx


class PermutedMNIST(PermutedDataset):
    """Domain-incremental MNIST, 20 tasks x 10 classes.

    Reference: Kirkpatrick et al., Overcoming catastrophic forgetting, PNAS 2017.
    """

    NAME = "perm-mnist"
    SETTING = "domain-il"
    N_TASKS = 20
    N_CLASSES_PER_TASK = 10
    N_CLASSES = 10
    SIZE = (28, 28)
    CLASS_NAMES = tuple(str(digit) for digit in range(10))

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
        return 128

    @set_default_from_args("n_epochs")
    def get_epochs() -> int:
        """Epochs a task."""
        return 1
