"""Runs that are killed at any moment end in the numbers of an undisturbed one."""
import random
import signal
import subprocess
import time

import pytest
from runs import command, environment, result_of, run_main

MEASURED = ("accuracy", "accuracy_matrix", "transfer", "seed", "n_parameters")


def words(model, folder, *more):
    return ("--model", model, "--dataset", "seq-digits", "--buffer_size", 50, "--seed", 5,
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


def killed_runs_agree(model, tmp_path, kills, seed):
    calm = result_of(run_main(*words(model, tmp_path / "calm")))
    chance, folder, hits = random.Random(seed), tmp_path / "killed", 0
    line = command(*words(model, folder, "--savecheck", "epoch", "--resume"))
    while hits < kills:
        assert kill_while_training(line, folder, chance), "the run ended before it was killed"
        hits += 1
        if hits % 4 == 0:  # let it come to its end now and then, and start anew
            finish_and_compare(model, folder, calm)
            folder = tmp_path / f"killed{hits}"
            line = command(*words(model, folder, "--savecheck", "epoch", "--resume"))
    if hits % 4:
        finish_and_compare(model, folder, calm)


def finish_and_compare(model, folder, calm):
    end = result_of(run_main(*words(model, folder, "--savecheck", "epoch", "--resume")))
    assert {name: end[name] for name in MEASURED} == {name: calm[name] for name in MEASURED}
    assert end["resumed"] >= 1


def test_killed_three_times_ends_as_if_undisturbed(tmp_path):
    killed_runs_agree("der", tmp_path, kills=3, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "seed"), [("er", 11), ("der", 12), ("derpp", 13)])
def test_killed_many_times_ends_as_if_undisturbed(model, seed, tmp_path):
    killed_runs_agree(model, tmp_path, kills=8, seed=seed)


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
