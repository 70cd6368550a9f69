"""Sweeps with real processes: what was done stays done, whoever is killed."""
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from sweep_process import (
    begin,
    kill,
    numbers,
    progress,
    results,
    sweep,
    sweep_cold,
    wait_for,
    workers,
    write_grid,
)

pytestmark = pytest.mark.long

LONG = {"dataset": "perm-digits", "model": ["er", "der"], "buffer_size": 50, "n_epochs": 5,
        "seed": 0}
ONE = {**LONG, "model": "er"}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A sweep of three runs that ended: one twice in its grid, one that has to fail."""
    folder = tmp_path_factory.mktemp("done")
    grid = write_grid(folder, dataset="seq-digits", n_epochs=1, seed=0, runs=[
        {"model": "sgd", "lr": 1e30}, {"model": "er", "buffer_size": [50, 50]}, {"model": "sgd"}])
    return grid, folder, sweep(grid, folder, "--jobs", 1)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The numbers of two runs that nobody kills, by key."""
    folder = tmp_path_factory.mktemp("undisturbed")
    process = sweep(write_grid(folder, **LONG), folder)
    assert process.returncode == 0, process.stderr
    return numbers(folder)


def test_grid_is_run_once_with_a_log_each_and_no_checkpoint_left(done):
    _, folder, process = done
    assert "1 run stands in the grid more than once and is done once.\n" in process.stdout
    assert "3 runs, 0 finished already, 3 to do: about" in process.stdout
    assert "2 of 3 runs finished (2 now), 1 failed." in process.stdout
    assert Counter(r["model"] for r in results(folder).values()) == {"er": 1, "sgd": 1}
    assert len(list(folder.glob("results/sweep/logs/*.log"))) == 3
    assert not list(folder.glob("results/sweep/checkpoints/*"))
    assert not list(folder.glob("results/sweep/progress/*"))


def test_failed_run_is_reported_with_its_log_and_stops_no_other(done):
    _, _, process = done
    assert process.returncode == 1
    line = process.stderr.strip()
    assert line.startswith("failed: sgd lr 1e+30: error: The loss became") and "\n" not in line
    assert "The loss became" in Path(line.split("log: ")[1]).read_text()


def test_second_call_repeats_nothing_and_names_an_unreadable_result(done, tmp_path):
    grid, before, _ = done
    shutil.copytree(before, tmp_path / "copy")
    path = next((tmp_path / "copy").glob("results/runs/seq-digits/er/*/result.json"))
    path.write_text('{"half": ')
    again = sweep(grid, tmp_path / "copy", "--limit", "0")
    assert again.returncode == 1
    assert "1 of 3 runs finished (0 now), 1 failed." in again.stdout
    assert again.stderr.startswith(f"failed: er buffer_size 50: {path} cannot be read; remove it")
    assert "Traceback" not in again.stderr and len(list(path.parent.parent.iterdir())) == 1


def test_dry_run_tells_and_starts_nothing(done):
    grid, folder, _ = done
    process = sweep(grid, folder, "--dry_run", "--n_epochs", "3")
    assert process.returncode == 0
    lines = [line for line in process.stdout.splitlines() if line.startswith("to do")]
    assert len(lines) == 3 and all("--n_epochs 3" in line for line in lines)
    assert len(results(folder)) == 2


def test_arguments_that_make_no_other_run_are_named(tmp_path):
    process = sweep(write_grid(tmp_path, **ONE, threads=[1, 2], notes=["a", "b"]), tmp_path,
                    "--dry_run")
    assert "3 runs stand in the grid more than once and are done once; a run is the same with " \
        "another --notes and --threads.\n" in process.stdout


@pytest.mark.parametrize("words, whose", [
    (("--gpus", "1"), "ray or slurm"), (("--partition", "x"), "slurm"), (("--detach",), "slurm"),
    (("--launcher", "slurm", "--address", "x"), "ray")])
def test_arguments_of_another_launcher_are_refused(tmp_path, words, whose):
    process = sweep(write_grid(tmp_path, **ONE), tmp_path, "--dry_run", *words)
    assert process.returncode == 2 and f"belongs to --launcher {whose}, but" in process.stderr


def test_dry_run_for_slurm_needs_no_submitit(tmp_path):
    (tmp_path / "submitit.py").write_text("raise ImportError('not here')")
    process = sweep(write_grid(tmp_path, **ONE), tmp_path, "--dry_run", "--launcher", "slurm",
                    env={"PYTHONPATH": str(tmp_path)})
    assert process.returncode == 0 and "at 64 a time" in process.stdout


def test_negative_limit_is_one_sentence(tmp_path):
    process = sweep(write_grid(tmp_path, **ONE), tmp_path, "--limit", "-1")
    assert process.returncode == 2
    assert process.stderr.strip() == "error: Expected --limit to be at least 0, but got -1."


