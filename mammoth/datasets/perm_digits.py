"""Permuted digits: five tasks on scikit-learn's small digits, each with its own permutation."""
import torch

from datasets.utils import set_default_from_args
from datasets.utils.builtin import PermutedDataset
from datasets.utils.digits import load_digits


class PermutedDigits(PermutedDataset):
    """Domain-incremental digits, 5 tasks x 10 classes; needs no download."""

    NAME = "perm-digits"
    SETTING = "domain-il"
    N_TASKS = 5
    N_CLASSES_PER_TASK = 10
    N_CLASSES = 10
    SIZE = (8, 8)
    CLASS_NAMES = tuple(str(digit) for digit in range(10))

    def load_split(self, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Images (N, 8, 8) uint8 and labels (N,)."""
        return load_digits(train)

    @set_default_from_args("backbone")
    def get_backbone() -> str:
        """An MLP suffices."""
        return "mnistmlp"

    @set_default_from_args("batch_size")
    def get_batch_size() -> int:
        """Samples a batch."""
        return 32

    @set_default_from_args("n_epochs")
    def get_epochs() -> int:
        """Epochs a task: 45 batches each."""
        return 5
