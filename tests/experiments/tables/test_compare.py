"""The command that puts methods side by side."""
import os
import sys
from pathlib import Path

import pytest
import warm_python

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "utils" / "compare.py"


def run(*words):
    return warm_python.run([sys.executable, SCRIPT, *words],
                           env={**os.environ, "OMP_NUM_THREADS": "1"})


def table_of(process):
    """The printed table: from its header line to the next empty one."""
    lines = process.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("method "))
    return lines[start:lines.index("", start)]


def test_table_of_two_methods_and_second_call_repeats_nothing(tmp_path):
    def words(*models):
        return ("--models", *models, "--dataset", "seq-digits", "--buffer_size", 50, "--seeds", 1,
                "--base_path", tmp_path, "--checkpoint_path", tmp_path / "c", "--n_epochs", 2,
                "--report")

    first = run(*words("sgd", "er"))
    assert first.returncode == 0, first.stderr
    assert "1 seed, 1 thread per run" in first.stdout
    table = table_of(first)
    assert len({len(line) for line in table}) == 1, "aligned"
    assert [line.split()[0] for line in table[2:4]] == ["sgd", "er"]
    assert float(table[3].split()[1]) > float(table[2].split()[1]) + 20
    written = tmp_path / "results" / "comparisons" / "seq-digits-50-sgd-er-n_epochs-2"
    for suffix in (".md", ".csv", ".tex"):
        text = written.with_name(written.name + suffix).read_text()
        assert table[3].split()[1] in text or suffix == ".csv"
        assert "sgd" in text and "BWT" in text
    report = written.with_name(written.name + ".html")
    assert f"Report of 2 runs, {report.stat().st_size / 1e6:.2f} MB: {report}" in first.stdout
    again = run(*words("sgd", "er", "sgd"), "--cpus", 2)
    assert table_of(again) == table
    assert "1 seed, 1 thread per run" in again.stdout, "no run was done with two"
    assert len(list(tmp_path.glob("results/runs/*/*/*"))) == 2


def test_failed_run_is_reported_and_the_others_go_on(tmp_path):
    done = run("--models", "sgd", "icarl", "--dataset", "perm-digits", "--seeds", 1, "--n_epochs",
               1, "--base_path", tmp_path, "--checkpoint_path", tmp_path / "c", "--lr", "0.1")
    assert done.returncode == 1
    assert "icarl works in" in done.stderr and "sgd seed 0: domain-il" in done.stdout
    said = done.stdout.splitlines()
    assert "[1/2] icarl seed 0: cannot run: " in said[1] and "icarl works in" in said[1]


def test_both_spellings_of_a_method_are_one_row(tmp_path):
    done = run("--models", "er-ace", "er_ace", "--dataset", "seq-digits", "--seeds", 1,
               "--debug_mode", 1, "--base_path", tmp_path)
    assert done.returncode == 0 and len(table_of(done)) == 3


@pytest.mark.parametrize("words, said", [
    (("--dataset", "nosuch"), "There is no dataset `nosuch`"),
    (("--dataset", "seq-digits", "--n_epoch", "1"), "did you mean `n_epochs`?")])
def test_argument_that_is_wrong_for_all_is_one_sentence(words, said, tmp_path):
    done = run("--models", "er", "sgd", *words, "--base_path", tmp_path)
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_unknown_method_is_one_sentence(tmp_path):
    done = run("--models", "errr", "--dataset", "seq-digits")
    assert done.returncode == 2 and "did you mean `er`" in done.stderr
    assert "Traceback" not in done.stderr
