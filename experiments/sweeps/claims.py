"""Who does which run: a lock that lives exactly as long as somebody works on it.

The lock is the kernel's (`flock`) and belongs to the open file, which the sweep hands on to the
run it starts. So it is free as soon as both are gone, however they went, and stays taken while a
run goes on whose sweep was killed.
"""
import contextlib
import fcntl
import os
import socket
from pathlib import Path

from engine.errors import RunError


class Claim:
    """A taken lock; `descriptor` may be passed to a child, which then holds it too."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def take(cls, path: Path) -> "Claim | None":
        """The lock, or None when another process has it.

        Raises:
            RunError: the lock file cannot be made.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise RunError(f"Cannot write {path}: {error.strerror}; free some space or choose "
                           "another folder with --results_path.") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            os.close(descriptor)
            raise RunError(f"Cannot lock {path}: {error.strerror}; choose a --results_path on a "
                           "file system with locks (flock).") from error
        return cls(descriptor)

    def note(self, pid: int) -> None:
        """Write down who has it, for people (a full disk does not matter here)."""
        with contextlib.suppress(OSError):
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, f"process {pid} on {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        """Let go; a child that has it too keeps it."""
        os.close(self.descriptor)
