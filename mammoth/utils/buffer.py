"""The rehearsal memory: a fixed number of rows, each a sample with what belongs to it.

    buffer = Buffer(200)
    buffer.add_data(examples=x, labels=y)               # whole batches, in stream order
    x, y = buffer.get_data(32, transform=augment)       # rows drawn without replacement

Which rows stay is decided by a strategy (`engine/buffer_strategies.py`). The buffer has a random
generator of its own: the method under test and its memory do not disturb each other's draws.
"""
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from engine.buffer_sampling import balanced_rows, rows_of_task
from engine.buffer_storage import RowStorage
from engine.buffer_strategies import (
    BalancoirSampling,
    ReservoirSampling,
    RingSampling,
    UnlimitedSampling,
)
from engine.errors import RunError, UsageError
from engine.exemplars import fill_buffer, icarl_replay

__all__ = ["BalancoirSampling", "Buffer", "ReservoirSampling", "RingSampling",
           "UnlimitedSampling", "fill_buffer", "icarl_replay"]

Transform = Callable[[torch.Tensor], torch.Tensor]


class Buffer(RowStorage):
    """Rehearsal memory.

    The tensors `examples`, `labels`, `logits`, `task_labels` and `true_labels` exist from the
    first `add_data` on, as far as they were given there; those named "labels" are int64, the
    others float32.

    Args:
        buffer_size: number of rows; any number for `unlimited`.
        device: where the rows are kept.
        sample_selection_strategy: reservoir, ring, balancoir (or balanced), unlimited.
        seed: of the buffer's generator; taken from torch's seed if not given.
        kwargs: what strategies of upstream take (`dataset`); not used by these.
    """

    def __init__(self, buffer_size: int, device: torch.device | str = "cpu",
                 sample_selection_strategy: str = "reservoir", seed: int | None = None,
                 **kwargs: Any) -> None:
        super().__init__(buffer_size, device, sample_selection_strategy, seed)

    @torch.no_grad()
    def add_data(self, examples: torch.Tensor, labels: torch.Tensor | None = None,
                 logits: torch.Tensor | None = None, task_labels: torch.Tensor | None = None,
                 attention_maps: Sequence[torch.Tensor] | None = None,
                 true_labels: torch.Tensor | None = None,
                 sample_selection_scores: torch.Tensor | None = None) -> None:
        """Offer a batch to the memory, exactly as if its samples came one by one.

        Args:
            examples: (B, ...), not augmented.
            labels: (B,).
            logits: (B, C) or any other float tensor to remember.
            task_labels: (B,).
            attention_maps: tensors (B, ...), one per layer; kept as bytes.
            true_labels: (B,) labels before noise.
            sample_selection_scores: for strategies that this buffer does not have.

        Raises:
            UsageError: other attributes than in the first call, or tensors that do not fit.
        """
        given = {"examples": examples, "labels": labels, "logits": logits,
                 "task_labels": task_labels, "true_labels": true_labels}
        batch = {name: value for name, value in given.items() if value is not None}
        self._check(batch, sample_selection_scores)
        if not len(examples):
            return
        self._allocate(batch)
        slots = self.sample_selection_fn.place(self, len(examples), labels)
        if not self.sample_selection_fn.bounded:
            self._grow(slots[-1] + 1)
        self._seen += len(examples)
        self._write(slots, batch, attention_maps)

    def _check(self, batch: dict[str, torch.Tensor], scores: torch.Tensor | None) -> None:
        """Refuse a batch that would leave rows with wrong or stale contents."""
        if scores is not None:
            raise UsageError(f"The `{self.sample_selection_strategy}` buffer uses no "
                             f"sample_selection_scores; leave the argument out.")
        if self.sample_selection_fn.needs_labels and "labels" not in batch:
            raise UsageError(f"The `{self.sample_selection_strategy}` buffer chooses rows by "
                             f"class; pass `labels` to add_data.")
        used = self.used_attributes
        if used and set(used) != set(batch):
            raise UsageError(f"Expected add_data to get {', '.join(used)}, as in its first call, "
                             f"but got {', '.join(batch)}; call empty() to start anew.")
        count = len(batch["examples"])
        for name, value in batch.items():
            shape = getattr(self, name).shape[1:] if used else value.shape[1:]
            if value.shape != (count, *shape):
                raise UsageError(f"Expected `{name}` to have shape {(count, *shape)}, "
                                 f"but got {tuple(value.shape)}.")

    def get_data(self, size: int, transform: Transform | None = None, return_index: bool = False,
                 device: torch.device | str | None = None, mask_task_out: int | None = None,
                 cpt: int | Sequence[int] | None = None, return_not_aug: bool = False,
                 not_aug_transform: Transform | None = None,
                 force_indexes: Sequence[int] | None = None,
                 mask_task_in: int | None = None) -> tuple[torch.Tensor, ...]:
        """Draw rows at random, without replacement.

        Args:
            size: how many; at most as many as there are.
            transform: applied to the examples.
            return_index: whether to return the row numbers too, before everything else.
            device: where the result goes; the buffer's by default.
            mask_task_out: leave out the rows of this task.
            cpt: classes per task, to tell tasks by label when no task labels are stored.
            return_not_aug: whether to return the examples without `transform` too.
            not_aug_transform: applied to those instead.
            force_indexes: row numbers to return instead of drawing.
            mask_task_in: use only the rows of this task.

        Returns:
            ([row numbers,] [plain examples,] examples, *attributes in their order).
        """
        self._refuse_empty()
        if force_indexes is not None:
            rows = torch.as_tensor(force_indexes, dtype=torch.int64)
        else:
            rows = self._rows()
            for task, inside in ((mask_task_out, False), (mask_task_in, True)):
                if task is not None:
                    rows = rows[rows_of_task(self, rows, task, cpt) == inside]
            rows = rows[torch.randperm(len(rows), generator=self.generator)[:size]]
        result = self.get_data_by_index(rows, transform, device)
        if return_not_aug:
            plain = self._examples(rows, not_aug_transform)
            result = (plain.to(self.device if device is None else device), *result)
        if return_index:
            result = (rows.to(self.device if device is None else device), *result)
        return result

    def get_balanced_data(self, size: int, transform: Transform | None = None,
                          n_classes: int = -1) -> tuple[torch.Tensor, ...]:
        """Draw rows spread evenly over `n_classes` random classes (-1: over all).

        Fewer classes are used when not enough of them have the rows for their share.
        """
        self._refuse_empty()
        return self.get_data_by_index(balanced_rows(self, self._rows(), size, n_classes),
                                      transform)

    def get_data_by_index(self, indexes: Any, transform: Transform | None = None,
                          device: torch.device | str | None = None) -> tuple[torch.Tensor, ...]:
        """The given rows: (examples, *attributes)."""
        self._refuse_empty()
        target = self.device if device is None else device
        rows = torch.as_tensor(indexes)
        rows = torch.nonzero(rows).flatten() if rows.dtype == torch.bool else rows.long()
        others = (getattr(self, name) for name in self.used_attributes[1:])
        return (self._examples(rows, transform).to(target),
                *(value.index_select(0, rows.to(value.device)).to(target) for value in others))

    def get_all_data(self, transform: Transform | None = None,
                     device: torch.device | str | None = None) -> tuple[torch.Tensor, ...]:
        """All rows in use, in memory order; copies, so later additions do not change them."""
        return self.get_data_by_index(self._rows(), transform, device)

    def _examples(self, rows: torch.Tensor, transform: Transform | None) -> torch.Tensor:
        chosen = self.examples.index_select(0, rows.to(self.examples.device))
        if transform is None:
            return chosen
        from utils.augmentations import apply_transform
        return apply_transform(chosen, transform)

    def _refuse_empty(self) -> None:
        if not hasattr(self, "examples"):
            raise RunError("Expected the buffer to hold data, but nothing was added yet; "
                           "check is_empty() before drawing from it.")

    def __getitem__(self, index: int, transform: Transform | None = None) -> list[torch.Tensor]:
        """One row: [example, *attributes]."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} of a buffer with {len(self)} rows")
        return [value[0] for value in self.get_data_by_index(
            self._rows()[index].reshape(1), transform)]

    def __iter__(self) -> Iterator[list[torch.Tensor]]:
        """The rows in memory order."""
        return (self[index] for index in range(len(self)))

    def get_dataloader(self, args: Namespace, batch_size: int, shuffle: bool = False,
                       drop_last: bool = False, transform: Transform | None = None,
                       sampler: Any = None) -> DataLoader:
        """Batches over the whole memory, in an order that depends on the run's seed."""
        from utils.conf import create_seeded_dataloader
        return create_seeded_dataloader(args, _Rows(self, transform), batch_size=batch_size,
                                        shuffle=shuffle, drop_last=drop_last, sampler=sampler,
                                        num_workers=0, non_verbose=True)


class _Rows(Dataset):
    """The buffer as a dataset with a transform of its own."""

    def __init__(self, buffer: Buffer, transform: Transform | None) -> None:
        self.buffer = buffer
        self.transform = transform

    def __len__(self) -> int:
        return len(self.buffer)

    def __getitem__(self, index: int) -> list[torch.Tensor]:
        return self.buffer.__getitem__(index, self.transform)
