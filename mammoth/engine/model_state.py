"""Everything a method keeps, as data that loads safely, without help from the method.

`state_dict()` covers parameters; continual learners keep more: buffers of samples, importance
weights, copies of the network, counters. This module finds all of it on the model object, so
that a method file stays free of saving code and upstream's files resume exactly too.
"""
import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from engine.errors import UsageError
from utils.conf import warn_once

_HARNESS = {"args", "dataset", "device", "transform", "original_transform", "loss", "opt",
            "normalization_transform", "training", "_own_steps"}
_ARRAY = "__numpy_array__"


class _NotPlain(TypeError):
    """A value that is not made of numbers, text, tensors and containers of them."""


def capture(model: nn.Module) -> dict[str, Any]:
    """All the state of a method.

    Returns:
        `weights` (state_dict), `plain` attributes, and the states of `stateful` ones such as
        sample buffers and schedulers.
    """
    plain, stateful = {}, {}
    for name, value in vars(model).items():
        if name in _HARNESS or name in nn.Module().__dict__:
            continue
        if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
            stateful[name] = value.state_dict()
            continue
        try:
            plain[name] = encode(value)
        except _NotPlain:
            warn_once(f"checkpoints leave out {type(model).__name__}.{name}: a resumed run will "
                      "not have it")
    return {"weights": model.state_dict(), "plain": plain, "stateful": stateful}


def restore(model: nn.Module, state: dict[str, Any], known: bool = False) -> None:
    """Put a freshly built method into a captured state.

    Args:
        known: whether it is known to be of a run with the same arguments.

    Raises:
        UsageError: the state is of another architecture.
    """
    _add_missing_children(model, state["weights"])
    try:
        model.load_state_dict(state["weights"])
    except RuntimeError as error:
        raise UsageError(_misfit(model, state["weights"], known)) from error
    for name, value in state["plain"].items():
        if not _is_data(model, name):
            raise UsageError(f"The checkpoint holds `{name}`, which is no data of a "
                             f"{type(model).__name__}; it was tampered with.")
        setattr(model, name, decode(value))
    for name, value in state["stateful"].items():
        if not hasattr(model, name):
            raise UsageError(f"The checkpoint holds `{name}`, which this {type(model).__name__} "
                             "does not have; use the version that wrote it.")
        getattr(model, name).load_state_dict(value)


def _misfit(model: Any, weights: dict[str, torch.Tensor], known: bool) -> str:
    """Which weights do not fit, and why."""
    own = model.state_dict()
    odd = [name for name in sorted({*own, *weights})
           if name not in own or name not in weights or own[name].shape != weights[name].shape]
    remedy = "another version of this code wrote it, so use that version, or train anew" \
        if known else "use the --model and --backbone that it was written with"
    return (f"The checkpoint's weights do not fit this model ({model.NAME} with backbone "
            f"{model.args.backbone}; {len(odd)} differ, `{odd[0]}` first): {remedy}.")


def _is_data(model: nn.Module, name: str) -> bool:
    """Whether a checkpoint may set an attribute: not the harness's, and no function."""
    declared = getattr(type(model), name, None)
    return name not in _HARNESS and name not in nn.Module().__dict__ \
        and not callable(declared) and not isinstance(declared, property)


def _add_missing_children(model: nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Methods that keep an old copy of the network make it in a hook: make it here too."""
    present = dict(model.named_children())
    for name in {key.split(".")[0] for key in weights if "." in key} - set(present):
        keys = {key.split(".", 1)[1] for key in weights if key.startswith(f"{name}.")}
        if keys == set(present["net"].state_dict()):
            frozen = copy.deepcopy(present["net"]).eval()
            for parameter in frozen.parameters():
                parameter.requires_grad_(False)
            if hasattr(model, name):
                delattr(model, name)
            setattr(model, name, frozen)


def encode(value: Any) -> Any:
    """Plain data in a form that loads safely; raises TypeError for anything else."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if torch.is_tensor(value):
        return value.detach().clone()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return {_ARRAY: torch.from_numpy(value.copy())}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list):
        return [encode(v) for v in value]
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(encode(v) for v in value)
    if isinstance(value, dict):
        return {encode(k): encode(v) for k, v in value.items()}
    if isinstance(value, set):
        return {encode(v) for v in value}
    raise _NotPlain(type(value).__name__)


def decode(value: Any) -> Any:
    """The inverse of `encode`."""
    if isinstance(value, dict):
        if set(value) == {_ARRAY}:
            return value[_ARRAY].numpy()
        return {k: decode(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(decode(v) for v in value)
    return value
