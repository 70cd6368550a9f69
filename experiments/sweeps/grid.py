"""A YAML file of arguments as a list of runs.

    dataset: seq-digits          # a value: the same for all
    seed: [0, 1, 2]              # a list: every combination of the lists is a run
    runs:                        # optional: several grids, each over the values above
      - name: replay
        model: [er, der]
        buffer_size: [200, 500]
      - name: bounds
        model: [sgd, joint]
    exclude:                     # optional: combinations to leave out
      - {model: der, buffer_size: 500}

A list inside a list is one value (`lr_milestones: [[35, 45]]`), `null` leaves an argument out,
and a question mark (`buffer_size?: [200, 500]`) gives it to the methods that have it only.
"""
import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from engine.errors import UsageError
from engine.identity import one_spelling
from experiments.run import printable
from experiments.sweeps.specification import (
    Folders,
    RunSpec,
    check,
    known_arguments,
)

MOST_RUNS = 10_000
_MOST_RULES = 500
_LONGEST = 1000  # characters of a value
_LARGEST = 2 ** 63

Grid = dict[str, Any]


def load_grid(path: Path) -> Grid:
    """What a grid file holds.

    Raises:
        UsageError: the file is missing, or its parts are not what a grid is made of.
    """
    from engine.config import read_yaml

    if not path.is_file():
        raise UsageError(f"There is no grid file {printable(path)}; give one, e.g. "
                         "configs/tables-cpu.yaml.")
    content = {str(name): value for name, value in read_yaml(path).items()}
    blocks = content.get("runs", [{}])
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise UsageError(f"Expected `runs` in {path} to be a list of mappings, each a grid.")
    content["runs"] = [{str(name): value for name, value in block.items()} for block in blocks]
    return content


def read_grid(path: Path) -> list[tuple[str, Grid]]:
    """All combinations of a grid file.

    Returns:
        (name of the block, arguments) of each run, in the file's order.

    Raises:
        UsageError: the file is missing, is no such grid, or asks for too many runs.
    """
    return expand(load_grid(path), path)


def expand(content: Grid, path: Path) -> list[tuple[str, Grid]]:
    """`read_grid` of a file that was loaded."""
    shared = {k: v for k, v in content.items() if k not in ("runs", "exclude", "name")}
    blocks = content["runs"]
    values = [{**shared, **{k: v for k, v in block.items() if k not in ("name", "exclude")}}
              for block in blocks]
    refuse_too_many(sum(math.prod(len(_options(v)) for v in block.values()) for block in values),
                    path)
    found: list[tuple[str, Grid]] = []
    everywhere, used = _exclusions(content, path), set()
    rules = [[*everywhere, *_exclusions(block, path)] for block in blocks]
    for i, block in enumerate(blocks):
        usual = f"block {i + 1}" if blocks != [{}] else path.stem
        name = str(block.get("name", content.get("name", usual)))
        for run in map(where_it_exists, combinations(values[i], path)):
            matching = [id(rule) for rule in rules[i] if _matches(run, rule)]
            used.update(matching)
            found += [] if matching else [(name, run)]
    for rule in itertools.chain(*rules):
        if id(rule) not in used:
            known = {name.removesuffix("?") for block in values for name in block}
            _refuse_idle(rule, known, path)
    return found


def refuse_too_many(count: int, path: Path) -> None:
    """Say how many runs a grid asks for before they are written out.

    Raises:
        UsageError: more than `MOST_RUNS`.
    """
    if count > MOST_RUNS:
        raise UsageError(f"{printable(path)} asks for {count:,} runs, more than the {MOST_RUNS:,} "
                         "that one grid may have; shorten a list or split the file.")


