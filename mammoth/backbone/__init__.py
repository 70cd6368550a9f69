"""The networks: small factories, found by name (`--backbone resnet18`)."""
from pathlib import Path
from typing import Any

import utils.torchvision_compat  # noqa: F401  (network files import torchvision at their top)
from engine.registry import Registry

REGISTRY = Registry("backbone", "backbone", Path(__file__).parent)
REGISTERED_BACKBONES = REGISTRY.entries
register_backbone = REGISTRY.register

_FROM_BASE = ("MammothBackbone", "ReturnTypes", "xavier", "num_flat_features")


def get_backbone_names(names_only: bool = False) -> Any:
    """Available names; without `names_only` a mapping name -> factory that imports on look-up."""
    return REGISTRY.names() if names_only else REGISTRY


def get_backbone_class(name: str, return_args: bool = False) -> Any:
    """The class or factory behind a name, with its arguments if asked."""
    entry = REGISTRY.entry(name)
    return (entry["class"], entry["parsable_args"]) if return_args else entry["class"]


def get_backbone(args: Any) -> Any:
    """Build the network that `args.backbone` names, with its arguments taken from `args`."""
    factory, own_args = get_backbone_class(args.backbone, return_args=True)
    given = {name: getattr(args, name) for name in own_args if hasattr(args, name)}
    return factory(**given)


def __getattr__(name: str) -> Any:
    """Offer the base class here, as upstream does, without importing torch for a listing."""
    if name in _FROM_BASE:
        from backbone import base
        return getattr(base, name)
    raise AttributeError(f"module `backbone` has no attribute `{name}`")
