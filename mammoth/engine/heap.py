"""The memory of a process: what it keeps, and what nobody needs to look through."""
import contextlib
import ctypes
import gc
from collections.abc import Iterator

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_KEPT = 32 << 20  # bytes of a tensor


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """While much is imported: none of it is garbage, and looking takes a third of the time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # nor is it looked through later
        if before:
            gc.enable()


def keep_freed_memory() -> None:
    """Keep what a step frees, for the next one wants as much again; glibc gives much of it back.

    Given back, it returns as pages that the system clears one by one, which takes three hundredths
    of a step of ResNet-18. Where the C library has no such setting nothing happens.
    """
    try:
        setting = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another library, or none that can be asked
        return
    setting(_MMAP_THRESHOLD, _LARGEST_KEPT)
    setting(_TRIM_THRESHOLD, -1)  # never
