"""Sequential Fashion-MNIST: ten kinds of clothing in five tasks of two."""
import torch

from datasets.utils.builtin import InMemoryDataset
from datasets.utils.idx import FASHION_MNIST, load_idx


class SequentialFashionMNIST(InMemoryDataset):
    """Class-incremental Fashion-MNIST, 5 tasks x 2 classes; settings as for seq-mnist."""

    NAME = "seq-fmnist"
    SETTING = "class-il"
    N_TASKS = 5
    N_CLASSES_PER_TASK = 2
    N_CLASSES = 10
    SIZE = (28, 28)
    DEFAULTS = {"backbone": "mnistmlp", "batch_size": 64, "n_epochs": 1}
    CLASS_NAMES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker",
                   "bag", "ankle boot")

    def load_split(self, train: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Images (N, 28, 28) uint8 and labels (N,)."""
        return load_idx(FASHION_MNIST, train)
