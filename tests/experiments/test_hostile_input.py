"""Damaged, hostile and enormous input: a sentence and an exit code, within bounds, every time."""
import contextlib
import io
import os
import resource
import time

import pytest
from hostile import hostile_compact, hostile_folder, hostile_grid

from experiments.commands import bench, collect, compare, report, sweep, tables

COMPARE = ["--models", "sgd", "--dataset", "seq-digits", "--base_path", "{folder}"]
SECONDS = 20  # of processor time for one command; most take a tenth of one


def call(main, *words):
    """A command in this process.

    Returns:
        (exit code, standard output, standard error)
    """
    out, err = io.StringIO(), io.StringIO()
    began = time.process_time()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(word) for word in words])
        except SystemExit as stopped:
            code = stopped.code
    assert time.process_time() - began < SECONDS
    said = err.getvalue()
    assert code in (0, 1, 2), said
    assert "Traceback" not in said and all(line.strip() for line in said.splitlines())
    assert (code == 0) or said.splitlines()[-1].startswith(("error: ", "failed: ")) or \
        "error: " in said.splitlines()[-1], said
    out.getvalue().encode()
    said.encode()
    return code, out.getvalue(), said


def try_folder(folder, seed):
    hostile_folder(folder, seed)
    code, _, said = call(report.main, folder, "--out", folder / "page.html")
    assert code == 0, said
    (folder / "page.html").read_text(encoding="utf-8")
    code, _, said = call(collect.main, folder, "--out", folder / "compact.json")
    assert code == 0, said
    call(collect.main, "--table", folder / "compact.json")


def try_compact(folder, seed):
    hostile_compact(folder / "records.json", seed)
    call(tables.main, "--results", folder, "--out", folder / "tables.md")
    call(collect.main, "--table", folder / "records.json")


def try_grid(folder, seed):
    hostile_grid(folder / "grid.yaml", seed)
    code, _, said = call(sweep.main, folder / "grid.yaml", "--dry_run", "--base_path", folder)
    if code == 2:
        assert len(said.splitlines()) == 1, said


KINDS = {"folder": try_folder, "compact": try_compact, "grid": try_grid}


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_input_is_told_and_left_out(kind, tmp_path):
    count = {"folder": 40, "compact": 40, "grid": 66}[kind]
    for seed in range(count):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            KINDS[kind](folder, seed)
        except AssertionError as error:
            raise AssertionError(f"{kind} {seed}: {error}") from error
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 << 20, "kilobytes"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_much_hostile_input_is_told_and_left_out(kind, tmp_path):
    for seed in range(1000, 1500):
        folder = tmp_path / str(seed)
        folder.mkdir()
        KINDS[kind](folder, seed)


def test_grid_of_ten_million_runs_is_refused_by_its_count(tmp_path):
    names = ("lr", "optim_wd", "optim_mom", "batch_size", "n_epochs", "seed", "notes")
    (tmp_path / "grid.yaml").write_text("model: sgd\ndataset: seq-digits\n" + "\n".join(
        f"{name}: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]" for name in names))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    code, _, said = call(sweep.main, tmp_path / "grid.yaml", "--base_path", tmp_path)
    assert code == 2 and time.process_time() - began < 2
    assert "asks for 10,000,000 runs, more than the 10,000" in said
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kilobytes"


@pytest.mark.parametrize("main, words", [
    (sweep.main, ["{grid}", "--limit", "-1"]), (sweep.main, ["{grid}", "--limit", "x"]),
    (sweep.main, ["{grid}", "--jobs", "0"]), (sweep.main, ["{grid}", "--cpus", "0"]),
    (sweep.main, ["{grid}", "--retries", "-1"]), (sweep.main, ["{grid}", "--only", "nothing"]),
    (sweep.main, ["nowhere.yaml"]), (sweep.main, []), (sweep.main, ["/dev/zero"]),
    (sweep.main, ["{grid}", "stray"]), (sweep.main, ["{grid}", "--launcher", "moon"]),
    (sweep.main, ["{grid}", "--mem", "-1", "--launcher", "slurm"]),
    (collect.main, []), (collect.main, ["{folder}"]),
    (collect.main, ["{folder}", "--out", "{folder}/x.json"]),
    (collect.main, ["/dev/null", "--out", "{folder}/x.json"]),
    (collect.main, ["--table", "{folder}"]), (collect.main, ["--table", "/dev/zero"]),
    (compare.main, []), (compare.main, ["--models", "er"]),
    (compare.main, [*COMPARE, "--seeds", "0"]), (compare.main, [*COMPARE, "--seeds", "1000000000"]),
    (compare.main, [*COMPARE, "--model", "er"]), (compare.main, [*COMPARE, "--seed", "3"]),
    (compare.main, [*COMPARE, "--jobs", "0"]), (compare.main, [*COMPARE, "--out", "/dev/null/x"]),
    (compare.main, [*COMPARE, "--lr", "x"]), (compare.main, [*COMPARE, "--base_path", "/dev/null"]),
    (bench.main, ["nothing"]), (bench.main, ["startup", "--repeats", "0"]),
    (bench.main, ["harness", "--steps", "-1"]),
    (bench.main, ["harness", "--base_path", "{folder}"]),
    (report.main, []), (report.main, ["{folder}"]), (report.main, ["/dev/zero"]),
    (report.main, ["{folder}", "--format", "gif"]),
    (tables.main, ["--results", "nowhere"]), (tables.main, ["--only", "nothing"]),
    (tables.main, ["--results", "{grid}"])])
def test_wrong_words_end_with_exit_code_two(main, words, tmp_path):
    (tmp_path / "grid.yaml").write_text("{model: sgd, dataset: seq-digits, seed: 0}")
    filled = [word.format(grid=tmp_path / "grid.yaml", folder=tmp_path) for word in words]
    assert call(main, *filled)[0] == 2


def test_folder_with_links_to_itself_and_deep_below_is_walked_once(tmp_path):
    from report_fixture import write_run

    write_run(tmp_path, name="whole")
    for i in range(5):
        (tmp_path / "runs" / f"again{i}").symlink_to("..")
    deep = tmp_path / "runs"
    for _ in range(30):
        deep = deep / "d"
        deep.mkdir()
    (deep / "result.json").write_text("{}")
    code, out, said = call(report.main, tmp_path)
    assert code == 0 and "1 run," in out and said == ""


def test_result_that_is_a_pipe_does_not_stop_a_sweep(tmp_path):
    (tmp_path / "grid.yaml").write_text("{model: sgd, dataset: seq-digits, seed: 0}")
    from experiments.sweeps.grid import plan
    from experiments.sweeps.specification import Folders

    (spec,) = plan(tmp_path / "grid.yaml", Folders.of(str(tmp_path), "results/"))
    folder = tmp_path / "results" / "runs" / "seq-digits" / "sgd" / f"x_{spec.key}"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "result.json")
    code, _, said = call(sweep.main, tmp_path / "grid.yaml", "--base_path", tmp_path, "--limit", 0)
    assert code == 1 and "result.json cannot be read; remove it to run again" in said
