"""The ways a command may end badly, each told in one sentence.

`main.py` turns exceptions into a line on stderr and an exit code; nothing else does, so
library code raises them freely and a notebook sees ordinary exceptions.
"""
import tempfile
import traceback
from pathlib import Path

_LONGEST = 600
_run_folder: list[Path] = []


class UsageError(Exception):
    """What the user asked for cannot be done: wrong argument, missing file (exit code 2)."""

    exit_code = 2


class RunError(Exception):
    """A run that started well and had to stop, e.g. on a non-finite loss (exit code 1)."""

    exit_code = 1


def keep_tracebacks_in(folder: Path | None) -> None:
    """From now on the traceback of what nobody foresaw goes into this run's folder."""
    _run_folder[:] = [] if folder is None else [folder]


def one_line(text: str) -> str:
    """A text as a sentence on one line, cut where it is endless."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def sentence_and_code(error: BaseException) -> tuple[str, int]:
    """What to tell the user about an exception, and the process's exit code."""
    if isinstance(error, (UsageError, RunError)):
        return one_line(str(error)), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted at once; what was written before is kept.", 130
    if _out_of_memory(error):
        return ("The run does not fit into this machine's memory; lower --batch_size, "
                "--buffer_size or the sizes of the network."), 1
    what = one_line(f"{type(error).__name__}: {error}".rstrip(": ")).rstrip(".")
    if isinstance(error, OSError) and error.strerror:
        what = one_line(f"{error.strerror}: {error.filename or 'while reading or writing'}")
    return f"The run stopped on what nobody foresaw ({what}). {_keep_traceback(error)}", 1


def _out_of_memory(error: BaseException) -> bool:
    """Python's, the CPU allocator's or a GPU's way to say so."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or isinstance(error, RuntimeError) and (
        "out of memory" in said or "can't allocate memory" in said
        or "storage size calculation overflowed" in said)


def _keep_traceback(error: BaseException) -> str:
    """Write the traceback into the run's folder, else a temporary one; says where it is."""
    text = "".join(traceback.format_exception(error))
    for folder in _run_folder:
        path = folder / "traceback.txt"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
            return f"The traceback is in {path}."
        except OSError:
            continue
    try:
        path = Path(tempfile.mkdtemp(prefix="mammoth-")) / "traceback.txt"
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return "Its traceback could not be written anywhere."
    return f"The traceback is in {path}."
