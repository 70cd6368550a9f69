"""One process at a time: a lock that the kernel frees when its owner ends, however it ends."""
import contextlib
import fcntl
import functools
import logging
import os
import socket
from pathlib import Path

from engine.errors import RunError


def lock_file(descriptor: int, wait: bool = False) -> bool | None:
    """Lock an open file for its owner alone.

    Args:
        wait: until it is free.

    Returns:
        Whether it is ours now; None if the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        _warn_of_no_locks(str(error.strerror))
        return None
    return True


@functools.cache
def _warn_of_no_locks(reason: str) -> None:
    logging.getLogger("mammoth").warning(
        "This file system has no locks (%s): do not start one run twice.", reason)


def is_at(descriptor: int, path: str | Path) -> bool:
    """Whether an open file is the one that has this name now."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


class Lock:
    """A taken lock; `take` makes one."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor

    @classmethod
    def take(cls, path: Path) -> "Lock | None":
        """The lock, or None while another process has it.

        Raises:
            RunError: its file cannot be made.
        """
        while True:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
                                     0o644)
            except FileNotFoundError:  # the folder was empty and cleared by another process
                continue
            except OSError as error:
                raise RunError(f"Cannot write {path}: {error.strerror}; choose another "
                               "folder.") from error
            if lock_file(descriptor) is False:
                os.close(descriptor)
                return None
            if is_at(descriptor, path):  # else its owner removed it before it let go
                with contextlib.suppress(OSError):  # for people; a full disk does not matter here
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}"
                              .encode(), 0)
                return cls(path, descriptor)
            os.close(descriptor)

    def release(self) -> None:
        """Remove the file and let go."""
        with contextlib.suppress(OSError):
            if is_at(self._descriptor, self.path):
                self.path.unlink()
        os.close(self._descriptor)


def owner(path: Path) -> str:
    """Who has a lock, for a sentence."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(100).strip() or "another process"
    except (OSError, ValueError):
        return "another process"
