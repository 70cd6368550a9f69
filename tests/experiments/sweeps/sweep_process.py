"""How tests start sweeps and look at what they left."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import warm_python
import yaml

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "utils" / "sweep.py"


def write_grid(folder, **content):
    """A grid file."""
    path = Path(folder) / "grid.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def command(grid, folder, *words):
    return [sys.executable, str(SCRIPT), str(grid), "--base_path", str(folder), *map(str, words)]


def sweep(grid, folder, *words, env=None):
    """A sweep from start to end, in a process that has torch already."""
    return warm_python.run(command(grid, folder, *words), timeout=900,
                           env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})})


def sweep_cold(grid, folder, *words, **options):
    """A sweep from start to end, as from a shell."""
    return subprocess.run(command(grid, folder, *words), capture_output=True, text=True,
                          timeout=900, env={**os.environ, "OMP_NUM_THREADS": "1"}, **options)


def begin(grid, folder, *words):
    """A sweep that is left to itself."""
    return warm_python.begin(command(grid, folder, *words),
                             env={**os.environ, "OMP_NUM_THREADS": "1"})


def results(folder):
    """name of the run -> its result; asserts that no run was done twice."""
    found = {}
    for path in sorted(Path(folder).glob("results/runs/*/*/*/result.json")):
        result = json.loads(path.read_text())
        assert result["key"] not in found, "a run was repeated"
        found[result["key"]] = result
    return found


def numbers(folder):
    """What must be the same however often a run was disturbed."""
    return {key: (result["model"], result["seed"], result["accuracy_matrix"])
            for key, result in results(folder).items()}


def progress(folder):
    """What the running runs noted, by the run's name."""
    found = {}
    for path in Path(folder).glob("results/sweep/progress/*.json"):
        with contextlib.suppress(OSError, json.JSONDecodeError):
            found[path.stem] = json.loads(path.read_text())
    return found


def wait_for(condition, seconds=400):
    """The condition's value as soon as it is true."""
    end = time.time() + seconds
    while time.time() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError("waited in vain")


def workers(folder):
    """Process ids of the runs that are going on, as the locks note them, by the run's name."""
    found = {}
    for path in Path(folder).glob("results/sweep/locks/*.lock"):
        noted = re.match(r"process (\d+) on ", path.read_text())
        if noted and Path(f"/proc/{noted.group(1)}").exists():
            found[path.stem] = int(noted.group(1))
    return found


def kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
