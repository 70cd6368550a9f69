"""However a command ends: one sentence, an exit code, never a traceback on the screen."""
import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from runs import command, environment

import main
from engine.errors import RunError, UsageError, keep_tracebacks_in, sentence_and_code

pytestmark = pytest.mark.long

WORDS = ["--model", "sgd", "--dataset", "seq-digits", "--seed", "0", "--non_verbose", "1"]


def ended(monkeypatch, capsys, tmp_path, *words):
    """Exit code and the lines on stderr of a command run in this process."""
    monkeypatch.setattr(sys, "argv", ["main.py", *WORDS, "--base_path", str(tmp_path), *words])
    code = main.cli()
    return code, capsys.readouterr().err.strip().splitlines()


@pytest.mark.parametrize("debugging", [(), ("--debug_mode", "1")])
@pytest.mark.parametrize(("error", "code", "sentence"), [
    (UsageError("Wrong."), 2, "error: Wrong."),
    (RunError("Failed\nbadly."), 1, "error: Failed badly."),
    (KeyboardInterrupt(), 130, "error: Interrupted at once"),
    (MemoryError(), 1, "does not fit into this machine's memory"),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), 1, "does not fit"),
    (RuntimeError("Storage size calculation overflowed with sizes=[9, 9]"), 1, "does not fit"),
    (ZeroDivisionError("division by zero"), 1, "nobody foresaw (ZeroDivisionError: division"),
    (OSError(errno.ENOSPC, "No space left on device", "x.json"), 1, "No space left on device: x"),
])
def test_whatever_happens_is_one_sentence(monkeypatch, capsys, tmp_path, error, code, sentence,
                                          debugging):
    def fail(*args):
        raise error

    monkeypatch.setattr("utils.training.Experiment._fit_epoch", fail)
    found, lines = ended(monkeypatch, capsys, tmp_path, *debugging)
    assert found == code and sentence in lines[-1] and lines[-1].startswith("error: ")
    assert not any("Traceback" in line for line in lines)


def test_traceback_of_the_unforeseen_is_in_the_run_folder(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("utils.training.Experiment._fit_epoch", lambda *args: 1 / 0)
    _, lines = ended(monkeypatch, capsys, tmp_path)
    path = Path(re.search(r"The traceback is in (\S+)\.$", lines[-1]).group(1))
    assert path.parent.parent == tmp_path / "results" / "runs" / "seq-digits" / "sgd"
    assert "ZeroDivisionError" in path.read_text() and "Traceback" in path.read_text()


def test_without_a_run_folder_the_traceback_is_in_a_temporary_one(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    keep_tracebacks_in(None)
    sentence, code = sentence_and_code(KeyError("x"))
    path = Path(re.search(r"The traceback is in (\S+)\.$", sentence).group(1))
    assert code == 1 and path.is_relative_to(tmp_path) and "KeyError" in path.read_text()


@pytest.mark.parametrize("words", [("--dataset", "seq-mnist"),
                                   ("--dataset", "seq-digits", "--device", "qpu")])
def test_plain_mistakes_are_sentences_in_debug_mode_too(monkeypatch, capsys, tmp_path, words):
    monkeypatch.setattr(sys, "argv", ["main.py", "--model", "sgd", *words, "--debug_mode", "1",
                                      "--base_path", str(tmp_path)])
    assert main.cli() == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("error: ") and "Traceback" not in "".join(lines)


def test_log_level_is_checked(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("LOG_LEVEL", "foo")
    code, lines = ended(monkeypatch, capsys, tmp_path)
    assert code == 2 and "LOG_LEVEL to be one of NOTSET, DEBUG" in lines[-1]


@pytest.mark.parametrize("stream", ["closed", "full", "gone"])
def test_a_run_goes_on_without_its_standard_output(tmp_path, stream):
    if stream == "full" and not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    line = command(*WORDS, "--debug_mode", 1, "--base_path", tmp_path)
    if stream == "gone":
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(line, env=environment(), stdout=writer, stderr=writer, timeout=120)
    else:
        target = {"closed": "1>&-", "full": ">/dev/full"}[stream]
        done = subprocess.run(["sh", "-c", f'exec "$@" {target}', "sh", *line], env=environment(),
                              stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("results/runs/*/*/*/result.json"))) == 1
    assert "Traceback" not in (done.stderr or "")
