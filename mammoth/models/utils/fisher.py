"""The diagonal of the Fisher information, from the gradient of each sample by itself.

A gradient per sample is what makes the estimate slow. A linear layer does not need one: its
gradient is the outer product d a^T of the gradient d at its output and its input a, so the sum
of squares over a batch is the product of the squared factors. All other parameters go through
`vmap`, in chunks that fit in memory.
"""
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from datasets.utils.label_reduction import labelled_rows

_CHUNK_ELEMENTS = 2**22  # numbers held at once by the gradients of a chunk of samples

Gradients = dict[str, torch.Tensor]


def diagonal_fisher(net: nn.Module, batches: Iterable[Any], device: torch.device) -> torch.Tensor:
    """Mean over samples of p(y|x) times the squared gradient of log p(y|x).

    This is the expectation over y ~ p(.|x) restricted to the true label, which is how the
    published results of online EWC estimate it. The network is in evaluation mode meanwhile, so
    that each sample's gradient is its own also with batch normalisation.

    Args:
        net: maps images to logits (B, C).
        batches: tuples that start with images (B, ...) and labels (B,), e.g. a train loader.
        device: where the network is.

    Returns:
        (P,), in the order of `net.parameters()`.
    """
    training = net.training
    net.eval()
    total: torch.Tensor | None = None
    count = 0
    for batch in batches:
        inputs, labels = (part.to(device) for part in labelled_rows(batch[:2]))
        if not len(labels):
            continue
        found = squared_gradients(net, inputs, labels)
        total = found if total is None else total + found
        count += len(labels)
    net.train(training)
    assert total is not None, "every task has labelled samples"
    return total / count


def squared_gradients(net: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Sum over a batch of p(y|x) times the squared gradient of log p(y|x).

    Args:
        net: in evaluation mode, so that samples do not influence each other.
        inputs: (B, ...).
        labels: (B,).

    Returns:
        (P,); zero for frozen parameters.
    """
    found = _linear_layers(net, inputs, labels)
    others = {name: p.detach() for name, p in net.named_parameters()
              if p.requires_grad and name not in found}
    if others:
        found |= _any_layers(net, others, inputs, labels)
    return torch.cat([(found[name] if p.requires_grad else torch.zeros_like(p)).flatten()
                      for name, p in net.named_parameters()])


def _linear_layers(net: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> Gradients:
    """The sums for plain linear layers that act once on a (B, F) tensor."""
    calls: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}
    hooks = []
    for name, layer in net.named_modules():
        if type(layer) is nn.Linear and layer.weight.requires_grad:
            seen: list[tuple[torch.Tensor, torch.Tensor]] = []
            calls[name] = seen
            hooks.append(layer.register_forward_hook(
                lambda _, args, out, seen=seen: seen.append((args[0].detach(), out))))
    with torch.enable_grad():
        log_probs = F.log_softmax(net(inputs), dim=1).gather(1, labels[:, None])  # (B, 1)
    for hook in hooks:
        hook.remove()
    once = {name: seen[0] for name, seen in calls.items()
            if len(seen) == 1 and seen[0][0].dim() == 2}
    if not once:
        return {}
    deltas = torch.autograd.grad(log_probs.sum(), [out for _, out in once.values()])
    weights = log_probs.detach().exp()  # (B, 1)
    sums = {}
    for (name, (activation, _)), delta in zip(once.items(), deltas, strict=True):
        weighted = weights * delta.square()  # (B, out)
        sums[f"{name}.weight"] = weighted.T @ activation.square()  # (out, in)
        sums[f"{name}.bias"] = weighted.sum(dim=0)  # (out,)
    return sums


def _any_layers(net: nn.Module, parameters: Gradients, inputs: torch.Tensor,
                labels: torch.Tensor) -> Gradients:
    """The sums for the given parameters, through one gradient per sample."""
    def log_prob(values: Gradients, image: torch.Tensor,
                 label: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # Backbones know a layer under several names; tying them would swap it twice.
        logits = functional_call(net, values, (image[None],), tie_weights=False)
        value = F.log_softmax(logits, dim=1)[0].gather(0, label[None]).squeeze(0)
        return value, value

    per_sample = vmap(grad(log_prob, has_aux=True), in_dims=(None, 0, 0))
    size = max(1, _CHUNK_ELEMENTS // sum(p.numel() for p in parameters.values()))
    sums = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for images, targets in zip(inputs.split(size), labels.split(size), strict=True):
        gradients, log_probs = per_sample(parameters, images, targets)
        for name, value in gradients.items():  # (b, *shape)
            sums[name] += torch.tensordot(log_probs.exp(), value.square(), dims=1)
    return sums
