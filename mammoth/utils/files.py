"""Files that are whole or not there, and that show when they were damaged."""
import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from utils.errors import RunError, UsageError

_MARK = b"\nmammoth-sha256:"


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old one or the new one.

    Raises:
        RunError: the disk is full or the folder went away; the old file is still there.
    """
    handle, name = None, ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        if name:
            with contextlib.suppress(OSError):
                os.unlink(name)
        raise RunError(f"Cannot write {path}: {error.strerror}; free some space or choose another "
                       "folder. What was written before is kept.") from error


def write_json(path: Path, content: Any) -> None:
    """`atomic_write` of readable JSON."""
    atomic_write(path, (json.dumps(content, indent=1) + "\n").encode())


def append_line(path: Path, line: str) -> None:
    """Add a line in one system call, so that concurrent runs do not mix theirs.

    Raises:
        RunError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, (line + "\n").encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise RunError(f"Cannot write {path}: {error.strerror}.") from error


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
    """Find out before hours of training that results could not be written.

    Raises:
        UsageError: naming the folder and the argument that chose it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"Cannot write into {folder} ({error.strerror}); choose another folder "
                         f"with {flag}.") from error
