"""Feature backbones with room for a neural process, by name (`--backbone npcl-resnet18`).

`--model npcl --backbone NAME` wraps any other backbone by itself; these names exist for code
that builds networks without a model. Without a model of the family they answer as the wrapped
network does.
"""
from typing import Annotated

from npcl_plugin.contract import get_backbone_class, number, register_backbone
from npcl_plugin.network import NPNetwork

Size = Annotated[int, number(int, least=1)]


def _build(name: str, **sizes: int) -> NPNetwork:
    """The named network of the harness, wrapped."""
    factory, accepted = get_backbone_class(name, return_args=True)
    return NPNetwork(factory(**{key: value for key, value in sizes.items() if key in accepted}))


@register_backbone("npcl-resnet18")
def npcl_resnet18(num_classes: Size, num_filters: Size = 64) -> NPNetwork:
    """ResNet-18 for small images."""
    return _build("resnet18", num_classes=num_classes, num_filters=num_filters)


@register_backbone("npcl-reduced-resnet18")
def npcl_reduced_resnet18(num_classes: Size) -> NPNetwork:
    """ResNet-18 with 20 filters."""
    return _build("reduced-resnet18", num_classes=num_classes)


@register_backbone("npcl-mnistmlp")
def npcl_mnistmlp(num_classes: Size, mlp_hidden_size: Size = 100,
                  input_size: Size = 784) -> NPNetwork:
    """The MNIST benchmarks' perceptron; upstream's takes 784 numbers only."""
    return _build("mnistmlp", num_classes=num_classes, mlp_hidden_size=mlp_hidden_size,
                  input_size=input_size)
