"""Gradients as vectors: of the network, and of many groups of samples at once."""
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from models.utils.layer_trace import LayerTrace, Loss, trace_layers


def flat_gradient(parameters: Iterable[nn.Parameter]) -> torch.Tensor:
    """The gradients of the parameters as one vector (P,); zero where there is none."""
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1)
                      for p in parameters])


@torch.no_grad()
def write_gradient(parameters: Iterable[nn.Parameter], vector: torch.Tensor) -> None:
    """Copy a vector (P,) into the gradients; parameters that have none stay without."""
    parameters = list(parameters)
    parts = vector.split([p.numel() for p in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        if parameter.grad is not None:
            parameter.grad.copy_(part.view_as(parameter))


def call_with(net: nn.Module, parameters: dict[str, torch.Tensor], *args: Any,
              **kwargs: Any) -> Any:
    """Run the network with other parameters (named as in `named_parameters`).

    torch's treatment of tied weights is off: for a layer that is reachable under two names (our
    MLP's are) it would not put the original parameters back.
    """
    return functional_call(net, parameters, args, kwargs, tie_weights=False)


def group_gradients(net: nn.Module, loss: Loss, inputs: torch.Tensor,
                    labels: torch.Tensor) -> torch.Tensor:
    """The gradient of each group's loss, all groups in one batched computation.

    Networks for which that is impossible (batch normalisation in training mode mixes the
    samples of a batch) take the groups one by one. Groups of one sample give per-sample gradients.

    Args:
        net: the network.
        loss: of logits (n, C) and labels (n,), a scalar.
        inputs: (G, n, ...), groups of equal size.
        labels: (G, n).

    Returns:
        (G, P) in the order of `net.parameters()`.
    """
    layers = trace_layers(net, loss, inputs, labels)
    if layers is None:
        return torch.stack([batch_gradient(net, loss, x, y)
                            for x, y in zip(inputs, labels, strict=True)])
    found = {p: g for layer in layers for p, g in layer.gradients(len(inputs)).items()}
    return torch.cat([found[p] if p in found else p.new_zeros(len(inputs), p.numel())
                      for p in net.parameters()], dim=1)


def batch_gradient(net: nn.Module, loss: Loss, inputs: torch.Tensor,
                   labels: torch.Tensor) -> torch.Tensor:
    """The gradient (P,) of the loss of one batch; `.grad` of the network is left alone."""
    parameters = [p for p in net.parameters() if p.requires_grad]
    grads = torch.autograd.grad(loss(net(inputs), labels), parameters, allow_unused=True)
    found = {p: g for p, g in zip(parameters, grads, strict=True) if g is not None}
    return torch.cat([found.get(p, torch.zeros_like(p)).reshape(-1) for p in net.parameters()])


def gradient_cosines(net: nn.Module, loss: Loss, inputs: torch.Tensor, labels: torch.Tensor,
                     count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Angles between the gradients of new samples and those of reference samples.

    Args:
        net: the network, in evaluation mode.
        loss: of logits (n, C) and labels (n,), a scalar; a mean over samples.
        inputs: (N, ...), the first `count` samples are the new ones.
        labels: (N,).
        count: B, how many are new; R = N - B are reference samples.

    Returns:
        Cosines between the gradient of the new samples' mean loss and each reference
        gradient, (R,), and between each new and each reference gradient, (B, R).
    """
    layers = trace_layers(net, loss, inputs.unsqueeze(1), labels.unsqueeze(1))
    if layers is None:
        gradients = group_gradients(net, loss, inputs.unsqueeze(1), labels.unsqueeze(1))
        parts = [_dense_products(gradients, count)]
    else:
        parts = [_layer_products(layer, count) for layer in layers]
    cross, squares, mean_square = (sum(part) for part in zip(*parts, strict=True))
    lengths = squares.clamp(min=0).sqrt()
    mean_length = mean_square.clamp(min=0).sqrt()
    tiny = torch.finfo(cross.dtype).tiny
    of_mean = cross.mean(0) / (mean_length * lengths[count:]).clamp(min=tiny)
    of_each = cross / torch.outer(lengths[:count], lengths[count:]).clamp(min=tiny)
    return of_mean, of_each


Products = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _dense_products(gradients: torch.Tensor, count: int) -> Products:
    """From gradients (N, p): new x reference (B, R), squared lengths (N,), that of the mean."""
    new, reference = gradients[:count], gradients[count:]
    return new @ reference.T, gradients.square().sum(1), new.mean(0).square().sum()


def _layer_products(layer: LayerTrace, count: int) -> Products:
    """The same for one layer; a linear one needs no per-sample gradients for it.

    The gradient of sample i is the outer product d_i x_i, so that two of them have the inner
    product (d_i . d_j)(x_i . x_j).
    """
    if not isinstance(layer.module, nn.Linear) or layer.inputs.shape[1] != 1:
        return _dense_products(torch.cat(list(layer.gradients(len(layer.inputs)).values()), 1),
                               count)
    x, d = layer.inputs.squeeze(1), layer.deltas.squeeze(1)  # (N, I), (N, O)
    bias = float(layer.has_bias)
    cross = (d[:count] @ d[count:].T) * (x[:count] @ x[count:].T + bias)
    squares = d.square().sum(1) * (x.square().sum(1) + bias)
    mean_square = (d[:count].T @ x[:count]).square().sum() + bias * d[:count].sum(0).square().sum()
    return cross, squares, mean_square / count ** 2
