"""Upstream's own method files, unmodified, in a temporary copy of our harness.

Needs an upstream Mammoth checkout beside the project, named by MAMMOTH_UPSTREAM; nothing of it is
kept. `agem.py` imports helpers of `gem.py`, so that file comes along.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from runs import MAIN, environment

FILES = {"er": (), "der": ("--alpha", "0.5"), "er_ace": (), "fdr": ("--alpha", "0.5"),
         "agem": (), "icarl": (), "si": ("--c", "0.5", "--xi", "1"),
         "ewc_on": ("--e_lambda", "1", "--gamma", "1")}
BUFFERLESS = {"si", "ewc_on"}


@pytest.fixture(scope="module")
def upstream_models():
    checkout = os.environ.get("MAMMOTH_UPSTREAM")
    if not checkout or not Path(checkout, "models").is_dir():
        pytest.skip("MAMMOTH_UPSTREAM does not name an upstream Mammoth checkout")
    return Path(checkout) / "models"


@pytest.mark.parametrize("name", FILES)
def test_upstream_file_trains_and_evaluates_unmodified(name, upstream_models, tmp_path):
    harness = tmp_path / "mammoth"
    shutil.copytree(MAIN.parent, harness, ignore=shutil.ignore_patterns("__pycache__"))
    for file in {name, "gem"} if name == "agem" else {name}:
        shutil.copy(upstream_models / f"{file}.py", harness / "models" / f"{file}.py")
        (harness / "models" / "config" / f"{file}.yaml").unlink(missing_ok=True)
    buffer = () if name in BUFFERLESS else ("--buffer_size", "50")
    done = subprocess.run(
        [sys.executable, str(harness / "main.py"), "--model", name, "--dataset", "seq-digits",
         "--lr", "0.05", "--debug_mode", "1", "--n_epochs", "1", "--base_path", str(tmp_path / "d"),
         *buffer, *FILES[name]], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    assert "Accuracy for 5 task(s)" in done.stderr
