"""Arrays in .npz files that somebody else wrote."""
import zipfile
import zlib
from pathlib import Path

import numpy as np

from engine.errors import UsageError
from utils.conf import machine_memory


def wrong(path: Path, what: str) -> UsageError:
    """The error for a file that cannot be a benchmark."""
    return UsageError(f"{path} cannot be a benchmark: {what}.")


def _check_size(path: Path) -> None:
    """A small file may unpack to far more than fits."""
    with zipfile.ZipFile(path) as file:
        needed = sum(entry.file_size for entry in file.infolist())
    if needed > machine_memory() / 2:
        raise wrong(path, f"its arrays are {needed / 2**30:,.1f} GB, more than half of this "
                          f"machine's {machine_memory() / 2**30:,.0f} GB of memory")


def read_npz(path: Path, needed: tuple[str, ...], optional: tuple[str, ...] = ()
             ) -> dict[str, np.ndarray]:
    """The named arrays of a file; nothing in it is executed.

    Raises:
        UsageError: it cannot be read, or lacks one.
    """
    if not path.is_file():
        raise UsageError(f"There is no file {path}." if not path.exists() else
                         f"{path} is no regular file.")
    try:
        _check_size(path)
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in needed if name not in file.files]
            if missing:
                raise wrong(path, f"it lacks {' and '.join(missing)} (there must be "
                                  f"{', '.join(needed)})")
            return {name: file[name] for name in (*needed, *optional) if name in file.files}
    except (ValueError, TypeError, AttributeError, EOFError, OSError, MemoryError, KeyError,
            zipfile.BadZipFile, zlib.error) as error:
        pickled = "pickle" in str(error).lower() and zipfile.is_zipfile(path)
        raise wrong(path, "it holds Python objects, which are not read" if pickled else
                    "it is no complete .npz file of numpy arrays") from error
