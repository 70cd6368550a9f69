"""What a person at the terminal sees of a run: one bar with the time left, and the last lines."""
import shlex
import shutil
import sys
import threading
from argparse import Namespace
from pathlib import Path
from types import TracebackType
from typing import Any

from tqdm import tqdm

from utils.loggers import SETTING_LABELS

# tqdm's own lock is one for a process and its forks: a run that is killed while it has it would
# stop the others for ever.
tqdm.set_lock(threading.RLock())


class RunBar:
    """One bar over the steps of the whole run, on stderr where that is a terminal.

    Args:
        args: the run's arguments.
        n_tasks: how many tasks it learns.
    """

    def __init__(self, args: Namespace, n_tasks: int) -> None:
        self._args, self._n_tasks = args, n_tasks
        self._bar = tqdm(total=None, unit="step", mininterval=0.3, leave=False,
                         dynamic_ncols=True, disable=bool(args.non_verbose) or None)

    def __enter__(self) -> "RunBar":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._bar.close()

    def begin_task(self, task: int, n_batches: int, done: int) -> None:
        """From here on the tasks are taken to be as long as this one.

        Args:
            task: counted from 0.
            n_batches: batches per epoch.
            done: steps of this task that a resumed run has behind it.
        """
        steps = self._steps(n_batches)
        if steps is not None:
            self._bar.total = self._bar.n + steps * (self._n_tasks - task) - done
            self._bar.refresh()

    @property
    def remaining(self) -> int | None:
        """Steps to the end of the run, as far as they can be known."""
        return None if self._bar.total is None else self._bar.total - self._bar.n

    def _steps(self, n_batches: int) -> int | None:
        """Steps per task; None where the validation split decides."""
        if self._args.fitting_mode == "early_stopping":
            return None
        if self._args.fitting_mode == "iters":
            return int(self._args.n_iters)
        return n_batches * int(self._args.n_epochs)

    def begin_epoch(self, task: int, epoch: int) -> None:
        """Say where the run is; both are counted from 0."""
        self._bar.set_description(f"Task {task + 1}/{self._n_tasks}, epoch {epoch + 1}",
                                  refresh=False)

    def step(self, terms: dict[str, Any], model: Any) -> None:
        """One step is done; `terms` has its loss."""
        if not self._bar.disable:
            self._bar.set_postfix(loss=f"{terms['loss']:.4f}", refresh=False,
                                  lr=model.opt.param_groups[0]["lr"])
        self._bar.update()


def closing_line(result: dict[str, Any], folder: Path) -> str:
    """The run's accuracies, its time, and how to look at it."""
    accuracies = ", ".join(f"{SETTING_LABELS.get(name, name)} {value:.2f} %"
                           for name, value in result["accuracy"].items() if value is not None)
    where = " (validation split)" if result["args"].get("validation") else ""
    line = f"{result['model']} on {result['dataset']}: {accuracies}{where} in " \
           f"{result['seconds']:.0f} s."
    command = report_command(folder)
    return f"{line} Report: {command}" if command else line


def report_command(folder: Path) -> str | None:
    """How the report of a run is made: the checkout's script or the installed command, if any."""
    script = Path(__file__).resolve().parents[2] / "utils" / "report.py"
    if script.is_file():
        shown = script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script
        return f"python {shlex.quote(str(shown))} {shlex.quote(str(folder))}"
    beside = Path(sys.executable).with_name("mammoth-report")
    if beside.is_file() or shutil.which("mammoth-report"):
        return f"mammoth-report {shlex.quote(str(folder))}"
    return None