def _options(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def combinations(values: Mapping[str, Any], path: Path) -> Iterator[Grid]:
    """Every choice of one value from each list."""
    lists = [_options(value) for value in values.values()]
    for name, options in zip(values, lists, strict=True):
        if not options:
            raise UsageError(f"`{printable(name)}` in {path} is an empty list; give a value or "
                             "null.")
        for option in options:
            _check_value(name, option, path)
    for choice in itertools.product(*lists):
        yield dict(zip(values, choice, strict=True))


def _check_value(name: str, option: Any, path: Path) -> None:
    """Refuse what no argument can have."""
    said = f"Expected `{printable(name)[:100]}` in {path} to be a value or a list of values"
    if isinstance(option, dict):
        raise UsageError(f"{said}, but got a mapping; several grids go under `runs`.")
    for value in _options(option):
        if value is not None and not isinstance(value, str | int | float):
            raise UsageError(f"{said}, but got a {type(value).__name__}.")
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise UsageError(f"{said}, but got a number of {value.bit_length()} bits.")
        if isinstance(value, str) and (len(value) > _LONGEST or not value.isprintable()):
            raise UsageError(f"{said}, but got text with control characters or of more than "
                             f"{_LONGEST} letters.")


def _exclusions(content: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
    rules = content.get("exclude") or []
    if not isinstance(rules, list) or not all(isinstance(rule, dict) and rule for rule in rules):
        raise UsageError(f"Expected `exclude` in {path} to be a list of mappings, e.g. "
                         "- {model: der, buffer_size: 500}.")
    if len(rules) > _MOST_RULES:
        raise UsageError(f"{path} excludes {len(rules):,} combinations one by one; write at most "
                         f"{_MOST_RULES:,} rules.")
    return rules


def _matches(run: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Whether the run has all the values of the rule (or, for a list, one of each)."""
    return all(name in run and str(one_spelling(name, run[name])) in
               [str(one_spelling(name, option)) for option in _options(wanted)]
               for name, wanted in rule.items())


def _refuse_idle(rule: Mapping[str, Any], known: Collection[str], path: Path) -> None:
    """A rule that leaves out nothing is a misspelt one.

    Raises:
        UsageError: naming what no run has.
    """
    for name in map(str, rule):
        if name not in known:
            raise UsageError(f"{path} excludes by `{printable(name)[:100]}`, which none of its "
                             "runs has.")
    said = ", ".join(f"{name}: {value}" for name, value in rule.items())
    raise UsageError(f"{path} excludes {{{printable(said)[:200]}}}, which leaves out none of its "
                     "runs; mend or remove it.")


def plan(path: Path, folders: Folders, extra: Mapping[str, Any] | None = None,
         only: str | None = None) -> list[RunSpec]:
    """The checked runs of a grid file.

    Args:
        extra: arguments that every run gets on top.
        only: glob over the blocks' names and the runs' labels.

    Returns:
        Runs in the file's order; some may be the same (`without_duplicates`).

    Raises:
        UsageError: something in the file cannot work; nothing was started.
    """
    content = load_grid(path)
    runs = expand(content, path)
    given = [(group, {**run, **(extra or {})}) for group, run in runs]
    specs = []
    for group, run in given:
        spec = RunSpec(in_order(run), folders, group)
        spec.label = label(spec.given)
        if only is None or fnmatch(group, only) or fnmatch(spec.label, only):
            check(spec, path.name)
            specs.append(spec)
    if not specs:
        names = ", ".join(dict.fromkeys(group for group, _ in given)) or "none"
        raise UsageError(f"No run of {path} fits --only {only}; its blocks are {names}."
                         if only else f"{path} holds no run.")
    return specs


def where_it_exists(run: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with a question mark become plain ones, or go where the run has no such one.

    The same argument without a question mark is stronger.
    """
    asked = [name for name in run if name.endswith("?")]
    if not asked:
        return dict(run)
    known = known_arguments(str(run.get("model")), str(run.get("dataset")), run.get("backbone"))
    return {name.removesuffix("?"): value for name, value in run.items()
            if not name.endswith("?") or (name[:-1] in known and name[:-1] not in run)}


def in_order(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as people type them: what to run, the rest, the seed; None left out."""
    names = ["model", "dataset", *(n for n in given if n not in ("model", "dataset", "seed")),
             "seed"]
    return {name: given[name] for name in names if given.get(name) is not None}


def label(given: Mapping[str, Any], names: Collection[str] | None = None) -> str:
    """`er seq-digits buffer_size 200 seed 0`; with `names`, these arguments only."""
    return " ".join(str(value) if name in ("model", "dataset") else f"{name} {value}"
                    for name, value in given.items() if names is None or name in names)


def shorten_labels(specs: list[RunSpec]) -> None:
    """Name runs by what tells them apart: the model, and arguments that are not all the same."""
    values: dict[str, set[str]] = {}
    for spec in specs:
        for name, value in spec.given.items():
            values.setdefault(name, set()).add(str(value))
    differing = {name for name, found in values.items() if name == "model" or len(found) > 1
                 or not all(name in spec.given for spec in specs)}
    for spec in specs:
        spec.label = label(spec.given, differing if len(specs) > 1 else None)
