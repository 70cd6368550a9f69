"""Mammoth's residual networks in evaluation mode: the same features by fewer operations.

A batch norm that is not trained multiplies and adds what does not change, which can be done to
the weights of the convolution before it, once for all images; ReLUs and sums can write over a
result that nobody else reads. Features are the same but for rounding.
"""
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_weights

from npcl_plugin.versions import Versions

_MODULE = "backbone.ResNetBlock"  # here and upstream
_TYPES = (torch.float32, torch.float64)
_ENOUGH = 1e-3  # of the largest feature: another network is further away, rounding is not


class FoldedFeatures:
    """Features of images as a backbone has them, where they are only looked at.

    Weights and layers of the backbone may change at any time. Other networks than those with
    Mammoth's basic blocks are asked as they are, and so are these with gradients, layers in
    training mode or hooks, or on a GPU.
    """

    def __init__(self) -> None:
        self._versions = Versions()
        self._layers: list[tuple[nn.Module, nn.Module, float]] = []
        self._folded: dict[nn.Module, tuple[torch.Tensor, torch.Tensor]] = {}
        self._tried: nn.Module | None = None
        self._right = False

    def __reduce__(self) -> tuple[Any, ...]:
        return FoldedFeatures, ()  # a copy begins anew, with the backbone that it is asked about

    def __call__(self, backbone: Any, x: torch.Tensor) -> torch.Tensor:
        """Images -> (B, F)."""
        if not (is_residual(backbone) and is_looked_at(backbone, x)):
            self._versions.forget()  # who trains may write what torch does not count
            return plain_features(backbone, x)
        if backbone is not self._tried:
            self._tried, self._right = backbone, self._is_right(backbone, x[:2])
        return self._features(backbone, x) if self._right else plain_features(backbone, x)

    def _is_right(self, backbone: Any, x: torch.Tensor) -> bool:
        """Whether it says of some images what the backbone does, whose code may be newer."""
        found, expected = self._features(backbone, x), plain_features(backbone, x)
        right = found.shape == expected.shape and torch.allclose(
            found, expected, rtol=0, equal_nan=True,
            atol=_ENOUGH * float(expected.abs().nan_to_num(0).amax()))
        if not right:
            _complain(type(backbone).__name__)
        return right

    def _features(self, net: Any, x: torch.Tensor) -> torch.Tensor:
        self._fold(list(pairs_of(net)))
        x = x.contiguous(memory_format=torch.channels_last)
        hidden = self._convolve(net.conv1, x).relu_()  # (B, nf, H, W)
        if hasattr(net, "maxpool"):
            hidden = net.maxpool(hidden)
        for block in blocks_of(net):
            inner = self._convolve(block.conv1, hidden).relu_()
            beside = self._convolve(block.shortcut[0], hidden) if len(block.shortcut) else hidden
            hidden = self._convolve(block.conv2, inner).add_(beside).relu_()
        return hidden.mean((2, 3))

    def _convolve(self, layer: nn.Conv2d, x: torch.Tensor) -> torch.Tensor:
        """Convolution and norm at once."""
        return F.conv2d(x, *self._folded[layer], layer.stride, layer.padding, layer.dilation,
                        layer.groups)

    def _fold(self, pairs: list[tuple[Any, Any]]) -> None:
        """Take the norms into the weights, if something changed."""
        layers = [(conv, norm, norm.eps) for conv, norm in pairs]
        tensors = [tensor for conv, norm in pairs for tensor in (
            *conv.parameters(), *norm.parameters(), *norm.buffers())]
        if layers == self._layers and self._versions.same(tensors):
            return
        folded: dict[nn.Module, tuple[torch.Tensor, torch.Tensor]] = {}
        for conv, norm, eps in layers:
            weight, bias = fuse_conv_bn_weights(conv.weight, conv.bias, norm.running_mean,
                                                norm.running_var, eps, norm.weight, norm.bias)
            folded[conv] = weight.contiguous(memory_format=torch.channels_last), bias
        self._layers, self._folded = layers, folded
        self._versions.remember(tensors)


@cache
def _complain(network: str) -> None:
    """Once, as there may be many copies of a network."""
    print(f"{network} is evaluated without folded norms, which are faster: its features are not "
          "those of Mammoth's residual networks.", file=sys.stderr)


def plain_features(backbone: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Layer by layer, (B, F)."""
    found: torch.Tensor = backbone(x, returnt="features")
    return found


def is_residual(backbone: Any) -> bool:
    """Whether it is one of Mammoth's residual networks of basic blocks, as they were built."""
    return named(backbone, "ResNet") and not backbone.return_prerelu \
        and all(type(stage) is nn.Sequential for stage in stages_of(backbone)) \
        and all(named(block, "BasicBlock") and len(block.shortcut) in (0, 2)
                for block in blocks_of(backbone)) \
        and all(type(conv) is nn.Conv2d and type(norm) is nn.BatchNorm2d
                and norm.running_mean is not None for conv, norm in pairs_of(backbone))


def named(layer: nn.Module, name: str) -> bool:
    """Whether it is of this class of Mammoth's, and not of one that is derived from it."""
    kind = type(layer)
    return kind.__name__ == name and kind.__module__.endswith(_MODULE)


def is_looked_at(backbone: nn.Module, x: torch.Tensor) -> bool:
    """Whether nobody asks for more than the features of images on the CPU."""
    return not torch.is_grad_enabled() and x.device.type == "cpu" and x.dtype in _TYPES \
        and len(x) > 0 and not torch.is_autocast_enabled("cpu") \
        and not nn.modules.module._has_any_global_hook() \
        and not any(layer.training or layer._forward_hooks or layer._forward_pre_hooks
                    or "forward" in vars(layer) for layer in backbone.modules())


def stages_of(net: Any) -> list[Any]:
    """From the first to the last."""
    return [stage for name, stage in net.named_children() if name.startswith("layer")]


def blocks_of(net: Any) -> Iterator[Any]:
    """Of all stages."""
    for stage in stages_of(net):
        yield from stage


def pairs_of(net: Any) -> Iterator[tuple[Any, Any]]:
    """Each convolution and its norm."""
    yield net.conv1, net.bn1
    for block in blocks_of(net):
        yield block.conv1, block.bn1
        yield block.conv2, block.bn2
        if len(block.shortcut):
            yield tuple(block.shortcut)
