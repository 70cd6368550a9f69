"""A small convolutional network: real images at many epochs on one thread of a CPU."""
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from backbone import MammothBackbone, ReturnTypes, register_backbone
from backbone.base import canonical_return_type, channels_last_on_cpu
from backbone.ResNetBlock import conv3x3
from engine.argument_types import PositiveInt


class SmallConv(MammothBackbone):
    """Three 3x3 convolutions that each halve the extent, mean, linear classifier.

    Args:
        num_classes: number of classes C.
        num_filters: filters of the first layer; each further one has twice as many.
    """

    def __init__(self, num_classes: int, num_filters: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        widths = (num_filters, 2 * num_filters, 4 * num_filters)
        self.feature_dim = widths[-1]
        self.layers = nn.ModuleList(
            nn.Sequential(conv3x3(inner, outer, stride=2), nn.BatchNorm2d(outer))
            for inner, outer in zip((3, *widths), widths, strict=False))
        self.classifier = nn.Linear(self.feature_dim, num_classes)

    def forward(self, x: torch.Tensor, returnt: ReturnTypes = "out") -> Any:
        """Compute what `returnt` asks for.

        Args:
            x: images (B, 3, H, W).
            returnt: see `MammothBackbone`; `full` gives (logits, [layer 1, 2, 3]).
        """
        kind = canonical_return_type(returnt)
        hidden, maps = channels_last_on_cpu(x), []
        for layer in self.layers:
            hidden = F.relu(layer(hidden))  # (B, F_i, H / 2^i, W / 2^i)
            maps.append(hidden)
        features = hidden.mean(dim=(2, 3))  # (B, F)
        if kind == "features":
            return features
        logits = self.classifier(features)  # (B, C)
        return {"out": logits, "both": (logits, features), "full": (logits, maps)}[kind]


@register_backbone("smallconv")
def smallconv(num_classes: PositiveInt, num_filters: PositiveInt = 32) -> SmallConv:
    """Three convolutions of 32, 64 and 128 filters: 94,762 parameters for 10 classes."""
    return SmallConv(num_classes, num_filters)
