"""Standard output and error that never stop a run: a reader may go away, a disk may be full."""
import io
import os
import sys
from typing import Any


class PatientStream(io.TextIOBase):
    """A stream that goes on as a black hole once it cannot be written.

    Args:
        stream: what is written to, until that fails.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        """Write as far as possible."""
        if self.failure is None:
            try:
                return self.stream.write(text)
            except UnicodeEncodeError:
                return self.write(text.encode("ascii", "backslashreplace").decode())
            except OSError as error:
                self._give_up(error)
            except ValueError:  # it was closed
                self.failure = OSError()
        return len(text)

    def flush(self) -> None:
        """Flush as far as possible."""
        if self.failure is None:
            try:
                self.stream.flush()
            except OSError as error:
                self._give_up(error)
            except ValueError:
                self.failure = OSError()

    def _give_up(self, error: OSError) -> None:
        """Let what is left in buffers vanish, so that the interpreter's last flush succeeds."""
        self.failure = error
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())
        except (OSError, ValueError, AttributeError):
            return
        if self.stream is sys.__stdout__ and not isinstance(error, BrokenPipeError):
            print(f"Standard output cannot be written ({error.strerror}); the run goes on without "
                  "it.", file=sys.stderr)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def isatty(self) -> bool:
        """Whether somebody looks at it."""
        return self.failure is None and self.stream.isatty()

    def fileno(self) -> int:
        """The system's number of the stream."""
        return self.stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """What text becomes."""
        return getattr(self.stream, "encoding", None) or "utf-8"


def make_patient() -> None:
    """Replace the process's streams; one that was closed from the start stays a black hole."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif not isinstance(stream, PatientStream):
            setattr(sys, name, PatientStream(stream))
