"""Functions in C as operators of torch, which a recorded graph can hold.

`operators.c` tells torch about them; here stands what they take and give.
"""
from collections.abc import Callable
from typing import Any

import torch

_OPERATORS = torch.library.Library("npcl", "DEF")


def fits(rows: torch.Tensor) -> bool:
    """Whether the functions can work on such rows."""
    return rows.dtype == torch.float32 and rows.device.type == "cpu"


def define(signature: str, shapes: Callable[..., Any]) -> None:
    """`torch.ops.npcl.<name>`.

    Args:
        signature: name, arguments and results, as torch writes them.
        shapes: results of the right shapes, without numbers.
    """
    _OPERATORS.define(signature)
    _OPERATORS.impl(signature.partition("(")[0], shapes, "Meta")
