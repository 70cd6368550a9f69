"""Residual networks for small images: a 3x3 stem of stride 1 and no max-pooling.

Reference: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, with the stem
that the continual-learning literature uses on 32x32 and 64x64 images.
"""
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from backbone import MammothBackbone, ReturnTypes, register_backbone
from backbone.base import canonical_return_type, channels_last_on_cpu
from engine.argument_types import PositiveInt

# Fewer filters stay in the usual order: with channels innermost, torch 2.13's backward pass of a
# strided 1x1 convolution (the shortcut's) of fewer than 8 channels writes outside its memory
# and crashes. 8 and more are clean under glibc's heap checks; twice that leaves room for
# processors with wider vectors.
_SAFE_FILTERS = 16


def conv3x3(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """3x3 convolution that keeps the extent (at stride 1); batch norm supplies the bias."""
    return nn.Conv2d(in_planes, out_planes, 3, stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which projects where shapes differ."""

    expansion = 1

    def __init__(self, in_planes: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.return_prerelu = False
        self.prerelu: torch.Tensor | None = None
        self.conv1 = conv3x3(in_planes, planes, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = nn.BatchNorm2d(planes)
        projection: list[nn.Module] = []
        if stride > 1 or in_planes != planes:
            projection = [nn.Conv2d(in_planes, planes, 1, stride, bias=False),
                          nn.BatchNorm2d(planes)]
        self.shortcut = nn.Sequential(*projection)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, in_planes, H, W) -> (B, planes, H / stride, W / stride)."""
        hidden = F.relu(self.bn1(self.conv1(x)))
        total = self.bn2(self.conv2(hidden)) + self.shortcut(x)
        if self.return_prerelu:
            self.prerelu = total
        return F.relu(total)


class ResNet(MammothBackbone):
    """Stem, four stages of blocks with nf, 2nf, 4nf and 8nf filters, mean, linear classifier.

    Args:
        block: the residual block's class.
        num_blocks: how many blocks each of the four stages has.
        num_classes: number of classes C.
        nf: filters of the first stage.
    """

    def __init__(self, block: type[BasicBlock], num_blocks: Sequence[int], num_classes: int,
                 nf: int) -> None:
        super().__init__()
        self.block = block
        self.num_classes = num_classes
        self.nf = nf
        self.return_prerelu = False
        self.in_planes = nf
        self.conv1 = conv3x3(3, nf)
        self.bn1 = nn.BatchNorm2d(nf)
        self.layer1 = self._stage(nf, num_blocks[0], stride=1)
        self.layer2 = self._stage(2 * nf, num_blocks[1], stride=2)
        self.layer3 = self._stage(4 * nf, num_blocks[2], stride=2)
        self.layer4 = self._stage(8 * nf, num_blocks[3], stride=2)
        self.feature_dim = self.in_planes
        self.classifier = nn.Linear(self.feature_dim, num_classes)

    def _stage(self, planes: int, count: int, stride: int) -> nn.Sequential:
        """`count` blocks, of which the first one reduces the extent by `stride`."""
        stage = nn.Sequential()
        for index in range(count):
            stage.append(self.block(self.in_planes, planes, stride if index == 0 else 1))
            self.in_planes = planes * self.block.expansion
        return stage

    def set_return_prerelu(self, enable: bool = True) -> None:
        """Let `full` show the activations before, instead of after, each stage's last ReLU."""
        self.return_prerelu = enable
        for module in self.modules():
            if isinstance(module, self.block):
                module.return_prerelu = enable
                module.prerelu = None

    def forward(self, x: torch.Tensor, returnt: ReturnTypes = "out") -> Any:
        """Compute what `returnt` asks for.

        Args:
            x: images (B, 3, H, W).
            returnt: see `MammothBackbone`; `full` gives (logits, [stem, stage 1, ..., stage 4]).
        """
        kind = canonical_return_type(returnt)
        if self.nf >= _SAFE_FILTERS:
            x = channels_last_on_cpu(x)
        stem = self.bn1(self.conv1(x))  # (B, nf, H, W)
        hidden = F.relu(stem)
        maps = [stem if self.return_prerelu else hidden]
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            hidden = stage(hidden)
            maps.append(stage[-1].prerelu if self.return_prerelu else hidden)
        features = hidden.mean(dim=(2, 3))  # (B, F)
        if kind == "features":
            return features
        logits = self.classifier(features)  # (B, C)
        return {"out": logits, "both": (logits, features), "full": (logits, maps)}[kind]


@register_backbone("resnet18")
def resnet18(num_classes: PositiveInt, num_filters: PositiveInt = 64) -> ResNet:
    """Two blocks a stage: 11.17 million parameters for 10 classes."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, num_filters)


@register_backbone("reduced-resnet18")
def reduced_resnet18(num_classes: PositiveInt) -> ResNet:
    """ResNet-18 with 20 filters, the small network of the online benchmarks."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, 20)


@register_backbone("resnet34")
def resnet34(num_classes: PositiveInt, num_filters: PositiveInt = 64) -> ResNet:
    """3-4-6-3 blocks: 21.28 million parameters for 10 classes."""
    return ResNet(BasicBlock, (3, 4, 6, 3), num_classes, num_filters)
