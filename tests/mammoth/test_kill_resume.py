"""Runs that are killed at any moment end in the numbers of an undisturbed one.

Killed runs are forks of this process, in which everything is imported already: a kill costs a
fraction of a second instead of the start of an interpreter.
"""
import ast
import json
import os
import random
import signal
import subprocess
import time

import pytest
import torch
from runs import command, environment, result_of, run_main
from tqdm import tqdm

import utils.training  # noqa: F401  (before the first fork)
from engine.plugins import load_plugins
from main import initialize, parse_args, run
from models import REGISTRY
from utils.args import ArgumentParser

pytestmark = pytest.mark.long

MEASURED = ("accuracy", "accuracy_matrix", "transfer", "seed", "n_parameters")
KILLS = 5  # of each method in the slow suite


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


def fork(line):
    """Run a command in a copy of this process; returns its id."""
    process = os.fork()
    if process:
        return process
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1), os.dup2(quiet, 2)
        torch.set_num_threads(1)
        run(parse_args([str(word) for word in line]))
        os._exit(0)
    except BaseException:
        os._exit(1)


def finished(process, seconds):
    """The exit code of a fork, or None when it takes longer."""
    end = time.time() + seconds
    while time.time() < end:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


def only_result(folder):
    """The result of a folder in which one run has ended, which must hold nothing else of it."""
    results = list(folder.rglob("result.json"))
    assert len(results) == 1, results
    logs = [[ast.literal_eval(line)["seed"] for line in path.read_text().splitlines()]
            for path in folder.rglob("logs.pyd")]
    assert logs == [[5], [5]], logs
    lines = results[0].with_name("metrics.jsonl").read_text().splitlines()
    assert len(lines) == len(json.loads(results[0].read_text())["accuracy_matrix"]["class-il"])
    left = [path.name for path in folder.rglob("*") if path.name.startswith(".")]
    assert not left, left
    assert len(list(results[0].parent.parent.iterdir())) == 1, "one run has one folder"
    return json.loads(results[0].read_text())


def killed_runs_agree(model, tmp_path, kills, seed):
    """Kill a run `kills` times at random moments, let it end, and compare with a calm one."""
    chance = random.Random(seed)
    epochs = ("--savecheck", "epoch", "--resume")
    passes = 2 if REGISTRY[model].TRAINS_BY_GRADIENT else 1
    small = [word if word != 12 else passes for word in words(model, tmp_path / "calm", *epochs)]
    initialize(parse_args([str(word) for word in small]))[1].get_data_loaders()  # imports all
    began = time.time()
    assert finished(fork(small), 120) == 0
    took = time.time() - began
    folder, hits, round_ = tmp_path / "killed0", 0, 0
    while hits < kills:
        line = [str(word).replace(str(tmp_path / "calm"), str(folder)) for word in small]
        process = fork(line)
        code = finished(process, chance.uniform(0, 1.1 * took))
        if code is None:
            os.kill(process, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            hits += code == -signal.SIGKILL
        assert code in (0, -signal.SIGKILL)
        if code == 0 or hits == kills:  # its end, and another one
            assert finished(fork(line), 120) == 0
            end, calm = only_result(folder), only_result(tmp_path / "calm")
            assert {name: end[name] for name in MEASURED} == {n: calm[n] for n in MEASURED}
            round_ += 1
            folder = tmp_path / f"killed{round_}"


@pytest.mark.parametrize("model", ["der", "npcl"])
def test_killed_at_any_moment_ends_as_if_undisturbed(model, tmp_path):
    killed_runs_agree(model, tmp_path, kills=4, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("model", methods())
def test_killed_runs_of_every_method_end_as_if_undisturbed(model, tmp_path):
    killed_runs_agree(model, tmp_path, kills=KILLS, seed=model)


def test_the_slow_suite_kills_a_hundred_runs():
    assert KILLS * len(methods()) >= 100


def test_a_fork_that_is_killed_leaves_the_bars_to_the_others():
    process = os.fork()
    if not process:
        tqdm.get_lock().acquire()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(process, 0)
    assert tqdm.get_lock().acquire(timeout=1)
    tqdm.get_lock().release()


def test_sigterm_saves_mid_epoch_and_resume_is_exact(tmp_path):
    calm = result_of(run_main(*words("er", tmp_path / "calm")))
    folder = tmp_path / "stopped"
    line = command(*words("er", folder))
    process = subprocess.Popen(line, env=environment(), stderr=subprocess.PIPE, text=True,
                               stdout=subprocess.DEVNULL)
    while not list(folder.glob("data/results/runs/*/*/*/args.json")):
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.1)  # the whole run takes 0.4
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM, stderr
    assert "Interrupted after task" in stderr and "--resume" in stderr
    assert len(list(folder.glob("checkpoints/*paused*.pt"))) == 1
    end = result_of(run_main(*words("er", folder, "--resume")))
    assert end["resumed"] == 1
    assert {name: end[name] for name in MEASURED} == {name: calm[name] for name in MEASURED}
    assert len(list(folder.glob("data/results/runs/*/*/*"))) == 1, "goes on in its folder"
