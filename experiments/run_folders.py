"""Where runs are: every folder below another one that holds the files of a run."""
import os
from collections.abc import Iterator
from pathlib import Path

from engine.errors import UsageError
from experiments.run import MARKS, Damaged, LeftOut, Run, command_of, printable, read_run

_MOST_FOLDERS = 200_000
_DEEPEST = 16


def find_runs(root: Path) -> tuple[list[Run], list[LeftOut]]:
    """All runs below a folder, and the run folders that cannot be shown.

    Raises:
        UsageError: there are too many folders to look at.
    """
    runs, left_out = [], []
    for folder in sorted(_run_folders(root)):
        name = folder.relative_to(root).as_posix()
        name = folder.resolve().name if name == "." else name
        try:
            runs.append(read_run(folder, printable(name)))
        except Damaged as error:
            left_out.append(LeftOut(printable(name), str(error), command_of(folder)))
    return runs, left_out


def _run_folders(root: Path) -> Iterator[Path]:
    """Folders that hold a file of a run; linked folders are entered once."""
    waiting, seen, looked = [(Path(root), 0)], set(), 0
    while waiting:
        folder, depth = waiting.pop()
        try:
            about = folder.stat()
            entries = [] if (about.st_dev, about.st_ino) in seen else list(os.scandir(folder))
        except OSError:
            continue
        seen.add((about.st_dev, about.st_ino))
        looked += 1
        if looked > _MOST_FOLDERS:
            raise UsageError(f"{printable(root)} has more than {_MOST_FOLDERS:,} folders; give the "
                             "--results_path of the runs, or a part of it.")
        if any(entry.name in MARKS for entry in entries):
            yield folder
        if depth < _DEEPEST:
            waiting += [(folder / entry.name, depth + 1) for entry in entries if _is_folder(entry)]


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
