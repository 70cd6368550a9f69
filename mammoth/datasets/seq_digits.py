"""Sequential digits: scikit-learn's small digits in five tasks of two; needs no download."""
import torch

from datasets.utils import set_default_from_args
from datasets.utils.builtin import InMemoryDataset
from datasets.utils.digits import load_digits


class SequentialDigits(InMemoryDataset):
    """Class-incremental digits, 5 tasks x 2 classes of about 290 images."""

    NAME = "seq-digits"
    SETTING = "class-il"
    N_TASKS = 5
    N_CLASSES_PER_TASK = 2
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
        """Epochs a task: nine batches each, so a task takes 45 steps."""
        return 5
