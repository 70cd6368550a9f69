"""Image files in folders as a benchmark: `--dataset folder --data DIR`.

    DIR/<class>/...                      a fifth of each class is held out for testing
    DIR/train/<class>/..., DIR/test/...  the data divide themselves
    DIR/<domain>/<class>/...             domain-IL: a task per domain (train/ and test/ above too)
"""
from pathlib import Path

from datasets.utils.folder_files import read_folder
from datasets.utils.own_data import OwnImages, Samples


class Folder(OwnImages):
    """Learning the images in a folder: class- or domain-incremental, as the folders have it."""

    NAME = "folder"
    WHERE = "a folder with a folder of images for each class"

    @classmethod
    def read(cls, path: Path, size: int | None) -> Samples:
        """The images below the folder."""
        return read_folder(path, size)
