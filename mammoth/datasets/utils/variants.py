"""Benchmark variants from YAML: `--dataset_config online` and the like."""
from typing import TYPE_CHECKING, Any

from engine.errors import UsageError

if TYPE_CHECKING:
    from datasets.utils.continual_dataset import ContinualDataset

_ABSENT = object()


def _one_transform(name: str, options: Any) -> Any:
    from torchvision import transforms

    if not hasattr(transforms, name):
        raise UsageError(f"Expected the name of a torchvision transform in the dataset's YAML, but "
                         f"got `{name}`.")
    if name == "RandomApply":
        inner = [_one_transform(*item) for item in options["transform"].items()]
        return transforms.RandomApply(inner, options["p"])
    kind = getattr(transforms, name)
    if options is None:
        return kind()
    return kind(**options) if isinstance(options, dict) else kind(options)


def build_torchvision_transform(description: Any) -> Any:
    """A pipeline from a list of names, `{Name: arguments}` or `{Name: argument}`.

    Raises:
        UsageError: a name is unknown.
    """
    from torchvision import transforms

    entries = description if isinstance(description, list) else [description]
    steps = []
    for entry in entries:
        for name, options in (entry.items() if isinstance(entry, dict) else [(entry, None)]):
            steps.append(_one_transform(name, options))
    return transforms.Compose(steps)


def _field_value(dataset_class: "type[ContinualDataset]", field: str, value: Any) -> Any:
    if field in dataset_class.composed_fields:
        return build_torchvision_transform(value)
    return tuple(value) if field in ("SIZE", "MEAN", "STD") else value


def set_class_fields(dataset_class: "type[ContinualDataset]",
                     config: dict[str, Any]) -> dict[str, Any]:
    """Set the entries of a variant on the class, after undoing the variant before.

    Returns:
        The entries that are no fields of the benchmark, i.e. command-line arguments.
    """
    for name, value in vars(dataset_class).get("_before_variant", {}).items():
        if value is _ABSENT:
            delattr(dataset_class, name)
        else:
            setattr(dataset_class, name, value)
    known = {field.casefold(): field for field in (
        *dataset_class.base_fields, *dataset_class.optional_fields,
        *dataset_class.composed_fields)}
    before, arguments = {}, {}
    for key, value in config.items():
        field = known.get(key.casefold(), key)
        before[field] = vars(dataset_class).get(field, _ABSENT)
        if field == key and key.casefold() not in known:
            arguments[key] = value
            setattr(dataset_class, field, value)
        else:
            setattr(dataset_class, field, _field_value(dataset_class, field, value))
    dataset_class._before_variant = before
    return arguments
