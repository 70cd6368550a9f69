"""The measurements of the harness itself."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import RunError
from experiments.commands import bench
from experiments.contributions import load_contributions

ROOT = Path(__file__).resolve().parents[2]


def test_demo_measures_the_runs_of_run_all():
    load_contributions()
    script = " ".join((ROOT / "run_all.sh").read_text().replace("\\\n", " ").split())
    assert f"utils/compare.py {' '.join(bench.demo())} --report" in script


@pytest.mark.parametrize("job", ["harness", "methods", "npcl"])
def test_missing_data_is_one_sentence_before_anything_is_measured(tmp_path, capsys, job):
    assert bench.main([job, "--base_path", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert not said.out and "error: MNIST is not complete under" in said.err


def test_processor_time_of_a_process_is_its_own():
    busy, clock = bench.process_seconds("-c", "x = sum(i * i for i in range(2_000_000))")
    idle, waited = bench.process_seconds("-c", "import time; time.sleep(1)")
    assert 0 < idle < busy <= clock + 0.1 and waited >= 1
    with pytest.raises(RunError, match="exit code 3"):
        bench.process_seconds("-c", "raise SystemExit(3)")


@pytest.mark.slow
def test_demo_stays_within_its_budget():
    done = subprocess.run([sys.executable, str(ROOT / "utils" / "bench.py"), "demo"],
                          capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    used = list(map(float, re.findall(r"15 runs .* ([\d.]+) of ", done.stdout)))
    assert len(used) == 2 and max(used) < 1.5, "the budget is 1; machines are noisy"
