"""All tasks of a domain-IL benchmark as one training set, without a copy of the images."""
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from datasets.utils.images import Domain, ImageDataset, to_float
from datasets.utils.wrapper import MammothDatasetWrapper


class DomainUnion(ImageDataset):
    """The same N images in the domain of each of T tasks: row t * N + i is image i in task t.

    Domains move pixels, so a batch of many tasks is one gather with a map for each sample.

    Args:
        data: (N, H, W) uint8, what all tasks share.
        targets: (T * N,) labels; noise and missing labels may differ between tasks.
        domains: one per task.
        transform: as in ImageDataset.

    Attributes:
        task_ids: (T * N,) the task of each row.
    """

    def __init__(self, data: Any, targets: torch.Tensor, domains: Sequence[Domain],
                 transform: Callable | None = None) -> None:
        super().__init__(torch.as_tensor(data), targets, transform, train=True)
        moves = [domain.moves(*self.data.shape[1:3]) for domain in domains]
        self._source, self._inside = (torch.stack(part) for part in zip(*moves, strict=True))
        self.task_ids = torch.arange(len(domains)).repeat_interleave(len(self.data))

    def __len__(self) -> int:
        return len(self.targets)

    def _images(self, index: torch.Tensor | slice) -> torch.Tensor:
        if isinstance(index, slice):
            index = torch.arange(*index.indices(len(self)))
        tasks, rows = index // len(self.data), index % len(self.data)
        images = to_float(self.data.index_select(0, rows))  # (B, 1, H, W)
        moved = images.flatten(1).gather(1, self._source[tasks])  # (B, H*W)
        return moved.mul_(self._inside[tasks]).view(images.shape)


def union_of_domains(parts: Iterable[MammothDatasetWrapper]) -> MammothDatasetWrapper:
    """One training set of the training sets of all tasks, taken one at a time.

    The images of the first task serve all: every task has the same ones in its own domain.

    Returns:
        The set, whose items end in `task_ids` besides what items of the parts end in.
    """
    first, domains, targets = None, [], []
    extra: dict[str, list[torch.Tensor]] = {}
    for part in parts:
        first = part if first is None else first
        domains.append(part.domain)
        targets.append(torch.as_tensor(part.targets))
        for name in part.extra_return_fields:
            extra.setdefault(name, []).append(torch.as_tensor(getattr(part, name)))
    assert first is not None, "a benchmark has a task at least"
    union = DomainUnion(first.data, torch.cat(targets), domains, first.transform)
    wrapped = MammothDatasetWrapper(union, train=True)
    for name, values in extra.items():
        wrapped.add_extra_return_field(name, torch.cat(values))
    wrapped.add_extra_return_field("task_ids", union.task_ids)
    return wrapped
