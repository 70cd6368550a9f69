"""Parts of the runner by themselves: locks, estimates, what is shown."""
import io
import json
import os
import re
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import warm_python
from sweep_process import ROOT

from engine.errors import RunError
from engine.progress_file import ProgressFile
from experiments.run import Run
from experiments.sweeps.claims import Claim
from experiments.sweeps.display import Display, duration, ending_line, running_line
from experiments.sweeps.estimate import estimate, expected_time, measured_runs
from experiments.sweeps.execution import (
    Outcome,
    RunPolicy,
    done_before,
    forget_checkpoints,
    look_up,
    progress_file,
    read_tail,
)
from experiments.sweeps.grid import plan
from experiments.sweeps.specification import Folders, RunSpec, check
from utils.checkpoints import Position

pytestmark = pytest.mark.long


@pytest.fixture
def spec(tmp_path):
    found = RunSpec({"model": "er", "dataset": "perm-mnist", "buffer_size": 200, "seed": 5},
                    Folders.of(str(tmp_path), "results/"), label="er seed 5")
    check(found, "test")
    return found


def test_lock_has_one_owner_and_lives_as_long_as_a_child_that_got_it(tmp_path):
    path = tmp_path / "locks" / "a.lock"
    claim = Claim.take(path)
    assert claim is not None and Claim.take(path) is None
    child = subprocess.Popen(["sleep", "30"], pass_fds=[claim.descriptor])
    claim.note(child.pid)
    claim.release()
    assert Claim.take(path) is None, "the child has it still"
    assert path.read_text().startswith(f"process {child.pid} on ")
    child.kill()
    child.wait()
    again = Claim.take(path)
    assert again is not None
    again.release()


def test_lock_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="--results_path"):
        Claim.take(tmp_path / "file" / "a.lock")


def test_estimate_prefers_the_same_run_then_its_relatives_then_a_guess(spec):
    same = {"model": "er", "dataset": "perm-mnist", "buffer_size": "200"}
    other = {**same, "buffer_size": "500"}
    short = {**same, "n_epochs": "9"}
    start = 1.0
    assert estimate(spec, [(same, 10.0), (same, 20.0), (other, 99.0)]).seconds == start + 15.0
    assert (estimate(spec, [(other, 99.0), (short, 1.0)]).seconds,
            estimate(spec, [(other, 99.0)]).source) == (start + 99.0, "similar")
    assert estimate(spec, [(same, 10.0)], [(same, 90.0)]).seconds == start + 10.0
    assert estimate(spec, [(other, 10.0)], [(same, 90.0)]).seconds == start + 90.0
    guess = estimate(spec, [(short, 1.0)])
    assert guess.source == "guess" and 20 < guess.seconds < 600
    seconds, words = expected_time([spec], 2)
    assert list(seconds) == [spec.key] and seconds[spec.key] > 0
    assert words.startswith("about ") and "at 2 a time" in words
    done = Outcome("finished", run_of(1000.0), new=False)
    assert expected_time([spec], 1, [(spec, done)])[0] == {spec.key: 1001.0}, "this machine's count"


def test_guess_for_resnet18_is_near_what_was_measured(tmp_path):
    """A step of ER on S-CIFAR-10 takes 1.03 s and NPCL's 1.08 of it: 24 hours for the protocol."""
    spec = RunSpec({"model": "npcl", "dataset": "seq-cifar10", "buffer_size": 200, "seed": 0},
                   Folders.of(str(tmp_path), "results/"))
    check(spec, "test")
    assert 20 < estimate(spec, []).seconds / 3600 < 30


@pytest.mark.parametrize("model", ["er", "npcl"])
def test_guess_for_a_short_run_is_seconds(tmp_path, model):
    """Measured: 0.2 s and 1.6 s, and half a second around them; it said 9 and 11 s."""
    spec = RunSpec({"model": model, "dataset": "seq-digits", "buffer_size": 200, "seed": 0},
                   Folders.of(str(tmp_path), "results/"))
    check(spec, "test")
    assert 0.5 < estimate(spec, []).seconds < 4


@pytest.mark.parametrize("model, least, most", [("er", 3, 60), ("npcl", 15, 120)])
def test_runs_on_features_are_not_taken_for_days_of_resnet18(tmp_path, model, least, most):
    """Measured: ER 5 s, NPCL 21 s."""
    plain = {"model": model, "dataset": "seq-cifar100", "buffer_size": "500"}
    spec = RunSpec({**plain, "features": "efficientnet-lite0", "seed": 0},
                   Folders.of(str(tmp_path), "results/"))
    spec.args, spec.n_tasks = SimpleNamespace(backbone="identity", n_epochs=1), 10
    found = estimate(spec, [(plain, 300_000.0)])
    assert found.source == "guess" and least < found.seconds < most


