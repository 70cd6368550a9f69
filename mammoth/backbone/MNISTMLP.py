"""The two-layer perceptron of the MNIST benchmarks."""
import logging

import torch
from torch import nn

from backbone import MammothBackbone, ReturnTypes, register_backbone, xavier
from backbone.base import canonical_return_type
from engine.argument_types import PositiveInt

_HIDDEN = 100


class BaseMNISTMLP(MammothBackbone):
    """Perceptron with two hidden ReLU layers; images are flattened.

    Besides `fc1`, `fc2` and `classifier`, the same layers are reachable as `_features` and
    `net`: upstream has these names in its checkpoints, so they load here.

    Args:
        input_size: numbers per image, 784 for MNIST.
        output_size: number of classes C.
        hidden_size: width of both hidden layers.
    """

    def __init__(self, input_size: int, output_size: int, hidden_size: int = _HIDDEN) -> None:
        super().__init__()
        self.input_size = input_size
        self.output_size = output_size
        self.feature_dim = hidden_size
        self.fc1 = nn.Linear(input_size, hidden_size)
        self.fc2 = nn.Linear(hidden_size, hidden_size)
        self._features = nn.Sequential(self.fc1, nn.ReLU(), self.fc2, nn.ReLU())
        self.classifier = nn.Linear(hidden_size, output_size)
        self.net = nn.Sequential(self._features, self.classifier)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw fresh Xavier weights; biases become zero."""
        self.net.apply(xavier)

    def forward(self, x: torch.Tensor, returnt: ReturnTypes = "out") \
            -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Logits, features or both; `full` is `both` here.

        Args:
            x: images (B, ...) with `input_size` numbers each.
            returnt: see `MammothBackbone`.
        """
        kind = canonical_return_type(returnt)
        features = self._features(x.flatten(1))  # (B, F)
        if kind == "features":
            return features
        logits = self.classifier(features)  # (B, C)
        return logits if kind == "out" else (logits, features)


@register_backbone("mnistmlp")
def mnistmlp(num_classes: PositiveInt, mlp_hidden_size: PositiveInt = _HIDDEN,
             input_size: PositiveInt = 784) -> BaseMNISTMLP:
    """784-100-100-C perceptron; `input_size` follows the dataset's images."""
    if mlp_hidden_size != _HIDDEN:
        logging.debug("hidden size is set to `%d` instead of the default `%d`",
                      mlp_hidden_size, _HIDDEN)
    return BaseMNISTMLP(input_size, num_classes, hidden_size=mlp_hidden_size)
