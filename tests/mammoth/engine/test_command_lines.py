"""Generated command lines: no traceback, no hang, nothing unforeseen, exit codes 0, 1 and 2."""
import random
import shlex
import signal
import sys

import pytest
from command_lines import Sandbox, command_line

import datasets.utils.files  # noqa: F401
import main

pytestmark = pytest.mark.long

SECONDS = 90  # a case takes one or less; others may need the processor too
CASES = 320
MANY_CASES = 3000
BATCH = 40


class Hang(BaseException):
    """Not an Exception: the command must not be able to catch it."""


def ring(*_: object) -> None:
    raise Hang


@pytest.fixture()
def sandbox(tmp_path, monkeypatch):
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    found = Sandbox(folder)
    found.prepare()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys.modules["datasets.utils.files"], "_download",
                        lambda files: "there is no network")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = signal.signal(signal.SIGALRM, ring)
    yield found
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def ended(words, monkeypatch, capsys):
    """Exit code, stderr and whether the time was up."""
    monkeypatch.setattr(sys, "argv", ["main.py", *words])
    signal.alarm(SECONDS)
    try:
        code = main.cli()
    except SystemExit as end:
        code = end.code
    except Hang:
        return None, "it hangs"
    finally:
        signal.alarm(0)
    return code, capsys.readouterr().err


def complaint(code, stderr):
    """What is wrong with the end of a command; "" if nothing is."""
    if code not in (0, 1, 2):
        return f"exit code {code}: {stderr[-300:]}"
    if "Traceback" in stderr or "nobody foresaw" in stderr:
        return stderr[-600:]
    lines = stderr.strip().splitlines()
    if code and not (lines and lines[-1].startswith("error: ") and lines[-1].rstrip()[-1] in ".?"):
        return f"no sentence: {stderr[-300:]}"
    return ""


def check(seed, count, sandbox, monkeypatch, capsys):
    chance, wrong, codes = random.Random(seed), [], []
    for _ in range(count):
        words = command_line(chance, sandbox)
        code, stderr = ended(words, monkeypatch, capsys)
        codes.append(code)
        said = complaint(code, stderr)
        if said:
            wrong.append(f"main.py {shlex.join(words)[:500]}\n    {said}")
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong)
    assert {0, 2} <= set(codes), "both kinds of command lines"


@pytest.mark.parametrize("seed", range(CASES // BATCH))
def test_generated_command_lines_end_well(seed, sandbox, monkeypatch, capsys):
    check(seed, BATCH, sandbox, monkeypatch, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 100 + MANY_CASES // 100))
def test_many_generated_command_lines_end_well(seed, sandbox, monkeypatch, capsys):
    check(seed, 100, sandbox, monkeypatch, capsys)
