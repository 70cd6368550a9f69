"""General continual learning: one stream without task boundaries, seen once."""
from argparse import Namespace

from datasets.utils.continual_dataset import ContinualDataset
from engine.errors import UsageError


class GCLDataset(ContinualDataset):
    """A benchmark that is a single stream; it has all its classes in one task."""

    def __init__(self, args: Namespace) -> None:
        if getattr(args, "n_epochs", 1) not in (1, None):
            raise UsageError(f"{self.NAME} is a stream that is seen once: expected --n_epochs 1, "
                             f"but got {args.n_epochs}.")
        self.N_CLASSES_PER_TASK = self.N_CLASSES
        self.N_TASKS = 1
        super().__init__(args)

    def get_epochs(self) -> int:
        """A stream passes by once."""
        return 1