def test_measured_runs_are_read_from_the_committed_results(tmp_path):
    found = measured_runs()
    assert ({"model": "er", "dataset": "perm-mnist", "buffer_size": "200"}) in [g for g, _ in found]
    (tmp_path / "broken.json").write_text("[")
    assert measured_runs(tmp_path) == []


@pytest.mark.parametrize("seconds, text", [(4, "4 s"), (100, "2 min"), (7000, "1 h 57 min"),
                                           (400000, "4 d 15 h")])
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_progress_of_a_run_is_shown(spec):
    active = SimpleNamespace(spec=spec, started=time.time() - 5)
    assert "starting" in running_line(active, 100)
    noted = ProgressFile(progress_file(spec), every=0)
    noted.path.parent.mkdir(parents=True)
    noted.accuracy = 81.25
    noted.step(Position(task=10, epoch=0, batch=7))
    line = running_line(active, 120)
    assert "er seed 5" in line and "task 11/20 step 7  81.2 %" in line
    assert "##########          ]" in line and len(running_line(active, 60)) == 60
    spec.args.n_epochs = 2
    spec.label = "npcl_plus perm-mnist buffer_size 500 head_inference mixture seed 5"
    narrow = running_line(active, 79)
    assert "npcl_plus perm" in narrow and "mixture seed 5 " in narrow, "both ends of the label"
    assert "[####    ]  task 11/20 epoch 1/2  81.2 %  5 s" in narrow and len(narrow) == 79
    noted.path = noted.path / "not a folder"
    noted.step(Position(task=11))
    assert json.loads(progress_file(spec).read_text())["task"] == 10, "trouble is not the run's"


def named(label):
    return SimpleNamespace(key=label, label=label)


def run_of(seconds):
    return Run("er", "perm-mnist", "class-il", {"class-il": 81.2, "task-il": 97.0}, "",
               seconds=seconds)


def write_result(folder, content=None):
    """A finished run's folder, or one whose result holds something else."""
    folder.mkdir(parents=True)
    result = {"model": "er", "dataset": "perm-mnist", "setting": "class-il", "seconds": 1.0,
              "accuracy": {"class-il": 81.2}, "accuracy_matrix": {"class-il": [[81.2]]}}
    (folder / "result.json").write_bytes(json.dumps(result).encode() if content is None
                                         else content)
    (folder / "args.json").write_text(json.dumps({"args": {}, "command": "python main.py"}))


def test_plain_display_has_a_line_a_run_and_an_estimate(spec):
    stream = io.StringIO()
    expected = {"er seed 0": 20.0, "er seed 1": 20.0, "npcl seed 0": 30.0, spec.key: 50.0}
    display = Display(4, 2, expected, stream, every=0)
    display.update([])
    display.ending(named("er seed 0"), Outcome("finished", run_of(29.0), seconds=30))
    display.ending(named("er seed 1"), Outcome("failed", words="x"))
    display.update([SimpleNamespace(spec=spec, started=0)], waiting=1)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "0/4 ended, 0 running, about 60 s left"
    assert lines[1] == "[1/4] er seed 0: class-il 81.20, task-il 97.00 (30 s)"
    assert lines[2] == "[2/4] er seed 1: failed"
    # 80 s were expected for two jobs, the longer run takes 50, all take half as long again
    assert lines[3] == ("2/4 ended, 1 running, 1 failed, 1 in another process, about 75 s left")
    assert "(finished before)" in ending_line(1, 1, "a",
                                              Outcome("finished", run_of(1.0), new=False))


def test_short_last_part_of_a_resumed_run_does_not_shorten_the_others():
    display = Display(2, 1, {"anp": 1000.0, "npcl": 1000.0}, io.StringIO())
    display.ending(named("anp"), Outcome("finished", run_of(1100.0), seconds=26))
    assert display.remaining([]) == pytest.approx(1100.0)


def test_pace_of_a_run_that_goes_on_counts_from_where_it_was_first_seen(spec):
    display = Display(1, 1, {spec.key: 1000.0}, io.StringIO(), every=0)
    noted = ProgressFile(progress_file(spec), every=0)
    noted.path.parent.mkdir(parents=True)
    active = [SimpleNamespace(spec=spec, started=0)]
    for task, now in ((10, 0.0), (11, 150.0), (11, 190.0)):  # resumed at half; 50 s were expected
        noted.step(Position(task=task))
        display._note_progress(active, now)
    assert display.remaining(active) == pytest.approx(3 * 450.0)


