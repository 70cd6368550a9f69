"""Files that are whole or not there, and that show when they were damaged."""
import ast
import contextlib
import hashlib
import json
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import Any

from engine.errors import RunError, UsageError
from engine.locks import is_at, lock_file

_MARK = b"\nmammoth-sha256:"
LOCK_NAME = ".lock"
# Unfinished files, as `mkstemp` calls them after our prefix, and locks.
_LEFTOVER = re.compile(r"\..+\.[a-z0-9_]{8}|\.([0-9a-f]{8}\.)?lock")


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old one or the new one.

    Raises:
        RunError: the disk is full or the folder went away; the old file is still there.
    """
    name = ""
    try:
        handle, name = _unfinished_file(path)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
            os.fchmod(handle, 0o644)
            os.replace(name, path)
    except OSError as error:
        if name:
            with contextlib.suppress(OSError):
                os.unlink(name)
        raise RunError(f"Cannot write {path}: {error.strerror}; free some space or choose another "
                       "folder. What was written before is kept.") from error


def _unfinished_file(path: Path) -> tuple[int, str]:
    """A new file beside `path`, locked while its writer lives, so that others know it is in use."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        lock_file(handle)
        if is_at(handle, name):
            return handle, name
        os.close(handle)  # taken for a leftover before it was locked


def clear_leftovers(folder: Path) -> None:
    """Remove what processes that were killed while writing have left in a folder.

    Files that a living process is writing are locked and stay.
    """
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.is_file(follow_symlinks=False) \
                    and _LEFTOVER.fullmatch(entry.name):
                _remove_if_unused(entry.path)


def _remove_if_unused(path: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if lock_file(descriptor) and is_at(descriptor, path):
                os.unlink(path)
        finally:
            os.close(descriptor)


def clear_empty_folders(parent: Path) -> None:
    """Remove the folders below `parent` in which killed processes left nothing of use."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(parent)):
            if entry.is_dir(follow_symlinks=False):
                clear_leftovers(Path(entry.path))
                with contextlib.suppress(OSError):
                    os.rmdir(entry.path)  # refused by the system unless it is empty


def write_json(path: Path, content: Any) -> None:
    """`atomic_write` of readable JSON."""
    atomic_write(path, (json.dumps(content, indent=1) + "\n").encode())


def append_line(path: Path, line: str, unless: str | None = None) -> None:
    """Add a whole line to a file that other processes add to as well.

    Half a line at the end, which a killed process left, is removed.

    Args:
        unless: text; nothing is done when a line that is there already contains it.

    Raises:
        RunError: it cannot be written; the file is as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # With O_NONBLOCK a pipe of that name is no endless wait.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise RunError(f"Cannot write {path}: it is no regular file.")
            lock_file(descriptor, wait=True)
            end = _end_of_lines(descriptor)
            if unless is None or not _contains(descriptor, unless):
                _write_at(descriptor, (line + "\n").encode(errors="backslashreplace"), end)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise RunError(f"Cannot write {path}: {error.strerror}; free some space or choose another "
                       "folder. What was written before is kept.") from error


def _end_of_lines(descriptor: int) -> int:
    """Where the next line belongs; a last line without its end is completed or cut off."""
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    content = os.pread(descriptor, size, 0)
    start = content.rfind(b"\n") + 1
    if _is_literal(content[start:]):
        os.pwrite(descriptor, b"\n", size)
        return size + 1
    os.ftruncate(descriptor, start)
    return start


def _is_literal(line: bytes) -> bool:
    """Whether a line is a whole value in Python's or JSON's notation."""
    for read in (ast.literal_eval, json.loads):
        with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            read(line.decode())
            return True
    return False


def _contains(descriptor: int, text: str) -> bool:
    return text.encode(errors="backslashreplace") in os.pread(
        descriptor, os.fstat(descriptor).st_size, 0)


def _write_at(descriptor: int, content: bytes, position: int) -> None:
    """Write all of it, however often the system takes only a part; else take it back."""
    written = 0
    try:
        while written < len(content):
            written += os.pwrite(descriptor, content[written:], position + written)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, position)
        raise


def with_checksum(content: bytes) -> bytes:
    """Add a trailer that `without_checksum` verifies; zip readers such as torch.load skip it."""
    return content + _MARK + hashlib.sha256(content).hexdigest().encode()


def without_checksum(content: bytes) -> bytes | None:
    """The content without its trailer (files from elsewhere have none); None if damaged."""
    split = len(content) - len(_MARK) - 64
    if split < 0 or content[split:split + len(_MARK)] != _MARK:
        return content
    good = hashlib.sha256(content[:split]).hexdigest().encode() == content[-64:]
    return content[:split] if good else None


def ensure_writable(folder: Path, flag: str) -> None:
    """Find out before hours of training that files could not be written; leaves nothing behind.

    Raises:
        UsageError: naming the folder and the argument that chose it.
    """
    try:
        with tempfile.TemporaryFile(dir=_nearest_existing(folder)) as file:
            file.write(bytes(4096))
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"Cannot write into {folder} ({reason}); choose another folder with "
                         f"{flag}.") from error


def _nearest_existing(path: Path) -> Path:
    """The path itself, or what is there of the way to it."""
    for there in (path, *path.parents):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.stat(there)
            return there
    return path


def ensure_appendable(path: Path, flag: str) -> None:
    """`ensure_writable` for a file that lines are added to.

    Raises:
        UsageError: naming the file and the argument that chose its folder.
    """
    ensure_writable(path.parent, flag)
    if os.path.lexists(path) and not (path.is_file() and os.access(path, os.W_OK)):
        raise UsageError(f"Cannot write {path}, which is no file or is write-protected; remove it "
                         f"or choose another folder with {flag}.")
