"""Every number that tables and the report show: its name, meaning, digits and direction.

A measure is declared once, by `register`. Those of a result stand here; a plugin registers the
ones that it computes (see `contributions.py`). Whatever shows numbers goes through this list.
"""
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from experiments.run import Run
from utils.loggers import SETTING_LABELS


@dataclass(frozen=True)
class Measure:
    """A number of a run.

    Args:
        name: in files and definitions.
        label: in tables and figures.
        definition: in one sentence.
        value: how it is computed from a run; None where the run does not have it.
        digits: decimals that are shown.
        better: 1 if more is better, -1 if less is, 0 if it is not to be ranked.
        compared: whether it stands in the first table, beside accuracy.
    """

    name: str
    label: str
    definition: str
    value: Callable[[Run], float | None]
    digits: int = 2
    better: int = 0
    compared: bool = False


_REGISTRY: dict[str, Measure] = {}
_TERMS: dict[str, str] = {}


def register(*measures: Measure) -> None:
    """Add measures.

    Raises:
        ValueError: another one has the name.
    """
    for measure in measures:
        known = _REGISTRY.setdefault(measure.name, measure)
        if known is not measure and known.definition != measure.definition:
            raise ValueError(f"Expected a new name of a measure, but `{measure.name}` is taken.")


def registered() -> dict[str, Measure]:
    """All measures by name, in the order in which they were declared."""
    return dict(_REGISTRY)


def measure(name: str) -> Measure:
    """The measure of that name; one that nobody declared has no value anywhere."""
    return _REGISTRY.get(name) or Measure(name, name, "", lambda run: None)


def define(terms: Mapping[str, str]) -> None:
    """Add words that tables and figures use and that are no measures by themselves."""
    _TERMS.update(terms)


def definition(name: str) -> str:
    """What a measure or another word means, in one sentence; empty if nobody said."""
    return _REGISTRY[name].definition if name in _REGISTRY else _TERMS.get(name, "")


def headline_measure(name: str, label: str, definition: str, digits: int = 3, better: int = 0,
                     compared: bool = False) -> Measure:
    """A number that an uncertainty summary has in its headline."""
    return Measure(name, label, definition, lambda run: run.headline.get(name), digits, better,
                   compared)


def setting_name(setting: str) -> str:
    """A setting as people write it: Class-IL, Domain-IL."""
    return SETTING_LABELS.get(setting, setting)


def accuracy_in(setting: str) -> Measure:
    """Final accuracy in one setting; a class-IL benchmark has task-IL's too."""
    return Measure(f"accuracy_{setting}", f"{setting_name(setting)} %", ACCURACY.definition,
                   lambda run: run.accuracy.get(setting), 2, 1)


def settings_of(runs: Iterable[Run]) -> list[str]:
    """The settings that any of the runs was measured in, in their order."""
    return list(dict.fromkeys(setting for run in runs for setting in run.accuracy))


ACCURACY = Measure(
    "accuracy", "Accuracy %", "Percentage of right answers, mean over tasks (each counts the "
    "same). Class-IL chooses among all classes seen, Task-IL among those of the sample's task.",
    lambda run: run.accuracy.get(run.setting), 2, 1)
BACKWARD_TRANSFER = Measure(
    "backward_transfer", "BWT", "Backward transfer: accuracy at the end minus accuracy when just "
    "learned, mean over all tasks but the last. Negative means forgetting.",
    lambda run: run.transferred("backward_transfer"), 2, 1)
FORGETTING = Measure(
    "forgetting", "Forgetting", "Best accuracy ever minus accuracy at the end, mean over all tasks "
    "but the last.", lambda run: run.transferred("forgetting"), 2, -1)
SECONDS = Measure(
    "seconds", "Seconds", "Wall clock of a run, without start-up and uncertainty.",
    lambda run: run.seconds, 1)
PARAMETERS = Measure(
    "n_parameters", "Parameters", "Trainable parameters.", lambda run: run.n_parameters, 0)

register(ACCURACY, BACKWARD_TRANSFER, FORGETTING, SECONDS, PARAMETERS)
