"""Which slot of the memory an incoming sample takes, and which samples a smaller memory keeps.

A strategy looks at the buffer and returns one slot per sample of the batch, in stream order;
a slot outside the buffer means that the sample is not stored. The buffer writes. All
randomness comes from `buffer.generator`, one 63-bit number at a time, so that cutting a stream
into other batches does not change the outcome.
"""
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import torch

from engine.errors import UsageError

if TYPE_CHECKING:
    from engine.buffer_storage import RowStorage

DROP = -1


def draw(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Uniform integers in [0, 2^63); reduced modulo n their bias is below n / 2^63."""
    return torch.empty(shape, dtype=torch.int64).random_(generator=generator)


def _median(values: Iterable[int]) -> float:
    """For a handful of numbers, much faster than numpy's."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


class ReservoirSampling:
    """Every sample of the stream is in memory with the same probability (Vitter, 1985)."""

    needs_labels = False
    bounded = True

    def place(self, buffer: "RowStorage", count: int, labels: torch.Tensor | None) -> list[int]:
        """Slots for `count` new samples: free ones first, then uniform over all seen."""
        filled = len(buffer)
        free = min(count, buffer.buffer_size - filled)
        slots = list(range(filled, filled + free))
        if free < count:
            seen = buffer.num_seen_examples
            ordinals = torch.arange(seen + free + 1, seen + count + 1)  # sample n is the n-th
            slots += (draw(buffer.generator, count - free) % ordinals).tolist()
        return slots

    def keep(self, buffer: "RowStorage", size: int) -> torch.Tensor:
        """Rows that stay, in order, when the memory gets another size: all of them if they fit."""
        if size >= len(buffer):
            return torch.arange(len(buffer))
        return self.choose(buffer, size)

    def choose(self, buffer: "RowStorage", size: int) -> torch.Tensor:
        """Rows for a smaller memory: a uniform choice from a reservoir is a reservoir again."""
        return torch.randperm(len(buffer), generator=buffer.generator)[:size]

    def resized(self, buffer: "RowStorage") -> None:
        """Called after the memory changed its size."""

    def state(self) -> dict[str, int]:
        """What has to be saved besides the memory's contents."""
        return {}

    def load(self, state: dict[str, int]) -> None:
        """Restore what `state` returned."""


class UnlimitedSampling(ReservoirSampling):
    """Everything is kept, in the order of the stream."""

    bounded = False

    def place(self, buffer: "RowStorage", count: int, labels: torch.Tensor | None) -> list[int]:
        """The next free slots; the buffer makes room for them."""
        return list(range(len(buffer), len(buffer) + count))


class RingSampling(ReservoirSampling):
    """The newest sample replaces the oldest."""

    def __init__(self) -> None:
        self.next_slot = 0

    def place(self, buffer: "RowStorage", count: int, labels: torch.Tensor | None) -> list[int]:
        """Slots in turn."""
        start, size = self.next_slot, buffer.buffer_size
        self.next_slot = (start + count) % size
        return [(start + i) % size for i in range(count)]

    def keep(self, buffer: "RowStorage", size: int) -> torch.Tensor:
        """The newest rows, oldest first."""
        filled = len(buffer)
        if not filled:
            return torch.arange(0)
        start = self.next_slot if filled == buffer.buffer_size else 0
        return (torch.arange(filled) + start)[-size:] % filled

    def resized(self, buffer: "RowStorage") -> None:
        """Rows stand oldest first after `keep`; go on behind the newest."""
        self.next_slot = len(buffer) % buffer.buffer_size

    def state(self) -> dict[str, int]:
        """The slot that comes next."""
        return {"next_slot": self.next_slot}

    def load(self, state: dict[str, int]) -> None:
        """Restore the slot that comes next."""
        self.next_slot = int(state["next_slot"])


class BalancoirSampling(ReservoirSampling):
    """Reservoir whose victims come from the largest class, so that classes stay balanced.

    A sample enters with the reservoir's probability, or at once when its class has fewer rows
    than the median class.

    Reference: Buzzega et al., "Rethinking Experience Replay: a Bag of Tricks for Continual
    Learning", ICPR 2020, balanced reservoir sampling.
    """

    needs_labels = True

    def place(self, buffer: "RowStorage", count: int, labels: torch.Tensor | None) -> list[int]:
        """Slots one by one: each decision depends on the classes stored before it."""
        assert labels is not None, "the buffer checks needs_labels"
        filled, seen = len(buffer), buffer.num_seen_examples
        free = min(count, buffer.buffer_size - filled)
        slots = list(range(filled, filled + free))
        incoming = labels.detach().cpu().numpy().astype(np.int64)
        if free == count:
            return slots
        stored = np.empty(buffer.buffer_size, dtype=np.int64)
        if filled:
            stored[:filled] = buffer.labels[:filled].cpu().numpy()
        stored[filled:] = incoming[:free]
        classes, counts = np.unique(stored, return_counts=True)
        held = dict(zip(classes.tolist(), counts.tolist(), strict=True))
        draws = draw(buffer.generator, count - free, 2).tolist()
        for offset, (entry, victim) in enumerate(draws, start=free):
            enters = entry % (seen + offset + 1) < len(stored)
            slots.append(self._one(stored, held, int(incoming[offset]), enters, victim))
        return slots

    @staticmethod
    def _one(stored: np.ndarray, held: dict[int, int], label: int, enters: bool,
             victim: int) -> int:
        """Decide for one sample and bring `stored` and `held` up to date."""
        if not (enters or held.get(label, 0) < _median(held.values())):
            return DROP
        largest = min(held, key=lambda y: (-held[y], y))
        slot = int(np.flatnonzero(stored == largest)[victim % held[largest]])
        stored[slot] = label
        held[largest] -= 1
        if not held[largest]:
            del held[largest]
        held[label] = held.get(label, 0) + 1
        return slot

    def choose(self, buffer: "RowStorage", size: int) -> torch.Tensor:
        """A random choice that takes the classes in turn."""
        order = torch.randperm(len(buffer), generator=buffer.generator)
        labels = buffer.labels[:len(buffer)].cpu()[order]
        rank = torch.empty_like(labels)  # how many of the same class come before
        for label in labels.unique():
            rows = labels == label
            rank[rows] = torch.arange(int(rows.sum()))
        return order[torch.argsort(rank, stable=True)[:size]]


STRATEGIES: dict[str, type[ReservoirSampling]] = {
    "reservoir": ReservoirSampling, "ring": RingSampling,
    "balancoir": BalancoirSampling, "unlimited": UnlimitedSampling,
}


def strategy_name(name: str) -> str:
    """The canonical name of a strategy; `balanced` means `balancoir`.

    Raises:
        UsageError: there is no such strategy.
    """
    key = name.lower()
    key = "balancoir" if key == "balanced" else key
    if key not in STRATEGIES:
        raise UsageError(f"Expected the buffer's sample selection strategy to be one of "
                         f"{', '.join(STRATEGIES)}, but got `{name}`.")
    return key
