"""How tests start main.py: in a process of its own, cold or warm, or in this one."""
import json
import os
import subprocess
import sys
from pathlib import Path

import warm_python

from main import initialize, parse_args
from utils.training import Experiment

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "mammoth" / "main.py"


def command(*words: object) -> list[str]:
    """The command line of a run."""
    return [sys.executable, str(MAIN), *map(str, words)]


def environment() -> dict[str, str]:
    """One thread, so that numbers are the same in every process."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def run_main(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess:
    """Run main.py to its end, in a process that has torch already."""
    return warm_python.run(command(*words), cwd=cwd, env=environment(), timeout=300)


def run_main_cold(*words: object) -> subprocess.CompletedProcess:
    """Run main.py to its end, as from a shell: for what is about the start itself."""
    return subprocess.run(command(*words), capture_output=True, text=True, env=environment(),
                          timeout=300)


def result_of(process: subprocess.CompletedProcess) -> dict:
    """The result.json that a finished run names."""
    assert process.returncode == 0, process.stderr
    line = next(line for line in process.stdout.splitlines() if line.startswith("Result: "))
    return json.loads(Path(line.removeprefix("Result: ")).read_text())


def experiment(folder: Path, *words: object, base_path: object = None) -> Experiment:
    """An experiment built in this process, with its files below `folder`."""
    cmd = ["--base_path", base_path or folder / "data", "--checkpoint_path", folder / "checkpoints",
           "--non_verbose", "1", *words]
    if "--seed" not in words:
        cmd += ["--seed", "0"]
    return Experiment(*initialize(parse_args([str(word) for word in cmd])))
