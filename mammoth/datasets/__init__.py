"""The benchmarks: one file each, found by name (`--dataset seq-cifar10`)."""
from pathlib import Path
from typing import Any

import utils.torchvision_compat  # noqa: F401  (costs nothing until torchvision is imported)
from engine.registry import Registry, parsable_args
from engine.settings import dashed

_FOLDER = Path(__file__).parent
REGISTRY = Registry("dataset", "datasets", _FOLDER, skip_args=("args",))
REGISTERED_DATASETS = REGISTRY.entries
register_dataset = REGISTRY.register


def get_dataset_names(names_only: bool = False) -> Any:
    """Available names; without `names_only` a mapping name -> class that imports on look-up."""
    return REGISTRY.names() if names_only else REGISTRY


def get_dataset_config_names(dataset: str) -> list[str]:
    """The variants of a benchmark: stems of the YAML files in `configs/<dataset>/`."""
    return sorted(path.stem for path in (_FOLDER / "configs" / dashed(dataset)).glob("*.yaml"))


def get_dataset_class(args: Any, return_args: bool = False) -> Any:
    """The class behind `args.dataset` (or a plain name), with its own arguments if asked.

    With `args.features` it is the benchmark's counterpart on features.
    """
    entry = REGISTRY.entry(args if isinstance(args, str) else args.dataset)
    found, own_args = entry["class"], entry["parsable_args"]
    by_data = hasattr(found, "resolved") and not isinstance(args, str)
    if by_data:  # the data decide what it is
        found = found.resolved(args)
    if getattr(args, "features", None):
        from datasets.utils.features.benchmark import on_features

        found = on_features(found)
        own_args = own_args if by_data else parsable_args(found, ("args",))
    return (found, own_args) if return_args else found


def get_dataset(args: Any) -> Any:
    """Build the benchmark that `args.dataset` names."""
    dataset_class, own_args = get_dataset_class(args, return_args=True)
    given = {name: getattr(args, name) for name in own_args if hasattr(args, name)}
    return dataset_class(args, **given)


def __getattr__(name: str) -> Any:
    """Offer the base class here, as upstream does, without importing torch for a listing."""
    if name == "ContinualDataset":
        from datasets.utils.continual_dataset import ContinualDataset
        return ContinualDataset
    raise AttributeError(f"module `datasets` has no attribute `{name}`")
