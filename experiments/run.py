"""One run: its result, its arguments, its measures and its folder. Nothing else reads such files.

A run comes from its folder (result.json, args.json, metrics.jsonl, uncertainty/summary.json) or
from a compact record. What is damaged, endless or of another type than documented is a `Damaged`
with a phrase that says why; `lacks` says what records of older code do not have.
"""
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from engine.bounded import Unreadable, read_json, read_text
from experiments.command_line import given_by
from experiments.words import counted

SUMMARY_FORMAT = 1
SUMMARY_MAKERS: list[str] = []  # commands that make a summary anew; plugins add theirs
_MEGABYTE = 1 << 20
MARKS = ("args.json", "metrics.jsonl", "result.json")  # a folder with one of them is a run's
_LIMITS = {"result.json": 8, "args.json": 1, "summary.json": 32, "metrics.jsonl": 32}
_MOST_TASKS = 1000
_LONGEST_NAME = 300
_COUNTS = {"seed": 2 ** 64, "buffer_size": 10 ** 12, "n_parameters": 10 ** 15}

Matrix = list[list[float]]
# What a part of an uncertainty summary that has another form than documented may raise.
BROKEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Damaged(Exception):
    """A run that cannot be shown; the text says why."""


@dataclass
class LeftOut:
    """A run that is not shown, with the reason and, if known, the command that made it."""

    name: str
    reason: str
    command: str = ""

    def __str__(self) -> str:
        return f"left out: {printable(self.name)} ({printable(self.reason)})"


