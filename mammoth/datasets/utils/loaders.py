"""A data loader for images in memory: whole batches by index, exact resumption."""
import weakref
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch.utils.data import RandomSampler, Sampler, SequentialSampler


class _Pass(Iterator):
    """One pass over the data; remembers how it began, so that it can be repeated."""

    def __init__(self, loader: "TensorLoader", order: torch.Tensor | None,
                 start_state: torch.Tensor, first: int) -> None:
        self.start_state = start_state
        self.position = first
        self._dataset = loader.dataset
        self._bounds = loader.bounds()
        self._order = order
        self.exhausted = False

    def __next__(self) -> tuple:
        if self.position >= len(self._bounds):
            self.exhausted = True
            raise StopIteration
        begin, end = self._bounds[self.position]
        self.position += 1
        index = slice(begin, end) if self._order is None else self._order[begin:end]
        return self._dataset.fetch(index)


class TensorLoader:
    """Behaves as a DataLoader over a dataset that can `fetch` many rows at once.

    The order of a pass comes from the loader's own generator and is drawn when the pass starts;
    augmentation draws from torch's global generator batch by batch.

    Args:
        dataset: has `fetch(index)`, `__len__` and `num_times_iterated`.
        batch_size: samples per batch.
        shuffle: a new order for each pass.
        drop_last: leave out an incomplete last batch.
        generator: source of the order.
        batch_sizes: explicit sizes of consecutive batches, for streams with their own rhythm.
    """

    num_workers = 0
    pin_memory = False
    collate_fn = None
    worker_init_fn = None

    def __init__(self, dataset: Any, batch_size: int = 1, shuffle: bool = False,
                 drop_last: bool = False, generator: torch.Generator | None = None,
                 batch_sizes: Sequence[int] | None = None) -> None:
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = bool(drop_last)
        self.generator = generator if generator is not None else torch.Generator()
        self._batch_sizes = batch_sizes
        self._passes: list[weakref.ref[_Pass]] = []
        self._interrupted: torch.Tensor | None = None
        self._skip: int | None = None

    @property
    def sampler(self) -> Sampler:
        """For code that asks; the loader itself draws whole orders."""
        if self.shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    def bounds(self) -> list[tuple[int, int]]:
        """First and last position (exclusive) of each batch within a pass."""
        if self._batch_sizes is not None:
            ends = torch.tensor([0, *self._batch_sizes]).cumsum(0).tolist()
            return list(pairwise(ends))
        total, size = len(self.dataset), self.batch_size
        full = [(begin, min(begin + size, total)) for begin in range(0, total, size)]
        return full[:-1] if self.drop_last and total % size else full

    def __len__(self) -> int:
        if self._batch_sizes is not None:
            return len(self._batch_sizes)
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> _Pass:
        skip, self._skip = self._skip, None
        start, self._interrupted = self._interrupted, None
        if skip is None or start is None:
            start = self.generator.get_state()
            order = self._draw(self.generator)
        else:
            order = self._draw(torch.Generator().set_state(start))
        self.dataset.num_times_iterated += 1
        started = _Pass(self, order, start, skip or 0)
        self._passes = [ref for ref in self._passes if ref() is not None]
        self._passes.append(weakref.ref(started))
        return started

    def _draw(self, generator: torch.Generator) -> torch.Tensor | None:
        return torch.randperm(len(self.dataset), generator=generator) if self.shuffle else None

    def _running(self) -> _Pass | None:
        """The oldest pass that somebody still holds and has not run to its end.

        A model that looks at a batch with `next(iter(loader))` leaves nothing behind; one that
        does so within an epoch is younger than the training loop's pass.
        """
        alive = [ref() for ref in self._passes]
        return next((p for p in alive if p is not None and not p.exhausted), None)

    def state_dict(self) -> dict[str, Any]:
        """The generator now, and where the pass in progress (if any) began and stands."""
        running = self._running()
        return {"generator": self.generator.get_state(),
                "pass_start": None if running is None else running.start_state,
                "position": 0 if running is None else running.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`; call `skip_batches` too if a pass was interrupted."""
        self.generator.set_state(state["generator"])
        self._interrupted = state["pass_start"]
        self._skip = None

    def skip_batches(self, count: int) -> None:
        """Let the next `iter` repeat the interrupted pass from batch `count` on.

        Skipped batches are not made, so no generator advances for them. Without an interrupted
        pass the next one starts at batch `count` of an ordinary order.
        """
        self._skip = count