def test_workers_killed_at_random_give_the_same_numbers(undisturbed, tmp_path):
    chance = random.Random(0)
    process = begin(write_grid(tmp_path, **LONG), tmp_path, "--retries", 20)
    wait_for(lambda: [n for n in progress(tmp_path).values() if n["task"] > 0])
    first = max(progress(tmp_path).items(), key=lambda item: item[1]["task"])[0]
    kill(workers(tmp_path)[first])
    for _ in range(2):
        time.sleep(chance.uniform(1, 3))
        victims = sorted(workers(tmp_path).values())
        if victims:
            kill(chance.choice(victims), chance.choice([signal.SIGKILL, signal.SIGTERM]))
    stdout, stderr = process.communicate(timeout=900)
    assert process.returncode == 0, stderr
    assert "2 of 2 runs finished (2 now), 0 failed." in stdout
    assert " was killed by signal 9 and goes on from its last checkpoint (19 more tries " in stdout
    assert numbers(tmp_path) == undisturbed
    assert sum(result["resumed"] for result in results(tmp_path).values()) > 0


def test_stopped_sweep_saves_its_runs_and_goes_on(undisturbed, tmp_path):
    grid = write_grid(tmp_path, **ONE)
    process = begin(grid, tmp_path)
    wait_for(lambda: progress(tmp_path))
    process.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=900)
    assert process.returncode == 128 + signal.SIGTERM
    assert stdout.count("Stopping: the runs save their checkpoints") == 1
    assert stderr.strip() == ("error: Interrupted; the same command goes on where the runs were "
                              "stopped.")
    assert not workers(tmp_path)
    assert len(list(tmp_path.glob("results/sweep/checkpoints/*_paused-*.pt"))) == 1
    again = sweep(grid, tmp_path)
    assert again.returncode == 0, again.stderr
    key, numbers_now = next(iter(numbers(tmp_path).items()))
    assert numbers_now == undisturbed[key]
    assert results(tmp_path)[key]["resumed"] == 1


def test_run_of_a_killed_sweep_goes_on_and_the_next_sweep_waits_for_it(undisturbed, tmp_path):
    grid = write_grid(tmp_path, **ONE)
    first = begin(grid, tmp_path)
    wait_for(lambda: progress(tmp_path))
    first.kill()
    first.communicate()
    assert len(workers(tmp_path)) == 1, "the run outlives its sweep"
    second = sweep(grid, tmp_path)
    assert second.returncode == 0, second.stderr
    assert "1 of 1 runs finished (0 now), 0 failed." in second.stdout
    key, numbers_now = next(iter(numbers(tmp_path).items()))
    assert numbers_now == undisturbed[key]
    assert results(tmp_path)[key]["resumed"] == 0
    assert not list(tmp_path.glob("results/sweep/checkpoints/*.pt")), "cleared up"


def test_two_sweeps_share_the_work(tmp_path):
    grid = write_grid(tmp_path, dataset="seq-digits", model="er", buffer_size=50, n_epochs=1,
                      seed=[0, 1])
    both = [begin(grid, tmp_path, "--jobs", 1) for _ in range(2)]
    said = [process.communicate(timeout=900) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert all("2 of 2 runs finished" in stdout for stdout, _ in said)
    assert len(results(tmp_path)) == len(list(tmp_path.glob("results/runs/*/*/*"))) == 2


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a tiny disk; without the right to mount one, a limit on the size of files."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)],
                             capture_output=True).returncode == 0 if os.geteuid() == 0 else False
    limit = None if mounted else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    yield folder, limit
    if mounted:
        subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_is_one_sentence_a_run(small_disk, tmp_path):
    folder, limit = small_disk
    grid = write_grid(tmp_path, model="er", dataset="seq-digits", n_epochs=1, buffer_size=200,
                      seed=0)
    process = sweep_cold(grid, folder, preexec_fn=limit)
    assert process.returncode == 1, process.stdout
    assert "0 of 1 runs finished (0 now), 1 failed." in process.stdout
    line = process.stderr.strip()
    assert "\n" not in line and "Traceback" not in line
    assert "full" in line or "Cannot write" in line


def test_wrong_key_stops_before_anything_starts(tmp_path):
    grid = write_grid(tmp_path, model="sgd", dataset="seq-digits", n_epoch=[1, 2])
    process = sweep(grid, tmp_path / "data")
    assert process.returncode == 2
    assert process.stderr.strip() == ("error: grid.yaml: `n_epoch` is no argument of sgd on "
                                      "seq-digits; did you mean `n_epochs`?")
    assert not (tmp_path / "data").exists()