@dataclass
class Run:
    """One finished run.

    Args:
        accuracy: setting (class-il, ...) -> final mean over tasks in percent.
        matrix: setting -> accuracy [after task][on task]; empty for a compact record.
        transfer: backward_transfer, forgetting, ... -> setting -> value.
        arguments: all resolved arguments that were kept.
        given: the arguments that the command line gave.
        summary: the uncertainty summary, whole or as a compact record keeps it.
        headline: name -> number of the uncertainty measures.
        lacks: what a record of older code does not have.
        remarks: sentences about parts of the run that cannot be shown.
    """

    model: str
    dataset: str
    setting: str
    accuracy: dict[str, float]
    command: str
    seed: int | None = None
    buffer_size: int | None = None
    seconds: float | None = None
    matrix: dict[str, Matrix] = field(default_factory=dict)
    transfer: dict[str, dict[str, float]] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    n_parameters: int | None = None
    peak_memory_mb: float | None = None
    versions: dict[str, str] = field(default_factory=dict)
    final_test_accuracy: dict[str, float] = field(default_factory=dict)
    summary: dict[str, Any] | None = None
    headline: dict[str, float] = field(default_factory=dict)
    name: str = ""
    folder: Path | None = None
    lacks: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def sequential(self) -> bool:
        """Whether it learned task after task; joint training has only an end."""
        joint = str(self.given.get("joint", self.arguments.get("joint"))) in ("1", "True")
        return not joint and (bool(self.transfer) or len(self.matrix.get(self.setting, [])) == 1)

    def stages(self, setting: str) -> Matrix:
        """The rows to show: joint training has only its end."""
        rows = self.matrix[setting]
        return rows if self.sequential else rows[-1:]

    def transferred(self, name: str) -> float | None:
        """Backward transfer or forgetting in the benchmark's own setting.

        None if unknown, and of a single task, where nothing can be transferred.
        """
        single = any(str(self.given.get(flag)) == "1" for flag in ("joint", "stop_after"))
        return None if single else self.transfer.get(name, {}).get(self.setting)

    def section(self, *path: str) -> Any:
        """A part of the uncertainty summary; None where there is none."""
        found: Any = self.summary
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        return found


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is an ordinary finite number (huge integers are not)."""
    return isinstance(value, int | float) and not isinstance(value, bool) \
        and -1e300 < value < 1e300


def printable(text: object) -> str:
    """Text for a terminal or a page: one line, no control characters, no broken Unicode."""
    whole = str(text).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "\ufffd" for c in whole)


def read_run(folder: Path, name: str = "") -> Run:
    """The run that a folder holds.

    Raises:
        Damaged: it is unfinished, or a file of it cannot be used.
    """
    try:
        asked = _mapping(folder / "args.json")
    except FileNotFoundError:
        raise Damaged("args.json is missing, so its command is unknown") from None
    command, arguments = asked.get("command"), asked.get("args", {})
    if not isinstance(command, str) or not isinstance(arguments, dict):
        raise Damaged("args.json has no usable command")
    try:
        result = _mapping(folder / "result.json")
    except FileNotFoundError:
        raise Damaged(f"not finished: {counted(_evaluations(folder), 'task')} evaluated, "
                      "no result.json") from None
    run = run_of_result(result, command, arguments)
    run.name, run.folder = name or folder.name, folder
    run.summary = _summary(folder, run.remarks)
    if run.summary is not None:
        run.headline = _numbers(run.summary.get("headline"))
    return run


def run_of_result(result: Mapping[str, Any], command: str, arguments: dict[str, Any]) -> Run:
    """A run from what result.json and args.json hold.

    Raises:
        Damaged: something that tables and figures need is missing or of another type.
    """
    source = _Source(result, "result.json")
    accuracy = source.percentages("accuracy")
    matrix = _matrices(source, accuracy)
    run = Run(
        **source.names(), accuracy=accuracy, matrix=matrix, command=command,
        **source.counts(), seconds=source.amount("seconds"), arguments=arguments,
        given=given_by(command), transfer=source.numbers_by_setting("transfer"),
        peak_memory_mb=source.optional_amount("peak_memory_mb"), versions=source.words("versions"),
        final_test_accuracy=source.means("final_test_accuracy"))
    if not arguments:
        run.lacks.append("resolved arguments")
    inner = result.get("uncertainty")
    run.headline = _numbers(inner.get("headline")) if isinstance(inner, dict) else {}
    return run


def _matrices(source: "_Source", accuracy: Mapping[str, float]) -> dict[str, Matrix]:
    setting, found = source.text("setting"), source.mapping("accuracy_matrix")
    if setting not in accuracy:
        raise Damaged(f"result.json has no {printable(setting)} accuracy")
    for name in accuracy:
        rows = found.get(name)
        if not (isinstance(rows, list) and rows and all(
                isinstance(row, list) and row and all(map(_percentage, row)) for row in rows)):
            raise Damaged(f"result.json has no whole {printable(name)} accuracy matrix")
        if max(len(rows), *map(len, rows)) > _MOST_TASKS:
            raise Damaged(f"result.json has more than {_MOST_TASKS} tasks")
    return {name: found[name] for name in accuracy}


def _summary(folder: Path, remarks: list[str]) -> dict[str, Any] | None:
    """The uncertainty summary if it is there and whole."""
    makers = " or ".join(f"{command} {printable(folder)}" for command in SUMMARY_MAKERS)
    remedy = f"{makers or 'the plugin that records uncertainty'} makes it"
    try:
        found = _mapping(folder / "uncertainty" / "summary.json")
    except FileNotFoundError:
        if (folder / "uncertainty").is_dir():
            remarks.append(f"The folder `uncertainty` has no summary.json yet; {remedy}.")
        return None
    except Damaged as error:
        remarks.append(f"Uncertainty is left out: {error}; {remedy} anew.")
        return None
    if found.get("format") != SUMMARY_FORMAT:
        remarks.append("Uncertainty is left out: summary.json has a format that this report does "
                       f"not know; {remedy} anew.")
        return None
    return found


def _evaluations(folder: Path) -> int:
    """How many tasks an unfinished run had evaluated."""
    try:
        text = read_text(folder / "metrics.jsonl", _LIMITS["metrics.jsonl"] * _MEGABYTE)
    except (OSError, Unreadable):
        return 0
    return text.count('"event": "task"')


def _mapping(path: Path) -> dict[str, Any]:
    try:
        value = read_json(path, _LIMITS[path.name] * _MEGABYTE)
    except Unreadable as error:
        raise Damaged(f"{path.name} {error}") from error
    if not isinstance(value, dict):
        raise Damaged(f"{path.name} does not hold an object")
    return value


def command_of(folder: Path) -> str:
    """The command of a run that is left out, if that much can be read."""
    try:
        command = _mapping(folder / "args.json").get("command")
    except (FileNotFoundError, Damaged):
        return ""
    return command if isinstance(command, str) else ""


def run_of_record(entry: Any) -> Run:
    """A run from a compact record.

    Raises:
        Damaged: something that tables need is missing or of another type.
    """
    if not isinstance(entry, dict):
        raise Damaged("it is no object")
    source = _Source(entry, "it")
    accuracy = source.percentages("accuracy")
    if "setting" not in entry and len(accuracy) == 1:
        entry = {**entry, "setting": next(iter(accuracy))}
        source = _Source(entry, "it")
    names = source.names()
    if names["setting"] not in accuracy:
        raise Damaged(f"it has no {names['setting']} accuracy")
    transfer = {name: {names["setting"]: float(entry[name])}
                for name in ("backward_transfer", "forgetting") if is_number(entry.get(name))}
    command = entry.get("command")
    if not isinstance(command, str):
        raise Damaged("it has no usable `command`")
    settings = entry.get("settings")
    run = Run(**names, accuracy=accuracy, command=command, **source.counts(),
              seconds=source.optional_amount("seconds"), transfer=transfer,
              arguments=source.mapping("arguments", {}), versions=source.words("versions"),
              given=settings if isinstance(settings, dict) else given_by(command),
              final_test_accuracy=source.percentages("final_test_accuracy", {}))
    run.summary = source.mapping("uncertainty", {}) or None
    run.headline = _numbers((run.summary or {}).get("headline"))
    run.lacks = [words for name, words in (("arguments", "resolved arguments"),
                                           ("n_parameters", "number of parameters"))
                 if not entry.get(name)]
    return run


def _percentage(value: Any) -> bool:
    return is_number(value) and -1e-6 <= value <= 100 + 1e-6


def _numbers(values: Any) -> dict[str, float]:
    """Those entries of a mapping that are numbers."""
    return {str(name): value for name, value in values.items() if is_number(value)} \
        if isinstance(values, dict) else {}


class _Source:
    """A mapping from a file, whose entries are checked as they are taken out."""

    def __init__(self, content: Mapping[str, Any], file: str) -> None:
        self.content, self.file = content, file

    def _refuse(self, name: str) -> Damaged:
        return Damaged(f"{self.file} has no usable `{name}`")

    def text(self, name: str) -> str:
        value = self.content.get(name)
        if not _readable(value):
            raise self._refuse(name)
        return value

    def names(self) -> dict[str, Any]:
        """Method, benchmark and setting."""
        return {name: self.text(name) for name in ("model", "dataset", "setting")}

    def counts(self) -> dict[str, Any]:
        """Seed, buffer size and number of parameters; None where unknown."""
        found = {name: self.content.get(name) for name in _COUNTS}
        for name, value in found.items():
            if value is not None and not (type(value) is int and 0 <= value < _COUNTS[name]):
                raise self._refuse(name)
        return found

    def mapping(self, name: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
        value = self.content.get(name, default)
        value = default if value is None else value
        if not isinstance(value, dict):
            raise self._refuse(name)
        return value

    def percentages(self, name: str, default: dict[str, Any] | None = None) -> dict[str, float]:
        values = self.mapping(name, default)
        if not all(_percentage(value) for value in values.values()) or (
                default is None and not values):
            raise self._refuse(name)
        if not all(_readable(setting) for setting in values):
            raise self._refuse(name)
        return values

    def numbers_by_setting(self, name: str) -> dict[str, dict[str, float]]:
        values = self.mapping(name, {})
        if not all(isinstance(part, dict) and all(map(is_number, part.values()))
                   for part in values.values()):
            raise self._refuse(name)
        return values

    def means(self, name: str) -> dict[str, float]:
        """setting -> mean of a list of percentages."""
        values = self.mapping(name, {})
        if not all(isinstance(part, list) and part and all(map(_percentage, part))
                   for part in values.values()):
            raise self._refuse(name)
        return {setting: math.fsum(part) / len(part) for setting, part in values.items()}

    def amount(self, name: str) -> float:
        value = self.content.get(name)
        if not is_number(value) or value < 0:
            raise self._refuse(name)
        return value

    def optional_amount(self, name: str) -> float | None:
        return None if self.content.get(name) is None else self.amount(name)

    def words(self, name: str) -> dict[str, str]:
        return {str(k): str(v) for k, v in self.mapping(name, {}).items()}


def _readable(name: Any) -> TypeGuard[str]:
    return isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable()
