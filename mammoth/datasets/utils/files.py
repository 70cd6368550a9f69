"""Finding dataset files, in whichever of the known folders they lie, or saying what is missing."""
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from engine.errors import UsageError
from utils.conf import base_path

_CONNECT_SECONDS = 10


@dataclass(frozen=True)
class FileSet:
    """The files of one dataset.

    Attributes:
        title: as people call the dataset.
        folders: where the files may lie below the base path; the first is recommended.
        names: the files; each may also be there with `.gz` appended.
        torchvision_class: which class of torchvision downloads them, "" if none does.
        alternative: another form of the dataset and where to put it, if there is one.
    """

    title: str
    folders: tuple[str, ...]
    names: tuple[str, ...]
    torchvision_class: str = ""
    alternative: str = ""


def _locate_one(folder: Path, name: str) -> Path | None:
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    return None


def _search(files: FileSet, names: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
    """Files that are there, and the missing ones of the folder that holds most."""
    best: dict[str, Path] = {}
    for folder in files.folders:
        there = {name: _locate_one(Path(base_path(), folder), name) for name in names}
        found = {name: path for name, path in there.items() if path is not None}
        if len(found) > len(best):
            best = found
    return best, [name for name in names if name not in best]


def is_there(files: FileSet, names: Sequence[str]) -> bool:
    """Whether any of the files is there, so that this form of the dataset is meant."""
    return bool(_search(files, names)[0])


def _download(files: FileSet) -> str:
    """Let torchvision fetch the files; "" on success, else why not."""
    if not files.torchvision_class:
        return "there is no automatic download for it"
    from torchvision import datasets

    limit = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_CONNECT_SECONDS)
    try:
        getattr(datasets, files.torchvision_class)(base_path(), download=True)
    except (URLError, RuntimeError):  # torchvision sums up several mirrors as a RuntimeError
        return "the download failed: is there a network?"
    except OSError as error:
        return f"the download failed: {error.strerror or error}"
    finally:
        socket.setdefaulttimeout(limit)
    return ""


def locate(files: FileSet, names: Sequence[str] | None = None) -> dict[str, Path]:
    """Where the files are; tries a download once if some are missing.

    Args:
        names: the files needed, all by default.

    Raises:
        UsageError: they are not there and cannot be downloaded.
    """
    names = files.names if names is None else names
    found, missing = _search(files, names)
    if missing:
        problem = _download(files)
        if not problem:
            found, missing = _search(files, names)
        if missing:
            shown = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more"
                                              if len(missing) > 4 else "")
            alternative = f"{files.alternative}, or " if files.alternative else ""
            raise UsageError(
                f"{files.title} is not complete under {base_path()}: missing {shown} "
                f"({problem or 'the download did not bring them'}); put {alternative}"
                f"the files into {Path(base_path(), files.folders[0])}, or say with --base_path "
                f"where the folder {' or '.join(files.folders)} lies.")
    return found


def damaged(path: Path, why: str) -> UsageError:
    """The error for a file that is there but not what it should be."""
    return UsageError(f"{path} is damaged or not the expected file ({why}); delete it and put a "
                      "fresh copy in its place.")
