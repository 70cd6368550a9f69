"""The ResNet-32 of iCaRL: three stages of 16, 32 and 64 filters, shortcuts without weights.

Reference: Rebuffi et al., "iCaRL: Incremental Classifier and Representation Learning", CVPR
2017, whose Theano network normalises *after* the ReLU and leaves the last sum unrectified.
"""
from typing import Annotated, Any

import torch
from torch import nn
from torch.nn import functional as F

from backbone import MammothBackbone, ReturnTypes, register_backbone
from backbone.base import canonical_return_type, channels_last_on_cpu
from backbone.ResNetBlock import conv3x3
from engine.argument_types import PositiveInt, Range
from engine.errors import UsageError

_BN_EPS = 1e-4
_FILTERS = (16, 32, 64)


class PaddedBlock(nn.Module):
    """Residual block whose shortcut subsamples and pads channels with zeros.

    Args:
        in_planes: channels of the input.
        planes: channels of the output; twice as many mean half the extent.
        rectify: whether the sum goes through a ReLU.
    """

    def __init__(self, in_planes: int, planes: int, rectify: bool = True) -> None:
        super().__init__()
        self.rectify = rectify
        self.stride = 1 if in_planes == planes else 2
        self.padding = (planes - in_planes) // 2
        self.conv1 = conv3x3(in_planes, planes, self.stride)
        self.bn1 = nn.BatchNorm2d(planes, eps=_BN_EPS)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = nn.BatchNorm2d(planes, eps=_BN_EPS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, in_planes, H, W) -> (B, planes, H / stride, W / stride)."""
        hidden = self.bn1(F.relu(self.conv1(x)))
        shortcut = x
        if self.stride > 1:
            shortcut = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.padding, self.padding))
        total = self.bn2(self.conv2(hidden)) + shortcut
        return F.relu(total) if self.rectify else total


class ResNet32(MammothBackbone):
    """6n + 2 layers: a stem, three stages of n blocks, mean, linear classifier.

    Args:
        num_classes: number of classes C.
        depth: number of layers, 20, 32, 44, ...
    """

    def __init__(self, num_classes: int, depth: int = 32) -> None:
        super().__init__()
        count, remainder = divmod(depth - 2, 6)
        if remainder or count < 1:
            raise UsageError(f"Expected --depth to be 6n + 2 (20, 32, 44, 56, ...), "
                             f"but got {depth}.")
        self.num_classes = num_classes
        self.feature_dim = _FILTERS[-1]
        self.conv1 = conv3x3(3, _FILTERS[0])
        self.bn_initial = nn.BatchNorm2d(_FILTERS[0], eps=_BN_EPS)
        self.layer1 = self._stage(_FILTERS[0], _FILTERS[0], count)
        self.layer2 = self._stage(_FILTERS[0], _FILTERS[1], count)
        self.layer3 = self._stage(_FILTERS[1], _FILTERS[2], count)
        last = self.layer3[-1]
        assert isinstance(last, PaddedBlock)
        last.rectify = False
        # No path leads through this layer; checkpoints of this network carry it, so it exists
        # (frozen: a weight outside the graph can have no gradient).
        self.bn_final = nn.BatchNorm2d(_FILTERS[-1], eps=_BN_EPS).requires_grad_(False)
        self.classifier = nn.Linear(self.feature_dim, num_classes)
        self._initialise()

    @staticmethod
    def _stage(in_planes: int, planes: int, count: int) -> nn.Sequential:
        blocks = [PaddedBlock(in_planes if i == 0 else planes, planes) for i in range(count)]
        return nn.Sequential(*blocks)

    def _initialise(self) -> None:
        """He-normal convolutions; classifier weights of variance 1 / F."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        nn.init.normal_(self.classifier.weight, std=self.feature_dim ** -0.5)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x: torch.Tensor, returnt: ReturnTypes = "out") -> Any:
        """Compute what `returnt` asks for.

        Args:
            x: images (B, 3, H, W).
            returnt: see `MammothBackbone`; `full` gives (logits, [stem, stage 1, 2, 3]).
        """
        kind = canonical_return_type(returnt)
        maps = [self.bn_initial(F.relu(self.conv1(channels_last_on_cpu(x))))]  # (B, 16, H, W)
        for stage in (self.layer1, self.layer2, self.layer3):
            maps.append(stage(maps[-1]))
        features = maps[-1].mean(dim=(2, 3))  # (B, 64)
        if kind == "features":
            return features
        logits = self.classifier(features)  # (B, C)
        return {"out": logits, "both": (logits, features), "full": (logits, maps)}[kind]


@register_backbone("resnet32")
def resnet32(num_classes: PositiveInt,
             depth: Annotated[int, Range(int, least=8, most=1202)] = 32) -> ResNet32:
    """iCaRL's network for CIFAR: 464,282 parameters for 10 classes."""
    return ResNet32(num_classes, depth)
