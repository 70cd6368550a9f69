"""Runs forked from a process that has imported torch: isolated, and the same to the last bit."""
import os
import signal
import subprocess
import sys
import time
from multiprocessing import forkserver

import pytest
import torch

from experiments.paths import MAIN
from experiments.sweeps import warm

pytestmark = pytest.mark.long

WORDS = ["--dataset", "seq-digits", "--seed", "3", "--non_verbose", "1", "--savecheck", "last"]
SMALL = {"er": ["--buffer_size", "40"], "npcl": ["--buffer_size", "40", "--n_global", "3"]}


def words(folder, model, epochs=1):
    return ["--model", model, *SMALL[model], *WORDS, "--base_path", str(folder),
            "--checkpoint_path", str(folder / "checkpoints"), "--n_epochs", str(epochs)]


@pytest.fixture
def start(tmp_path):
    """Start a run with a lock of its own."""
    descriptors = []

    def begin(arguments, name="run"):
        lock = os.open(tmp_path / f"{name}.lock", os.O_RDWR | os.O_CREAT)
        descriptors.append(lock)
        return warm.WarmRun(arguments, tmp_path / f"{name}.log",
                            {**os.environ, "OMP_NUM_THREADS": "1", "MAMMOTH_TEST": name}, lock)

    yield begin
    for descriptor in descriptors:
        os.close(descriptor)


def finish(run, seconds=120):
    until = time.time() + seconds
    while run.poll() is None and time.time() < until:
        time.sleep(0.02)
    return run.poll()


def weights(folder):
    file, = (folder / "checkpoints").glob("*_last.pt")
    return torch.load(file, weights_only=True)["model"]


@pytest.mark.parametrize("model", SMALL)
def test_a_warm_run_ends_in_the_weights_of_a_process_of_its_own(tmp_path, start, model):
    # After another run: nothing of it may be left.
    assert finish(start(words(tmp_path / "other", "er"), "other")) == 0
    assert finish(start(words(tmp_path / "warm", model))) == 0
    alone = subprocess.run([sys.executable, str(MAIN), *words(tmp_path / "alone", model)],
                           env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True)
    assert alone.returncode == 0
    mine, other = weights(tmp_path / "warm"), weights(tmp_path / "alone")
    assert mine.keys() == other.keys()
    assert all(torch.equal(mine[name], other[name]) for name in mine)


def test_a_mistake_is_told_in_the_log_with_its_exit_code(tmp_path, start):
    assert finish(start(["--model", "nobody", "--dataset", "seq-digits"])) == 2
    log = (tmp_path / "run.log").read_text()
    assert log.startswith("error: There is no model `nobody`") and log.count("\n") == 1


def test_a_killed_run_takes_nobody_with_it(tmp_path, start):
    long = words(tmp_path / "long", "er", epochs=1000)
    first, second = start(long, "first"), start(words(tmp_path / "second", "er"), "second")
    first.send_signal(signal.SIGKILL)
    assert finish(first) == -signal.SIGKILL
    assert finish(second) == 0
    first.send_signal(signal.SIGTERM)  # to one that is gone: nothing happens
    assert finish(start(words(tmp_path / "third", "er"), "third")) == 0


def test_a_run_holds_its_lock_when_the_sweep_lets_go(tmp_path, start):
    import fcntl

    long = words(tmp_path, "er", epochs=1000)
    path = tmp_path / "held.lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    run = warm.WarmRun(long, tmp_path / "held.log", {**os.environ, "OMP_NUM_THREADS": "1"}, lock)
    os.close(lock)
    other = os.open(path, os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    run.send_signal(signal.SIGKILL)
    assert finish(run) == -signal.SIGKILL
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


def to_forking_process(number):
    warm.prepare()
    os.kill(forkserver._forkserver._forkserver_pid, number)


def test_usr1_does_not_end_the_forking_process(tmp_path, start):
    to_forking_process(signal.SIGUSR1)
    assert finish(start(words(tmp_path, "er"))) == 0


def test_a_run_outlives_the_forking_process(tmp_path, start):
    run = start(words(tmp_path / "orphan", "er"))
    to_forking_process(signal.SIGKILL)
    assert finish(run) == -signal.SIGKILL, "its own exit code is lost with its parent"
    assert list(tmp_path.glob("orphan/results/runs/*/*/*/result.json")), "but it went on to its end"
    assert finish(start(words(tmp_path / "next", "er"), "next")) == 0


def test_whoever_waits_wakes_when_the_first_run_ends(tmp_path, start):
    long = start(words(tmp_path / "long", "er", epochs=1000), "long")
    short = start(words(tmp_path / "short", "er"), "short")
    began = time.time()
    warm.wait_for([long], 0.2)
    assert 0.2 <= time.time() - began < 5 and long.poll() is None
    warm.wait_for([long, short], 100)
    assert finish(short, 1) == 0 and long.poll() is None and time.time() - began < 60
    long.send_signal(signal.SIGKILL)
    warm.wait_for([long], 100)
    assert finish(long, 1) == -signal.SIGKILL
    warm.wait_for([], 0.1)  # nobody: only the time passes
