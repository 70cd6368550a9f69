"""Functions in C as operators of torch, which a recorded graph can hold."""
import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from npcl_plugin.kernels.build import library

_OPERATORS = torch.library.Library("npcl", "DEF")


def fits(rows: torch.Tensor) -> bool:
    """Whether the functions can work on such rows."""
    return rows.dtype == torch.float32 and rows.device.type == "cpu"


def define(signature: str, function: Callable[..., Any], shapes: Callable[..., Any]) -> None:
    """`torch.ops.npcl.<name>`.

    Args:
        signature: name, arguments and results, as torch writes them.
        function: what it does.
        shapes: the same for tensors without numbers.
    """
    _OPERATORS.define(signature)
    name = signature.partition("(")[0]
    _OPERATORS.impl(name, function, "CPU")
    _OPERATORS.impl(name, shapes, "Meta")


def call(name: str, *values: torch.Tensor | int | None) -> None:
    """A function in C; of a tensor it gets the place of the first number."""
    _function(name, len(values))(*(
        value.data_ptr() if isinstance(value, torch.Tensor) else value or 0 for value in values))


@cache
def _function(name: str, n_arguments: int) -> Any:
    found = getattr(library(), name)
    # Places in memory and counts are the same to a machine: 64 bits.
    found.argtypes, found.restype = [ctypes.c_int64] * n_arguments, None
    return found
