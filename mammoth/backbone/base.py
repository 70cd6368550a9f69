"""What every network of the harness offers: return types and flat parameter vectors."""
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import nn

from engine.errors import RunError

ReturnTypes = Literal["out", "features", "both", "full", "all"]


def xavier(module: nn.Module) -> None:
    """Glorot-uniform weights and zero bias, for use with `net.apply(xavier)`.

    Anything but a linear layer is left alone.
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def num_flat_features(x: torch.Tensor) -> int:
    """How many numbers one sample of the batch `x` holds."""
    return x[0].numel() if len(x) else torch.Size(x.shape[1:]).numel()


def canonical_return_type(returnt: str) -> str:
    """Resolve the alias `all` to `full` and refuse what no network knows.

    Raises:
        NotImplementedError: upstream's exception for this, kept for code that catches it.
    """
    kind = "full" if returnt == "all" else returnt
    if kind not in ("out", "features", "both", "full"):
        raise NotImplementedError(f"Expected `returnt` to be out, features, both, full or all, "
                                  f"but got `{returnt}`.")
    return kind


def channels_last_on_cpu(images: torch.Tensor) -> torch.Tensor:
    """The same images (B, C, H, W) with the channels innermost in memory, if on a CPU.

    Its convolutions are a sixth to a quarter faster in this order, and the maps of all later
    layers inherit it. Parameters and their gradients stay contiguous.
    """
    if images.device.type != "cpu":
        return images
    return images.contiguous(memory_format=torch.channels_last)


class MammothBackbone(nn.Module):
    """Base class of the networks.

    A subclass has a linear `classifier` and answers `net(x, returnt=...)` with `out` logits
    (B, C), `features` (B, F), `both` as (logits, features), and `full` (alias `all`) as
    logits with all the intermediate activations it can show.
    """

    classifier: nn.Linear

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self.device = kwargs.get("device", torch.device("cpu"))

    def _apply(self, fn: Any, recurse: bool = True) -> "MammothBackbone":
        """Keep `device` true, also when a parent module moves this one."""
        super()._apply(fn, recurse)
        first = next(self.parameters(), None)
        if first is not None:
            self.device = first.device
        return self

    def forward(self, x: torch.Tensor, returnt: ReturnTypes = "out") -> Any:
        """Compute what `returnt` asks for; each network defines it."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward().")

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """The input of the classifier, (B, F)."""
        return self(x, returnt="features")

    def get_params(self) -> torch.Tensor:
        """All parameters as one vector (P,); differentiable."""
        return torch.cat([p.reshape(-1) for p in self.parameters()])

    @torch.no_grad()
    def set_params(self, new_params: torch.Tensor) -> None:
        """Copy a vector (P,) into the parameters; the vector itself is not kept."""
        for parameter, values in self._chunks(new_params, "new_params"):
            parameter.copy_(values)

    def get_grads(self) -> torch.Tensor:
        """All gradients as one vector (P,), in the order of `get_params`; frozen ones are zero.

        Raises:
            RunError: a trainable parameter has no gradient yet.
        """
        grads = []
        for name, parameter in self.named_parameters():
            if parameter.grad is not None:
                grads.append(parameter.grad.reshape(-1))
            elif parameter.requires_grad:
                raise RunError(f"Expected every trainable parameter to have a gradient, but "
                               f"`{name}` has none; call backward() on a loss that uses the "
                               f"whole network first.")
            else:
                grads.append(torch.zeros_like(parameter).reshape(-1))
        return torch.cat(grads)

    @torch.no_grad()
    def set_grads(self, new_grads: torch.Tensor) -> None:
        """Copy a vector (P,) into the gradients of the trainable parameters."""
        for parameter, values in self._chunks(new_grads, "new_grads"):
            if parameter.requires_grad:
                parameter.grad = values.to(parameter).clone()

    def _chunks(self, vector: torch.Tensor,
                name: str) -> Iterator[tuple[nn.Parameter, torch.Tensor]]:
        """Each parameter with its part of `vector`, in the parameter's shape."""
        parameters = list(self.parameters())
        sizes = [p.numel() for p in parameters]
        if tuple(vector.shape) != (sum(sizes),):
            raise ValueError(f"Expected `{name}` to have shape ({sum(sizes)},), one number per "
                             f"parameter, but got {tuple(vector.shape)}.")
        for parameter, values in zip(parameters, vector.detach().split(sizes), strict=True):
            yield parameter, values.view_as(parameter)
