"""Images in an .npz file as a benchmark: `--dataset arrays --data FILE.npz`."""
from pathlib import Path

from datasets.utils.array_files import read_arrays
from datasets.utils.own_data import OwnImages, Samples


class Arrays(OwnImages):
    """Class-incremental learning on the images in a file."""

    NAME = "arrays"
    WHERE = "an .npz file with train_x, train_y and, if there are any, test_x, test_y, class_names"

    @classmethod
    def read(cls, path: Path, size: int | None) -> Samples:
        """The images of the file."""
        return read_arrays(path, size)
