"""Which of upstream's method files run in our harness unmodified?

    python tests/mammoth/interchange.py CHECKOUT --base_path DATA [NAME...]

Copies our harness and, over it, the checkout's `models/*.py` with their helper folders
(`models/*_utils/`) into a temporary folder, then trains each on seq-mnist in debug mode. Each run
is a fork of one process that has imported torch; nothing of the checkout is kept. Arguments that a
file demands get a value (0.5, 1, the first choice); the buffer has 200 rows.
"""
import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HARNESS = Path(__file__).resolve().parents[2] / "mammoth"
SECONDS = 300
_VALUES = {int: "1", float: "0.5"}
_UNFORESEEN = re.compile(r"nobody foresaw \((.*)\)\. The traceback")
_NOISE = re.compile(r"^\s*$|warn|^\s+|^Traceback", re.IGNORECASE)


class Outcome(NamedTuple):
    """How one file fared."""

    name: str
    runs: bool
    reason: str
    seconds: float


def overlay(checkout: Path, folder: Path) -> Path:
    """Our harness with the checkout's method files in place of ours.

    Returns:
        The folder that holds main.py.
    """
    harness = folder / "mammoth"
    shutil.copytree(HARNESS, harness, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [*(harness / "models").glob("*.py"), *(harness / "models" / "config").glob("*")]:
        if path.name != "__init__.py":
            path.unlink()
    for path in method_files(checkout):
        shutil.copy(path, harness / "models" / path.name)
    for helpers in (checkout / "models").glob("*_utils"):
        shutil.copytree(helpers, harness / "models" / helpers.name)
    return harness


def method_files(checkout: Path) -> list[Path]:
    """The files of the checkout that define methods."""
    return sorted(path for path in (checkout / "models").glob("*.py")
                  if path.name != "__init__.py")


def try_method(harness: Path, name: str, words: list[str], folder: Path) -> Outcome:
    """Train one method in a forked process and read how it ended."""
    log, begin = folder / f"{name}.log", time.time()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _be_main(harness, name, words, folder / name, log)
    done, status = 0, 0
    while not done and time.time() - begin < SECONDS:
        time.sleep(0.05)
        done, status = os.waitpid(child, os.WNOHANG)
    if not done:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    text = log.read_text(errors="replace")
    runs = bool(done) and status == 0 and "Accuracy for 5 task(s)" in text
    lines = [line for line in text.splitlines() if not _NOISE.search(line)]
    reason = f"not done after {SECONDS} s" if not done else (lines or ["no message"])[-1]
    if unforeseen := _UNFORESEEN.search(reason):
        reason = unforeseen[1]
    return Outcome(name, runs, "" if runs else reason, time.time() - begin)


def _be_main(harness: Path, name: str, words: list[str], folder: Path, log: Path) -> None:
    """In the child: `main.py --model NAME ...` of the overlay, with its output in a file."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.path[:] = [str(harness), *sys.path]
    code = 1
    try:
        import main

        required = _required(name)
        sys.argv = [
            str(harness / "main.py"), "--model", name, "--debug_mode", "1",
            "--n_epochs", "1", "--batch_size", "32", "--seed", "0", "--non_verbose", "1",
            "--results_path",
            str(folder / "results"), "--checkpoint_path", str(folder / "checkpoints"),
            *required, *words]
        code = main.cli()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException as error:  # the parent wants the last line, whatever it is
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


def _required(name: str) -> list[str]:
    """A value for each argument that the method demands, and a small buffer and rate."""
    from models import get_model_class

    parser = argparse.ArgumentParser(add_help=False)
    parser = get_model_class(name).get_parser(parser) or parser
    given = {"lr": "0.03"}
    for action in parser._actions:
        if action.dest == "buffer_size":
            given[action.dest] = "200"
        elif action.required:
            given[action.dest] = (action.choices or [_VALUES.get(action.type, "0.5")])[0]
    return [word for dest, value in given.items() for word in (f"--{dest}", str(value))]


def main(argv: list[str] | None = None) -> int:
    """Try the files and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="an upstream Mammoth checkout")
    parser.add_argument("names", nargs="*", help="methods; default: all")
    parser.add_argument("--base_path", required=True, help="where the data is")
    parser.add_argument("--dataset", default="seq-mnist", help="the benchmark")
    args = parser.parse_intermixed_args(argv)
    names = args.names or [path.stem for path in method_files(args.checkout)]
    import torch  # before the forks, for it takes the most time

    torch.set_num_threads(1)
    words = ["--base_path", args.base_path, "--dataset", args.dataset]
    count = 0
    print("| file | runs | why not |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        harness = overlay(args.checkout.resolve(), Path(folder))
        for name in names:
            outcome = try_method(harness, name, words, Path(folder))
            count += outcome.runs
            print(f"| `{name}.py` | {'yes' if outcome.runs else 'no'} | {outcome.reason} |",
                  flush=True)
    print(f"\n{count} of {len(names)} run.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
