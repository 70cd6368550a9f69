"""A run's files when processes are killed, compete, or cannot write."""
import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from runs import MAIN, experiment

import engine.run_folder
import engine.summary
import utils.loggers
from engine import files, locks
from engine.errors import RunError, UsageError
from main import parse_args, run

SGD = ("--model", "sgd", "--dataset", "seq-digits", "--n_epochs", 1, "--stop_after", 1)


def words(folder, *more):
    return [*map(str, (*SGD, "--seed", 1, "--non_verbose", 1, "--base_path", folder / "data",
                       "--checkpoint_path", folder / "checkpoints", *more))]


def lines_of(folder):
    """Every line of every logs.pyd, read."""
    return {path.parts[-4]: [ast.literal_eval(line) for line in path.read_text().splitlines()]
            for path in (folder / "data" / "results").glob("*/*/*/logs.pyd")}


class Killed(BaseException):
    """What stands for SIGKILL in this process."""


@pytest.mark.parametrize("point", range(6))
def test_each_finished_run_stands_in_the_logs_once_whatever_was_killed_when(
        tmp_path, monkeypatch, point):
    calls = []

    def killing(function):
        def wrapped(*args, **kwargs):
            for moment in ("before", "after"):
                calls.append(moment)
                if len(calls) == point + 1:
                    raise Killed
                if moment == "before":
                    function(*args, **kwargs)
        return wrapped

    monkeypatch.setattr(utils.loggers, "append_line", killing(files.append_line))
    monkeypatch.setattr(engine.run_folder.RunFolder, "finish",
                        killing(engine.run_folder.RunFolder.finish))
    with pytest.raises(Killed):
        run(parse_args(words(tmp_path, "--resume")))
    monkeypatch.undo()
    result = run(parse_args(words(tmp_path, "--resume")))
    assert run(parse_args(words(tmp_path, "--resume"))) == json.loads(json.dumps(result))
    found = lines_of(tmp_path)
    assert {setting: len(lines) for setting, lines in found.items()} == {
        "class-il": 1, "task-il": 1}
    assert found["class-il"][0]["accmean_task1"] == result["accuracy"]["class-il"]
    assert len(list(tmp_path.rglob("metrics.jsonl"))) == 1
    assert len(next(tmp_path.rglob("metrics.jsonl")).read_text().splitlines()) == 1


def test_half_a_line_of_a_killed_process_is_removed_and_a_whole_one_completed(tmp_path):
    path = tmp_path / "logs.pyd"
    path.write_text("{'a': 1}\n{'b': 2, 'c'")
    files.append_line(path, "{'d': 3}")
    assert path.read_text() == "{'a': 1}\n{'d': 3}\n"
    path.write_text("{'a': 1}\n{'b': 2}")
    files.append_line(path, "{'d': 3}")
    assert path.read_text() == "{'a': 1}\n{'b': 2}\n{'d': 3}\n"
    files.append_line(path, "{'d': 4}", unless="'d': 3")
    assert path.read_text().count("'d'") == 1


def test_short_writes_are_continued_and_failed_ones_taken_back(tmp_path, monkeypatch):
    path = tmp_path / "logs.pyd"
    files.append_line(path, "first")
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, content, at: write(fd, content[:3], at))
    files.append_line(path, "'second line'")
    assert path.read_text() == "first\n'second line'\n"

    def full(fd, content, at):
        if at > 30:
            raise OSError(28, "No space left on device")
        return write(fd, content[:5], at)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(RunError, match="No space left"):
        files.append_line(path, "a line that does not fit")
    assert path.read_text() == "first\n'second line'\n"


def test_one_process_at_a_time_resumes_a_run(tmp_path):
    args = parse_args(words(tmp_path, "--resume"))
    with engine.run_folder.only_process(args, args.conf_key), \
            pytest.raises(UsageError, match=rf"made already \(process {os.getpid()} on"):
        run(args)
    run(parse_args(words(tmp_path, "--resume")))
    assert not list(tmp_path.rglob("*lock*"))


