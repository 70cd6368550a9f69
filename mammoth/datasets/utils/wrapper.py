"""What every training and test set of a task is wrapped in."""
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from engine.errors import UsageError


class MammothDatasetWrapper(Dataset):
    """A dataset whose items can be extended by further fields.

    Attributes that the wrapped dataset has (`data`, `targets`, `transform`, `task_ids`, ...) are
    read and written through; the rest belongs to the wrapper.

    Args:
        ext_dataset: any dataset with `data` and `targets`.
        train: whether items carry a third part, the image without augmentation.

    Attributes:
        indexes: positions of the items in the complete dataset.
        extra_return_fields: names of the attributes that are appended to each item.
        num_times_iterated: how many passes over the data were started.
    """

    required_fields = ("data", "targets")
    extra_return_fields: tuple[str, ...] = ()
    dataset: Any
    indexes: np.ndarray

    def __init__(self, ext_dataset: Any, train: bool = False) -> None:
        missing = [name for name in self.required_fields if not hasattr(ext_dataset, name)]
        if missing:
            raise UsageError(f"Expected {type(ext_dataset).__name__} to have `data` and `targets`, "
                             f"but it lacks {' and '.join(missing)}; set them in its __init__.")
        own = vars(self)
        own["dataset"] = ext_dataset
        own["train"] = train
        own["indexes"] = np.arange(len(ext_dataset))
        own["num_times_iterated"] = 0

    def __getattr__(self, name: str) -> Any:
        # Only called for what the wrapper itself lacks; `dataset` may be missing while copying.
        wrapped = vars(self).get("dataset")
        if wrapped is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no attribute `{name}`")
        return getattr(wrapped, name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name in vars(self) or hasattr(type(self), name)
        if not own and hasattr(vars(self).get("dataset"), name):
            setattr(self.dataset, name, value)
        else:
            super().__setattr__(name, value)

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Any:
        self.num_times_iterated += 1
        return (self[i] for i in range(len(self)))

    def add_extra_return_field(self, field_name: str, field_value: Any) -> None:
        """Append a value to each item; `field_value` is indexed like `data`."""
        setattr(self, field_name, field_value)
        self.extra_return_fields += (field_name,)

    def _extra(self, name: str, index: Any) -> Any:
        values = getattr(self, name)
        if len(values) != len(self.targets):  # given for the complete dataset
            index = torch.as_tensor(self.indexes)[index]
        return values, index

    def __getitem__(self, index: int) -> tuple:
        item = tuple(self.dataset[index])
        for name in self.extra_return_fields:
            values, at = self._extra(name, index)
            item += (values[int(at)],)
        return item

    def fetch(self, index: torch.Tensor | slice) -> tuple:
        """Whole batch at once, for wrapped datasets that can: rows `index` of each field."""
        batch = self.dataset.fetch(index)
        for name in self.extra_return_fields:
            values, at = self._extra(name, index)
            batch += (torch.as_tensor(values)[at],)
        return batch
