"""The paper's cap on the gradient's norm, for everything but the backbone."""
from collections.abc import Iterable

import torch
from torch.nn.utils import clip_grads_with_norm_

from npcl_plugin.kernels import gradients as kernels
from npcl_plugin.kernels.operators import fits


def norm_of(gradients: Iterable[torch.Tensor | None], compiled: bool) -> torch.Tensor:
    """Of all gradients together, (); by products, which are faster than torch's norms.

    Args:
        compiled: by a function in C, if it can.
    """
    present = [gradient for gradient in gradients if gradient is not None]
    if compiled and all(map(fits, present)):
        return kernels.norm(present)
    flat = [gradient.flatten() for gradient in present]
    return torch.stack([torch.dot(each, each) for each in flat]).sum().sqrt()


def cap(parameters: list[torch.nn.Parameter], most: float, norm: torch.Tensor) -> None:
    """Scale the gradients down where their norm exceeds `most`; otherwise leave them untouched."""
    if norm > most:
        with torch.inference_mode():  # gradients of recorded steps allow no writing elsewhere
            clip_grads_with_norm_(parameters, most, norm, foreach=True)