def test_a_live_runs_folder_is_not_entered_by_another_process(tmp_path):
    first = experiment(tmp_path, *SGD[:4], "--n_epochs", 2, "--stop_after", 1, "--savecheck",
                       "epoch")
    seen = []

    def after_epoch(task, epoch):
        if epoch == 1:
            path = next((tmp_path / "checkpoints").glob("*.pt"))
            with pytest.raises(UsageError, match="made already"):
                experiment(tmp_path, "--resume", path).run()
            seen.append(path)

    first.extensions.after_epoch = after_epoch
    first.run()
    assert seen
    assert len(next(tmp_path.rglob("metrics.jsonl")).read_text().splitlines()) == 1


def test_a_killed_owner_leaves_no_lock(tmp_path):
    script = ("import os, sys; from pathlib import Path; from engine.locks import Lock; "
              f"Lock.take(Path({str(tmp_path / 'x.lock')!r})); os.kill(os.getpid(), 9)")
    done = subprocess.run([sys.executable, "-c", script], cwd=MAIN.parent)
    assert done.returncode == -signal.SIGKILL
    lock = locks.Lock.take(tmp_path / "x.lock")
    assert lock is not None and locks.Lock.take(tmp_path / "x.lock") is None
    lock.release()
    assert os.listdir(tmp_path) == []


def test_leftovers_are_cleared_by_the_next_run_and_files_in_use_stay(tmp_path):
    below = tmp_path / "data" / "results" / "runs" / "seq-digits" / "sgd"
    (below / "dead_12345678").mkdir(parents=True)
    (below / "dead_12345678" / ".args.json.abcd1234").write_text("half")
    (below / "dead_12345678" / ".lock").write_text("")
    (below / "empty_12345678").mkdir()
    (below / "full_12345678").mkdir()
    (below / "full_12345678" / "args.json").write_text("{}")
    (below / ".12345678.lock").write_text("")
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    (checkpoints / ".er_1.pt.abcd1234").write_bytes(b"half")
    (checkpoints / ".mine").write_bytes(b"a file of somebody else")
    with (checkpoints / ".er_2.pt.abcd1234").open("wb") as busy:
        assert locks.lock_file(busy.fileno())
        experiment(tmp_path, *SGD, "--savecheck", "last").run()
        assert (checkpoints / ".er_2.pt.abcd1234").exists()
    assert {path.name for path in checkpoints.glob(".*")} == {".er_2.pt.abcd1234", ".mine"}
    assert {path.name.split("_")[0] for path in below.iterdir()} - {"full"} == {
        next(path for path in below.iterdir() if "full" not in path.name).name.split("_")[0]}
    assert not [path for path in below.rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize("blocked", ["checkpoints", "data", "data/results/class-il",
                                     "data/results/task-il/seq-digits/sgd/logs.pyd",
                                     "data/results/runs/seq-digits"])
def test_places_are_tried_before_training(tmp_path, monkeypatch, blocked):
    from models.sgd import Sgd

    trained = []
    monkeypatch.setattr(Sgd, "observe", lambda *args, **kwargs: trained.append(1) or 0.0)
    path = tmp_path / blocked
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix:
        path.mkdir()
    else:
        path.write_text("a file where a folder should be")
    with pytest.raises(UsageError, match="Cannot write .*choose another folder with --"):
        experiment(tmp_path, *SGD, "--savecheck", "last").run()
    assert not trained


def test_trying_places_leaves_nothing_behind(tmp_path):
    files.ensure_writable(tmp_path / "a" / "b", "--results_path")
    assert os.listdir(tmp_path) == []
    with pytest.raises(UsageError, match="null"):
        files.ensure_writable(Path("a\0b"), "--results_path")


@pytest.mark.parametrize("mode", [("--fitting_mode", "iters", "--n_iters", 5), ()])
def test_what_cannot_train_anything_ends_in_a_sentence(tmp_path, mode):
    with pytest.raises(UsageError):
        experiment(tmp_path, *SGD, *mode, "--batch_size", 100000, "--drop_last", 1).run()


def test_runs_of_one_process_have_folders_of_their_own(tmp_path):
    for _ in range(3):
        experiment(tmp_path, *SGD, "--debug_mode", 1).run()
    assert len(list(tmp_path.rglob("result.json"))) == 3
    counts = [len(path.read_text().splitlines()) for path in tmp_path.rglob("metrics.jsonl")]
    assert counts == [1, 1, 1]
