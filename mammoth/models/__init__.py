"""The continual-learning methods: one file each, found by name (`--model er_ace`)."""
from pathlib import Path
from typing import TYPE_CHECKING, Any

import utils.torchvision_compat  # noqa: F401  (method files import torchvision at their top)
from engine.registry import Registry

if TYPE_CHECKING:
    from models.utils.continual_model import ContinualModel

REGISTRY = Registry("model", "models", Path(__file__).parent,
                    skip_args=("backbone", "loss", "args", "transform", "dataset"))
REGISTERED_MODELS = REGISTRY.entries
register_model = REGISTRY.register


def get_model_names() -> Registry:
    """A mapping name -> class; a class is imported when it is looked up."""
    return REGISTRY


def get_model_class(args: Any) -> "type[ContinualModel]":
    """The class behind `args.model` (or behind a plain name)."""
    return REGISTRY.entry(args if isinstance(args, str) else args.model)["class"]


def get_model(args: Any, backbone: Any, loss: Any, transform: Any, dataset: Any) -> Any:
    """Build the method that `args.model` names."""
    return get_model_class(args)(backbone, loss, args, transform, dataset)
