"""Runs that are killed at any moment end in the numbers of an undisturbed one."""
import random
import signal
import subprocess
import time

import pytest
from runs import command, environment, result_of, run_main

from models import REGISTRY
from utils.args import ArgumentParser
from utils.plugins import load_plugins

MEASURED = ("accuracy", "accuracy_matrix", "transfer", "seed", "n_parameters")


def methods():
    """Every method that learns classes one task after the other, those of plugins too."""
    load_plugins()
    return [name for name in REGISTRY.names() if "class-il" in REGISTRY[name].COMPATIBILITY]


def words(model, folder, *more):
    own = REGISTRY[model].get_parser(ArgumentParser(add_help=False)).actions_by_dest()
    size = ("--buffer_size", 50) if "buffer_size" in own else ()
    draws = ("--n_global", 4, "--n_global_eval", 2) if "n_global" in own else ()
    return ("--model", model, "--dataset", "seq-digits", *size, *draws, "--seed", 5,
            "--n_epochs", 12, "--non_verbose", 1, "--base_path", folder / "data",
            "--checkpoint_path", folder / "checkpoints", *more)


def kill_while_training(line, folder, chance):
    """Start a run and SIGKILL it a random time after it has written something new.

    Returns:
        Whether it was still running.
    """
    before = set(folder.glob("checkpoints/*.pt"))
    process = subprocess.Popen(line, env=environment(), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    deadline = time.time() + 60
    while process.poll() is None and time.time() < deadline:
        if set(folder.glob("checkpoints/*.pt")) - before:
            break
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 0.4))
    alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return alive


def killed_runs_agree(model, tmp_path, kills, seed, finish_after=4):
    """Kill runs of a method that many times; each comes to the end of an undisturbed one."""
    calm = result_of(run_main(*words(model, tmp_path / "calm")))
    chance, folder, hits, here = random.Random(seed), tmp_path / "killed0", 0, 0
    while hits < kills:
        line = command(*words(model, folder, "--savecheck", "epoch", "--resume"))
        alive = kill_while_training(line, folder, chance)
        hits, here = hits + alive, here + alive
        if here == finish_after or hits == kills or not alive:
            finish_and_compare(model, folder, calm, here)
            folder, here = folder.with_name(f"killed{hits}_{chance.random()}"), 0


def finish_and_compare(model, folder, calm, kills):
    end = result_of(run_main(*words(model, folder, "--savecheck", "epoch", "--resume")))
    assert {name: end[name] for name in MEASURED} == {name: calm[name] for name in MEASURED}
    assert end["resumed"] >= (kills > 0)
    written = list(folder.glob("data/results/**/logs.pyd"))
    assert written and all(len(path.read_text().splitlines()) == 1 for path in written)


def test_killed_three_times_ends_as_if_undisturbed(tmp_path):
    killed_runs_agree("der", tmp_path, kills=3, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("model", methods())
def test_killed_runs_of_every_method_end_as_if_undisturbed(model, tmp_path):
    killed_runs_agree(model, tmp_path, kills=5, seed=model, finish_after=3)


def test_the_slow_suite_kills_a_hundred_runs():
    assert 5 * len(methods()) >= 100


def test_sigterm_saves_mid_epoch_and_resume_is_exact(tmp_path):
    calm = result_of(run_main(*words("er", tmp_path / "calm")))
    folder = tmp_path / "stopped"
    line = command(*words("er", folder))
    process = subprocess.Popen(line, env=environment(), stderr=subprocess.PIPE, text=True,
                               stdout=subprocess.DEVNULL)
    while not list(folder.glob("data/results/runs/*/*/*/args.json")):
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM, stderr
    assert "Interrupted after task" in stderr and "--resume" in stderr
    assert len(list(folder.glob("checkpoints/*paused*.pt"))) == 1
    end = result_of(run_main(*words("er", folder, "--resume")))
    assert end["resumed"] == 1
    assert {name: end[name] for name in MEASURED} == {name: calm[name] for name in MEASURED}
    assert len(list(folder.glob("data/results/runs/*/*/*"))) == 1, "goes on in its folder"
