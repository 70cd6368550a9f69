"""Forks that stand for processes behave as those do."""
import os
import signal
import subprocess
import sys
import time

import pytest
import warm_python
from runs import ROOT


def run(code, *words, **options):
    return warm_python.run([sys.executable, "-c", code, *words], **options)


@pytest.mark.parametrize("code", [
    "print('said')", "raise SystemExit(3)", "raise SystemExit('a sentence')", "import no_such",
    "import os; os.kill(os.getpid(), 9)", "import atexit; atexit.register(print, 'at the end')",
    "import sys; print(sys.argv, __name__)", "import os; print(os.getcwd(), sorted(os.environ))",
    "import threading; threading.Timer(0.1, print, ['later']).start()"])
def test_it_says_and_ends_as_a_process_of_its_own(code, tmp_path):
    environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "LC_CTYPE": "C.UTF-8"}
    cold = subprocess.run([sys.executable, "-c", code, "a", "b"], capture_output=True, text=True,
                          cwd=tmp_path, env=environment)
    warm = run(code, "a", "b", cwd=tmp_path, env=environment)
    assert (warm.returncode, warm.stdout) == (cold.returncode, cold.stdout)
    assert warm.stderr.splitlines()[-1:] == cold.stderr.splitlines()[-1:]


def test_a_script_finds_its_own_folder_first_and_nothing_of_ours(tmp_path):
    (tmp_path / "models.py").write_text("MINE = True\n")
    (tmp_path / "script.py").write_text(
        "import sys, torch, models\n"
        "ours = {'main', 'utils', 'datasets', 'engine', 'experiments', 'npcl_plugin'}\n"
        "print(models.MINE, sorted(ours & set(sys.modules)), sys.path[1])\n")
    done = warm_python.run([sys.executable, "script.py"], cwd=tmp_path,
                           env={**os.environ, "PYTHONPATH": str(ROOT / "docs")})
    assert done.stdout == f"True [] {ROOT / 'docs'}\n", done.stderr


def test_one_that_goes_on_can_be_asked_and_stopped():
    process = warm_python.begin([sys.executable, "-c", "import time; time.sleep(60)"])
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=0.05)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == -signal.SIGTERM
    began = time.time()
    with pytest.raises(subprocess.TimeoutExpired):
        run("import time; time.sleep(60)", timeout=0.1)
    assert time.time() - began < 30
