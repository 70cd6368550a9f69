"""A frozen copy of the network: the teacher of methods that distil from their own past."""
from copy import deepcopy

from torch import nn


def frozen_copy(net: nn.Module) -> nn.Module:
    """The network as it is now, in evaluation mode and without gradients.

    Kept as an attribute of the method it is a child module: it moves with the method to another
    device and is part of its checkpoints.
    """
    return deepcopy(net).eval().requires_grad_(False)
