"""Runs to compact results, results to tables."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm_python

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "utils" / "collect.py"


def run(*words):
    return warm_python.run([sys.executable, SCRIPT, *words])


def fake_run(folder, seed, accuracy, broken=False):
    path = folder / "runs" / "perm-mnist" / "er" / f"run{seed}"
    path.mkdir(parents=True)
    command = (f"python mammoth/main.py --model er --dataset perm-mnist --buffer_size 200 --seed "
               f"{seed} --base_path /some/where --results_path /else --resume --non_verbose 1")
    (path / "args.json").write_text(json.dumps(
        {"command": command, "args": {"kernels": "compiled"}}))
    result = {"model": "er", "dataset": "perm-mnist", "setting": "domain-il", "buffer_size": 200,
              "seed": seed, "accuracy": {"domain-il": accuracy},
              "accuracy_matrix": {"domain-il": [[90.0], [accuracy, 95.0]]},
              "transfer": {"backward_transfer": {"domain-il": -10.0}}, "seconds": 50.0,
              "versions": {"python": "3", "torch": "2", "threads": "1", "cores": "2"}}
    (path / "result.json").write_text("{" if broken else json.dumps(result))


def test_collects_finished_runs_without_machine_folders_and_names_broken_ones(tmp_path):
    for seed, accuracy in ((0, 70.0), (1, 74.0)):
        fake_run(tmp_path / "in", seed, accuracy)
    fake_run(tmp_path / "in", 2, 0.0, broken=True)
    out = tmp_path / "out" / "few.json"
    done = run(tmp_path / "in", "--out", out)
    assert done.returncode == 0 and "2 runs" in done.stdout
    assert "left out: perm-mnist/er/run2 (" in done.stderr
    runs = json.loads(out.read_text())
    assert [r["seed"] for r in runs] == [0, 1]
    assert runs[0]["command"] == ("python mammoth/main.py --model er --dataset perm-mnist "
                                  "--buffer_size 200 --seed 0 --base_path DATA")
    assert runs[0]["versions"] == {"python": "3", "torch": "2", "threads": "1", "cores": "2",
                                   "kernels": "compiled"}
    table = run("--table", out).stdout.splitlines()
    assert len({len(line) for line in table}) == 1
    cells = [cell.strip() for cell in table[2].split("|")[1:-1]]
    assert cells == ["perm-mnist", "200", "er", "72.00 ± 2.83", "72.37 ± 0.87", "-10.00 ± 0.00",
                     "-22.54", "50", "2"]


@pytest.mark.parametrize("add", [(), ("--add",)])
def test_folder_without_runs_leaves_the_file_as_it_is(add, tmp_path):
    out = tmp_path / "few.json"
    out.write_text("[]")
    fake_run(tmp_path / "in", 0, 0.0, broken=True)
    for source in (tmp_path / "nowhere", tmp_path / "in"):
        done = run(source, "--out", out, *add)
        assert done.returncode == 2 and "There is no finished run below" in done.stderr
        assert "Traceback" not in done.stderr and out.read_text() == "[]"


def test_damaged_file_is_one_sentence_and_stays(tmp_path):
    fake_run(tmp_path / "in", 0, 70.0)
    out = tmp_path / "few.json"
    out.write_text("[{")
    for words in ((tmp_path / "in", "--out", out, "--add"), ("--table", out)):
        done = run(*words)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {out} is missing or damaged")
        assert len(done.stderr.splitlines()) == 1 and out.read_text() == "[{"


def test_full_disk_leaves_the_old_file(tmp_path):
    for seed in range(3):
        fake_run(tmp_path / "in", seed, 70.0)
    out = tmp_path / "few.json"
    assert run(tmp_path / "in", "--out", out).returncode == 0
    before = out.read_bytes()
    fake_run(tmp_path / "in", 3, 71.0)
    words = [sys.executable, str(SCRIPT), str(tmp_path / "in"), "--out", str(out), "--add"]
    done = subprocess.run(  # the signal ignored, a write beyond the limit is an error
        ["bash", "-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "bash", *words],
        capture_output=True, text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert len(before) > 1024, "the limit is in the way"
    # The place is tried first, so that it is refused as a place.
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert out.read_bytes() == before


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"{}", b"[]", b"3"])
def test_result_of_any_damage_is_left_out_by_name(content, tmp_path):
    for seed in range(2):
        fake_run(tmp_path / "in", seed, 70.0)
    (tmp_path / "in" / "runs" / "perm-mnist" / "er" / "run1" / "result.json").write_bytes(content)
    done = run(tmp_path / "in", "--out", tmp_path / "few.json")
    assert done.returncode == 0 and "1 runs in" in done.stdout
    assert done.stderr.startswith("left out: perm-mnist/er/run1 (")


def test_adding_keeps_what_is_there_and_replaces_the_same_command(tmp_path):
    out = tmp_path / "few.json"
    older = {"model": "er", "dataset": "perm-mnist", "buffer_size": 500, "seed": 0,
             "accuracy": {"domain-il": 80.0},
             "command": "python mammoth/main.py --model er --dataset perm-mnist --buffer_size 500"}
    out.write_text(json.dumps([older]))  # as it was before records kept their settings
    for folder, seeds in (("first", {0: 70.0, 1: 71.0}), ("second", {1: 75.0, 2: 72.0})):
        for seed, accuracy in seeds.items():
            fake_run(tmp_path / folder, seed, accuracy)
        done = run(tmp_path / folder, "--out", out, "--add")
    assert "4 runs in" in done.stdout and "2 of them collected now" in done.stdout
    assert [(r["seed"], r["accuracy"]["domain-il"]) for r in json.loads(out.read_text())] == [
        (0, 70.0), (1, 75.0), (2, 72.0), (0, 80.0)]


@pytest.mark.parametrize("words", [(), ("--table", "nowhere.json")])
def test_mistakes_are_told(words):
    done = run(*words)
    assert done.returncode != 0 and "error" in done.stderr and "Traceback" not in done.stderr


def test_committed_results_name_their_command_and_no_machine():
    files = list((ROOT / "results").glob("*.json"))
    for path in files:
        for entry in json.loads(path.read_text()):
            assert f"--model {entry['model']}" in entry["command"].replace("-", "_").replace(
                "__", "--")
            assert f"--seed {entry['seed']}" in entry["command"]
            assert "/" not in entry["command"].replace("mammoth/main.py", "")


@pytest.mark.parametrize("words, shown", [("--joint 1", "-"), ("--stop_after 1", "-"),
                                          ("--stop_after 2", "-3.00")])
def test_single_task_has_no_backward_transfer(words, shown, tmp_path):
    record = {"model": "npcl", "dataset": "perm-mnist", "setting": "domain-il", "seed": 0,
              "buffer_size": 200, "accuracy": {"domain-il": 94.0}, "backward_transfer": -3.0,
              "seconds": 5.0, "command": "python mammoth/main.py --model npcl --dataset perm-mnist "
                                         f"--buffer_size 200 {words} --seed 0"}
    (tmp_path / "one.json").write_text(json.dumps([record]))
    row = run("--table", tmp_path / "one.json").stdout.splitlines()[2]
    assert [cell.strip() for cell in row.split("|")][6] == shown
