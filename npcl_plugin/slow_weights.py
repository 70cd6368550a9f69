"""Slow weights: an exponential average of a network's recent past, as one more network.

The average of weights along a run is close to the mean of a posterior over them (Izmailov et al.,
2018; Maddox et al., 2019). It forgets later than the network does and moves less from step to
step, so it is what answers (Arani et al., 2022).
"""
import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Pairs = tuple[list[torch.Tensor], list[torch.Tensor]]


class SlowWeights(nn.Module):
    """A copy of a network, always in evaluation mode, that follows the network slowly.

    slow = d * slow + (1 - d) * net after each step, with d = min(decay, k / (k + 1)) in step k: the
    plain mean of the weights after all steps so far, without those that the run began with, until
    that remembers as long as the decay does. Statistics of normalisation layers are averaged like
    weights; counters are those of the network.

    Args:
        net: the network, of which this may become a part.
        decay: d, below 1.
        shared: child of the network that the copy has in common with it instead.
    """

    steps: torch.Tensor  # ()

    def __init__(self, net: nn.Module, decay: float, shared: str) -> None:
        super().__init__()
        self.decay = decay
        self.copy = copy.deepcopy(net).requires_grad_(False).eval()
        setattr(self.copy, shared, getattr(net, shared))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self._pairs: tuple[Pairs, Pairs] | None = None

    def train(self, mode: bool = True) -> "SlowWeights":
        """Stay in evaluation mode: the average is never trained."""
        return super().train(False)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "SlowWeights":
        self._pairs = None  # moving a module may replace its tensors
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    @torch.no_grad()
    def follow(self, net: nn.Module) -> None:
        """Take in the network's weights as they are after a step."""
        averaged, copied = self._pairs = self._pairs or self._pair_with(net)
        k = int(self.steps)
        torch._foreach_lerp_(*averaged, 1.0 - min(self.decay, k / (k + 1)))
        torch._foreach_copy_(*copied)
        self.steps += 1

    def _pair_with(self, net: nn.Module) -> tuple[Pairs, Pairs]:
        """Own tensors and the network's: those to be averaged, those to be copied."""
        theirs = {**dict(net.named_parameters()), **dict(net.named_buffers())}
        own = {**dict(self.copy.named_parameters()), **dict(self.copy.named_buffers())}
        averaged: Pairs = ([], [])
        copied: Pairs = ([], [])
        for name, tensor in own.items():
            if tensor is not theirs[name]:
                kind = averaged if tensor.is_floating_point() else copied
                kind[0].append(tensor)
                kind[1].append(theirs[name])
        return averaged, copied
