"""What a run prints and the one line a run that Mammoth's own tools read (`logs.pyd`)."""
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from engine.files import append_line

_RUN = "conf_run"
SETTING_LABELS = {"class-il": "Class-IL", "task-il": "Task-IL", "domain-il": "Domain-IL",
                  "general-continual": "Domain-IL", "biased-class-il": "Class-IL"}


def mean(values: list[float]) -> float:
    """Unweighted mean over tasks."""
    return sum(values) / len(values) if values else 0.0


def say(text: str, stream: Any = None) -> None:
    """Print a line (to stdout unless told otherwise) without tearing a progress bar."""
    stream = stream or sys.stdout
    tqdm.write(text, file=stream)
    stream.flush()


def print_accuracies(accs: tuple[list[float], list[float]], setting: str, tasks: int | str,
                     epoch: int | None = None, joint: bool = False) -> None:
    """The accuracy lines, in Mammoth's wording.

    Args:
        tasks: how many were learned, or the name of the samples if they are not the usual ones.
    """
    class_accs, task_accs = accs
    head = f"Accuracy on {tasks}:" if isinstance(tasks, str) else \
        "Joint Accuracy:" if joint else f"Accuracy for {tasks} task(s):"
    if epoch is not None:
        head = head.replace("Accuracy", f"Accuracy (epoch {epoch})", 1)
    rounded = [round(value, 2) for value in class_accs]
    if setting == "class-il":
        masked = [round(value, 2) for value in task_accs]
        lines = [f"{head} \t [Class-IL]: {mean(class_accs):.2f} %"
                 f" \t [Task-IL]: {mean(task_accs):.2f} %",
                 f"\tRaw accuracy values: Class-IL {rounded} | Task-IL {masked}"]
    else:
        label = SETTING_LABELS[setting]
        lines = [f"{head} [{label}]: {mean(class_accs):.2f} %",
                 f"\tRaw accuracy values: {label} {rounded}"]
    say("\n".join(lines))


def log_accs(args: Namespace, logger: "Logger | None", accs: tuple[list[float], list[float]],
             t: int, setting: str, epoch: int | None = None) -> None:
    """Report an evaluation: what `dataset.log(...)` does unless a benchmark has its own way.

    Args:
        t: index of the task just learned.
        epoch: for an evaluation within a task, which the logger does not keep.
    """
    print_accuracies(accs, setting, t + 1, epoch, joint=bool(getattr(args, "joint", 0)))
    if logger is not None and epoch is None:
        logger.log_fullacc(accs)


def print_transfer(name: str, values: dict[str, float]) -> None:
    """A line of backward transfer, forgetting or forward transfer."""
    parts = [f"[{SETTING_LABELS[setting]}]: {value:.2f}" for setting, value in values.items()]
    say(f"{name}: " + " \t ".join(parts))


class Logger:
    """Collects a run's numbers under Mammoth's names and writes them as one literal a line.

    Args:
        setting_str: class-il, domain-il or general-continual.
        dataset_str: the benchmark's NAME.
        model_str: the method's NAME (with underscores).
    """

    def __init__(self, args: Namespace, setting_str: str, dataset_str: str,
                 model_str: str) -> None:
        self.args = args
        self.setting = setting_str
        self.dataset = dataset_str
        self.model = model_str
        self.accs: list[list[float]] = []
        self.masked_accs: list[list[float]] = []
        self.transfer: dict[str, dict[str, float]] = {}
        self.memory_mb: list[float] = []

    def log_fullacc(self, accs: tuple[list[float], list[float]]) -> None:
        """Keep the accuracies of all tasks after a task."""
        self.accs.append([float(value) for value in accs[0]])
        self.masked_accs.append([float(value) for value in accs[1]])

    def log_system_stats(self, memory_mb: float) -> None:
        """Keep the peak memory after a task."""
        self.memory_mb.append(float(memory_mb))

    def add_transfer(self, name: str, values: dict[str, float]) -> None:
        """Keep backward_transfer, forward_transfer or forgetting, by setting."""
        self.transfer[name] = values

    def dump(self) -> dict[str, Any]:
        """Plain data that `load` takes back, for checkpoints."""
        return {"accs": self.accs, "masked_accs": self.masked_accs, "transfer": self.transfer,
                "memory_mb": self.memory_mb}

    def load(self, state: dict[str, Any]) -> None:
        """Go back to a dumped state."""
        self.accs, self.masked_accs = state["accs"], state["masked_accs"]
        self.transfer, self.memory_mb = state["transfer"], state["memory_mb"]

    def rewind(self, count: int) -> None:
        """Forget the last `count` evaluations."""
        keep = len(self.accs) - count
        self.accs, self.masked_accs = self.accs[:keep], self.masked_accs[:keep]

    def files(self, results_folder: Path) -> dict[str, Path]:
        """Setting -> the file that the run's line goes to; class-IL runs have a second one."""
        settings = (self.setting, "task-il") if self.setting == "class-il" else (self.setting,)
        return {setting: results_folder / setting / self.dataset / self.model / "logs.pyd"
                for setting in settings}

    def write(self, results_folder: Path, run: str) -> None:
        """Append the run's lines, unless they are there already.

        Args:
            run: the name of the run's folder, by which its line is known when the run was
                killed after writing it and ends a second time.
        """
        for setting, path in self.files(results_folder).items():
            rows = self.masked_accs if setting != self.setting else self.accs
            append_line(path, repr(self._line(setting, rows, run)),
                        unless=f"{_RUN!r}: {run!r}")

    def _line(self, setting: str, rows: list[list[float]], run: str) -> dict[str, Any]:
        line = {**plain_args(self.args), _RUN: run}
        for i, row in enumerate(rows, 1):
            line[f"accmean_task{i}"] = mean(row)
            if self.setting == "class-il":
                line.update({f"accuracy_{j}_task{i}": value for j, value in enumerate(row, 1)})
        line["cpu_memory_usage"] = self.memory_mb
        line["gpu_memory_usage"] = []
        line.update({name: values[setting] for name, values in self.transfer.items()
                     if setting in values})
        return line


def plain_args(args: Namespace) -> dict[str, Any]:
    """The arguments as plain data, without the note of where they came from."""
    return {k: literal(v) for k, v in vars(args).items() if k != "conf_sources"}


def literal(value: Any) -> Any:
    """A value that `ast.literal_eval` reads back: numbers, text and lists of them."""
    if hasattr(value, "tolist"):  # numpy's numbers and texts are Python's too, but do not load
        return value.tolist()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(k): literal(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [literal(v) for v in value]
    return str(value)