def test_cheap_runs_that_end_first_do_not_hide_a_dear_one():
    expected = {"sgd": 30.0, "er": 40.0, "npcl": 350.0}
    display = Display(3, 2, expected, io.StringIO())
    for name in ("sgd", "er"):
        took = expected[name]
        display.ending(named(name), Outcome("finished", run_of(took), seconds=took))
    assert display.remaining([]) == pytest.approx(350.0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_terminal_display_redraws_its_block(spec):
    stream = Terminal()
    display = Display(2, 1, {}, stream)
    display._last = 0
    display.update([SimpleNamespace(spec=spec, started=time.time())])
    display.ending(spec, Outcome("stopped"))
    assert "\x1b[2F\x1b[J[1/2] er seed 5: stopped, checkpoint kept" in stream.getvalue()


def test_block_is_no_taller_than_the_terminal(spec, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "8")
    stream = Terminal()
    display = Display(12, 12, {}, stream)
    display._last = 0
    display.update([SimpleNamespace(spec=spec, started=time.time())] * 12)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 7 and lines[5] == "... and 7 more" and max(map(len, lines)) < 80


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"{}", b"[]", b"3", b"{"])
def test_damaged_result_fails_its_run_in_one_sentence(content, spec):
    folder = spec.folders.results / "runs" / "perm-mnist" / "er" / f"x_{spec.key}"
    write_result(folder, content)
    outcome = look_up(spec)
    assert outcome.state == "failed" and "cannot be read; remove it" in outcome.words


@pytest.mark.parametrize("keep", [False, True])
def test_run_that_outlived_its_sweep_is_cleared_up_by_the_next(keep, spec):
    folder = spec.folders.results / "runs" / "perm-mnist" / "er" / f"x_{spec.key}"
    note, checkpoint = progress_file(spec), spec.folders.checkpoints / f"er_{spec.key}_3.pt"
    write_result(folder)
    for path in (note, checkpoint):
        path.parent.mkdir(parents=True)
        path.touch()
    assert done_before(spec, RunPolicy(keep_checkpoints=keep)).state == "finished"
    assert checkpoint.exists() == keep and not note.exists()
    checkpoint.touch()
    done_before(spec, RunPolicy())
    assert checkpoint.exists(), "without a note it is none of ours"


def test_checkpoints_of_a_finished_run_go_unless_asked_for(spec):
    spec.folders.checkpoints.mkdir(parents=True)
    mine = spec.folders.checkpoints / f"er_perm-mnist_{spec.key}_3.pt"
    other = spec.folders.checkpoints / "er_perm-mnist_00000000_3.pt"
    for path in (mine, other):
        path.touch()
    spec.given["savecheck"] = "task"
    forget_checkpoints(spec)
    assert mine.exists()
    del spec.given["savecheck"]
    forget_checkpoints(spec)
    assert not mine.exists() and other.exists()


def test_last_line_of_a_log(tmp_path):
    (tmp_path / "log").write_bytes(b"x" * 9000 + b"\nlast \xff line\n\n")
    assert read_tail(tmp_path / "log")[-1].startswith("last") and read_tail(tmp_path / "no") == []


@pytest.mark.parametrize("preset", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_run_of_the_presets_is_possible(preset, tmp_path):
    # A search has seeds of its own.
    first = {"features-search": 100, "search-digits": 10}.get(preset.stem, 0)
    specs = plan(preset, Folders.of(str(tmp_path), "results/"), only=f"*seed {first}")
    assert len(specs) >= {"extensions": 16, "release": 4, "cifar10-small": 11}.get(preset.stem, 40)
    if preset.stem == "search":
        assert all(spec.args.validation == 10 for spec in specs)


def tables_job(folder, *words):
    """`run_all.sh tables` on embedded data, one run of one epoch."""
    process = warm_python.run(
        [sys.executable, ROOT / "utils" / "reproduce.py", *words, "--base_path", folder,
         "--dataset", "seq-digits", "--limit", "1", "--n_epochs", "1"],
        env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_tables_job_runs_a_preset_and_writes_tables(tmp_path):
    said = tables_job(tmp_path, "--scale", "cpu", "--only", "few-shot")
    assert "1 to do (of 24; --limit): about" in said.splitlines()[1]
    text = (tmp_path / "results" / "tables" / "tables.md").read_text()
    assert "**Few-shot replay, seq-digits (reduced protocol: n_epochs 1)**" in text


def test_search_job_runs_the_preset_on_a_validation_split(tmp_path):
    tables_job(tmp_path, "--validation", "20", "--only", "perm-mnist delta")
    text = (tmp_path / "results" / "tables" / "search.md").read_text()
    assert "**npcl on seq-digits, buffer 200, n_epochs 1, validation 20 % of the" in text
    assert re.search(r"\| delta +\| +0 \| +\*\*\d+\.\d\d \(1\)\*\* \|", text), text
