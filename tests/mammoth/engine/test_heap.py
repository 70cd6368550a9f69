"""Freed memory that a process keeps, and imports that nobody looks through for garbage."""
import gc
import platform
import subprocess
import sys

import pytest

from engine.heap import importing
from experiments.paths import MAIN

# Pages that the system has to clear for four tensors of 20 MB, once it has had them often.
FAULTS = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import torch
from engine.heap import keep_freed_memory
if sys.argv[2] == "kept":
    keep_freed_memory()
for _ in range(20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    del [torch.ones(5_000_000) for _ in range(4)][:]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone has the setting")
def test_freed_memory_is_not_cleared_again():
    usual, kept = (int(subprocess.run(
        [sys.executable, "-c", FAULTS, str(MAIN.parent), how], check=True, capture_output=True,
        text=True).stdout) for how in ("usual", "kept"))
    assert usual > 1000 > 10 * kept


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_looked_for_again_after_importing(enabled):
    gc.collect()
    try:
        if not enabled:
            gc.disable()
        with pytest.raises(ImportError), importing():
            assert not gc.isenabled()
            import no_such_module  # noqa: F401
        assert gc.isenabled() == enabled and gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
        gc.enable()
