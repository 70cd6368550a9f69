"""A frozen copy of the network: the teacher of methods that distil from their own past."""
from copy import deepcopy
from typing import TypeVar

from torch import nn

Network = TypeVar("Network", bound=nn.Module)


def frozen_copy(net: Network) -> Network:
    """The network as it is now, in evaluation mode and without gradients.

    Kept as an attribute of the method it is a child module: it moves with the method to another
    device and is part of its checkpoints.
    """
    return deepcopy(net).eval().requires_grad_(False)
