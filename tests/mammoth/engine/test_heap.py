"""Freed memory that a process keeps, and imports that nobody looks through for garbage."""
import gc
import platform
import subprocess
import sys

import pytest

from engine.heap import importing
from experiments.paths import MAIN

# Megabytes that a process has more of after ten tensors of 20 MB came and went.
REST = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from engine.heap import keep_freed_memory

def resident():
    lines = open("/proc/self/status").readlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024

if sys.argv[2] == "kept":
    keep_freed_memory()
before = resident()
tensors = [torch.ones(5_000_000) for _ in range(10)]
del tensors
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone has the setting")
def test_freed_memory_stays_with_the_process():
    usual, kept = (int(subprocess.run(
        [sys.executable, "-c", REST, str(MAIN.parent), how], check=True, capture_output=True,
        text=True).stdout) for how in ("usual", "kept"))
    assert usual < 70 and kept > 150


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
