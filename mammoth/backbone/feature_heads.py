"""Networks for inputs that are features already: a perceptron, or nothing but a classifier."""
from typing import Any

import torch
from torch import nn

from backbone import MammothBackbone, ReturnTypes, register_backbone
from backbone.base import canonical_return_type
from engine.argument_types import PositiveInt


class FeatureHead(MammothBackbone):
    """Hidden ReLU layers (none: the inputs are the features) and a linear classifier.

    Args:
        input_size: numbers per sample.
        output_size: number of classes C.
        hidden_sizes: width of each hidden layer.
    """

    def __init__(self, input_size: int, output_size: int, hidden_sizes: tuple[int, ...]) -> None:
        super().__init__()
        sizes = (input_size, *hidden_sizes)
        layers: list[nn.Module] = []
        for before, after in zip(sizes[:-1], sizes[1:], strict=True):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.hidden = nn.Sequential(*layers)
        self.feature_dim = sizes[-1]
        self.classifier = nn.Linear(sizes[-1], output_size)

    def forward(self, x: torch.Tensor, returnt: ReturnTypes = "out") -> Any:
        """Logits, features or both; `full` is `both` here.

        Args:
            x: (B, ...) with `input_size` numbers each.
            returnt: see `MammothBackbone`.
        """
        kind = canonical_return_type(returnt)
        features = self.hidden(x.flatten(1))  # (B, F)
        if kind == "features":
            return features
        logits = self.classifier(features)  # (B, C)
        return logits if kind == "out" else (logits, features)


@register_backbone("mlp")
def mlp(num_classes: PositiveInt, mlp_hidden_size: PositiveInt = 512,
        mlp_layers: PositiveInt = 1, input_size: PositiveInt = 1280) -> FeatureHead:
    """A perceptron with `mlp_layers` hidden layers; `input_size` follows the dataset."""
    return FeatureHead(input_size, num_classes, (mlp_hidden_size,) * mlp_layers)


@register_backbone("identity")
def identity(num_classes: PositiveInt, input_size: PositiveInt = 1280) -> FeatureHead:
    """A linear classifier on the inputs themselves; `input_size` follows the dataset."""
    return FeatureHead(input_size, num_classes, ())
