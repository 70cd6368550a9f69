"""What a checkpoint must look like, said once, and checked before anything uses it.

A file may come from this harness, from its older versions or from upstream, may be damaged and
may be forged. `fault` finds the first entry that is missing or of the wrong kind. Files of ours
also keep a fingerprint of their own form (`form`), which finds wrong kinds, shapes and lengths in
what only a method understands.
"""
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

_NAME = re.compile(r"[A-Za-z0-9][\w.,+=-]{0,199}", re.ASCII)
_NOT_FORMED = ("form",)

# What decides which other arguments exist, and is read before they are checked.
_KINDS = {"model": str, "dataset": str, "backbone": str, "dataset_config": str,
          "buffer_size": int}

Check = Callable[[Any], bool]
Schema = dict[str, "Check | Schema"]


def is_file_name(value: Any) -> bool:
    """Whether text may name a file or folder of ours: no separators, nothing hidden."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None and ".." not in value


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _named(check: Check) -> Check:
    return lambda value: isinstance(value, Mapping) and all(
        isinstance(name, str) and check(entry) for name, entry in value.items())


def _listed(check: Check) -> Check:
    return lambda value: isinstance(value, list | tuple) and all(map(check, value))


def _maybe(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str) \
        or _listed(_plain)(value) or _named(_plain)(value)


def _arguments(value: Any) -> bool:
    return _named(_plain)(value) and all(
        isinstance(value.get(name), kind | None) for name, kind in _KINDS.items())


def _anything(value: Any) -> bool:
    return True


def _loader(value: Any) -> bool:
    """A loader's generator now, and where it was when the pass in progress began."""
    state = torch.Generator().get_state()
    return isinstance(value, Mapping) and "generator" in value and all(
        torch.is_tensor(v) and v.shape == state.shape and v.dtype == state.dtype
        for v in (value["generator"], value.get("pass_start")) if v is not None)


_mapping: Check = lambda value: isinstance(value, Mapping)  # noqa: E731
_matrix = _listed(_listed(_number))


def _accuracies(value: Any) -> bool:
    """A row for each task learned, which has at least that task and those before it."""
    return _matrix(value) and all(len(row) > i for i, row in enumerate(value))


def _results(value: Any) -> bool:
    """Upstream's two matrices; what follows them is the logger's own state."""
    return _listed(_anything)(value) and len(value) >= 2 and all(map(_accuracies, value[:2]))


_weights = _named(torch.is_tensor)

_PROGRESS: Schema = {
    "position": {"task": _count, "epoch": _count, "batch": _count, "steps": _count},
    "metrics": _listed(_named(_plain)), "random_accs": _matrix, "early_stopping": _mapping,
    "seconds": _number, "resumed": _count}
_RNG: Schema = {
    "torch": torch.is_tensor, "cuda": _listed(torch.is_tensor),
    "numpy": lambda v: _listed(_anything)(v) and len(v) == 5 and torch.is_tensor(v[1]),
    "python": lambda v: _listed(_anything)(v) and len(v) == 3 and _listed(_count)(v[1])}
_LOGGER: Schema = {"accs": _accuracies, "masked_accs": _accuracies, "memory_mb": _listed(_number),
                   "transfer": _named(_named(_number))}
RUN: Schema = {
    "plain": _named(_anything), "stateful": _named(_mapping), "progress": _PROGRESS, "rng": _RNG,
    "loader": _maybe(_loader), "stream": _named(_anything), "folder": _text, "key": _text}
_OURS: Schema = {"model": _weights, "optimizer": _maybe(_mapping), "scheduler": _maybe(_mapping),
                 "args": _arguments, "results": _results, "run": RUN}
# What a file from elsewhere may have besides `results`.
_FOREIGN: Schema = {"model": _weights, "args": _arguments, "buffer": _weights}


def fault(state: Any) -> str | None:
    """What is wrong with a checkpoint, as `<entry> is missing` or the like; None if nothing is."""
    if not isinstance(state, Mapping):
        return f"it holds a {type(state).__name__}"
    if "run" not in state:
        return _foreign_fault(state)
    found = _first_fault(_OURS, state, "") or _first_fault(_LOGGER, _last_result(state), "results.")
    if found is None and "buffer" in state and not _weights(state["buffer"]):
        found = "`buffer` is of the wrong kind"
    return found or _buffer_fault(state) or _form_fault(state)


def _buffer_fault(state: Mapping[str, Any]) -> str | None:
    """The samples stand in a file twice, for upstream and for us: the same tensors each time."""
    kept = state["run"]["stateful"].get("buffer", {}).get("tensors")
    if kept is None or (_weights(kept) and set(kept) == set(state.get("buffer", {}))):
        return None
    return "`run.stateful.buffer` and `buffer` hold different things"


def _foreign_fault(state: Mapping[str, Any]) -> str | None:
    """A checkpoint of upstream has `model`; the bare weights of a model are fine too."""
    if "model" not in state:
        return None if state and _weights(state) else "`model` is missing"
    present: Schema = {name: check for name, check in _FOREIGN.items() if name in state}
    if state.get("results") is not None and not _results(state["results"]):
        return "`results` is of the wrong kind"
    return _first_fault(present, state, "")


def _last_result(state: Mapping[str, Any]) -> Any:
    """Our logger's own state, after upstream's two matrices."""
    results = state["results"]
    return results[2] if len(results) == 3 else None


def _first_fault(schema: Schema, value: Any, where: str) -> str | None:
    if not isinstance(value, Mapping):
        return f"`{where.rstrip('.')}` is of the wrong kind"
    for name, check in schema.items():
        if name not in value:
            return f"`{where}{name}` is missing"
        if isinstance(check, dict):
            deeper = _first_fault(check, value[name], f"{where}{name}.")
            if deeper:
                return deeper
        elif not check(value[name]):
            return f"`{where}{name}` is of the wrong kind"
    return None


def form(state: Mapping[str, Any]) -> dict[str, str]:
    """Entry -> fingerprint of the kinds, shapes and lengths in it, without their values."""
    entries = {name: value for name, value in state.items() if name != "run"}
    entries |= {f"run.{name}": value for name, value in state["run"].items()
                if name not in _NOT_FORMED}
    return {name: hashlib.sha256(json.dumps(_outline(value)).encode()).hexdigest()[:16]
            for name, value in entries.items()}


def _form_fault(state: Mapping[str, Any]) -> str | None:
    known = state["run"].get("form")
    if known is None:  # written before files had one
        return None
    if not isinstance(known, Mapping):
        return "`run.form` is of the wrong kind"
    found = form(state)
    changed = sorted(name for name in {*known, *found} if known.get(name) != found.get(name))
    return f"`{changed[0]}` does not have the form it was written in" if changed else None


def _outline(value: Any) -> Any:
    if torch.is_tensor(value):
        return [str(value.dtype), list(value.shape)]
    if isinstance(value, Mapping):
        return {f"{type(name).__name__} {name}": _outline(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(_outline, value)]
    if isinstance(value, set):
        return ["set", len(value)]
    return type(value).__name__
