"""Gradients of many groups of samples from one forward and one backward pass.

The gradient of a linear layer's weight is the product of what goes into the layer and of the
loss's derivative by what comes out of it. Keeping both per sample gives the gradient of any
group of samples without a backward pass for each.
"""
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import vmap

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass
class LayerTrace:
    """One layer's share in the gradients of N samples.

    Args:
        module: the layer.
        inputs: (N, L, I) what its weight was applied to, at L places.
        deltas: (N, L, O) derivative of the sample's loss by the output at these places.
    """

    module: nn.Linear | nn.Conv2d | nn.BatchNorm2d
    inputs: torch.Tensor
    deltas: torch.Tensor

    @property
    def has_bias(self) -> bool:
        """Whether the layer adds a trainable constant."""
        return self.module.bias is not None

    def gradients(self, groups: int) -> dict[torch.Tensor, torch.Tensor]:
        """The parameters' gradients, summed over each of equally large groups: (G, p) each."""
        inputs = self.inputs.reshape(groups, -1, self.inputs.shape[-1])  # (G, n L, I)
        deltas = self.deltas.reshape(groups, -1, self.deltas.shape[-1])  # (G, n L, O)
        if isinstance(self.module, nn.BatchNorm2d):
            weight = (deltas * inputs).sum(1)
        else:
            weight = torch.bmm(deltas.transpose(1, 2), inputs).flatten(1)
        found = {self.module.weight: weight}
        if self.module.bias is not None:
            found[self.module.bias] = deltas.sum(1)
        return found


def trace_layers(net: nn.Module, loss: Loss, inputs: torch.Tensor,
                 labels: torch.Tensor) -> list[LayerTrace] | None:
    """Follow groups of samples through the layers.

    Args:
        net: the network.
        loss: of a group's logits (n, C) and labels (n,), a scalar.
        inputs: (G, n, ...).
        labels: (G, n).

    Returns:
        A trace of all G n samples for each layer with parameters; None if the network has
        parameters elsewhere than in linear and convolutional layers and batch normalisation
        with fixed statistics, each used once.
    """
    layers = [m for m in net.modules() if any(p.requires_grad for p in m.parameters(False))]
    shared = sum(len(list(m.parameters(False))) for m in layers) != sum(
        p.requires_grad for p in net.parameters())
    if shared or not all(map(_supported, layers)):
        return None
    seen: list[tuple[nn.Module, torch.Tensor, torch.Tensor]] = []

    def record(module: nn.Module, args: tuple, output: torch.Tensor) -> None:
        seen.append((module, args[0].detach(), output))

    hooks = [layer.register_forward_hook(record) for layer in layers]
    try:
        with torch.enable_grad():
            total = _total_loss(loss, net(inputs.flatten(0, 1)), labels)
    finally:
        for hook in hooks:
            hook.remove()
    if len(seen) != len(layers) or {m for m, _, _ in seen} != set(layers):
        return None
    deltas = torch.autograd.grad(total, [output for _, _, output in seen])
    return [_trace(module, x, delta)
            for (module, x, _), delta in zip(seen, deltas, strict=True)]


def _total_loss(loss: Loss, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Sum over the groups of each group's loss, for logits (G n, C) and labels (G, n)."""
    if loss is F.cross_entropy:  # a mean over the group: no need to take groups apart
        return loss(logits, labels.flatten(), reduction="sum") / labels.shape[1]
    return vmap(loss)(logits.unflatten(0, labels.shape), labels).sum()


def _supported(module: nn.Module) -> bool:
    if not all(p.requires_grad for p in module.parameters(False)):
        return False
    if isinstance(module, nn.Conv2d):
        return module.groups == 1 and module.padding_mode == "zeros" and not isinstance(
            module.padding, str)
    if isinstance(module, nn.BatchNorm2d):
        return not module.training and module.track_running_stats
    return type(module) is nn.Linear


def _trace(module: Any, inputs: torch.Tensor, deltas: torch.Tensor) -> LayerTrace:
    """Bring a layer's input and derivative into the form (N, L, ...)."""
    if isinstance(module, nn.Linear):
        inputs, deltas = (x.reshape(len(x), -1, x.shape[-1]) for x in (inputs, deltas))
    elif isinstance(module, nn.Conv2d):
        assert not isinstance(module.padding, str), "see _supported"
        inputs = F.unfold(inputs, module.kernel_size, module.dilation, module.padding,
                          module.stride).transpose(1, 2)
        deltas = deltas.flatten(2).transpose(1, 2)
    else:
        place = (1, -1, 1, 1)
        scale = (module.running_var + module.eps).rsqrt()
        inputs = (inputs - module.running_mean.view(place)) * scale.view(place)
        inputs, deltas = (x.flatten(2).transpose(1, 2) for x in (inputs, deltas))
    return LayerTrace(module, inputs, deltas)
