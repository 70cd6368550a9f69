"""Arrays in .npz files that somebody else wrote."""
import zipfile
import zlib
from pathlib import Path

import numpy as np

from utils.errors import UsageError


def wrong(path: Path, what: str) -> UsageError:
    """The error for a file that cannot be a benchmark."""
    return UsageError(f"{path} cannot be a benchmark: {what}.")


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
