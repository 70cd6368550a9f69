"""Where rows stand while they are encoded: which see each other, which share a layer.

The rows of a step are few and of many kinds, so that finding their places costs more than the
products do; it is done with numpy, which takes a tenth of torch's time for each small operation.
"""
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import torch

# A slot of a stacked layer costs about as much as ten more rows: its weights are copied.
_COST_OF_A_SLOT = 10


class Blocks(NamedTuple):
    """Which samples are encoded, and together with whom.

    G sets have P parts each: targets and context in training, the context alone in inference.
    The rows of a block, one part of one set, see each other and nobody else.
    """

    rows: np.ndarray  # (R,) the sample at each row; a context point is a target too
    parts: np.ndarray  # (R,)
    sets: np.ndarray  # (R,)
    n_parts: int
    n_sets: int

    @classmethod
    def of_sets(cls, sets: np.ndarray) -> "Blocks":
        """Samples of sets (B,), numbered from 0 without a gap, of one part each."""
        return cls(np.arange(len(sets)), np.zeros(len(sets), np.int64), sets, 1,
                   int(sets.max()) + 1)

    @classmethod
    def targets_and_context(cls, sets: np.ndarray, context: np.ndarray) -> "Blocks":
        """Targets of the sets (B,), and those of them that are context too, (m,)."""
        rows = np.concatenate((np.arange(len(sets)), context))
        return cls(rows, (np.arange(len(rows)) >= len(sets)).astype(np.int64), sets[rows], 2,
                   int(sets.max()) + 1)


class Cells(NamedTuple):
    """Samples of G sets sorted into K cells: one for each task of each set."""

    tasks: torch.Tensor  # (K,)
    sets: torch.Tensor  # (K,)
    cell: torch.Tensor  # (B,) cell of each target
    sizes: torch.Tensor  # (K,) targets in each
    set_share: torch.Tensor  # (G,) part of all targets that each set has
    n_sets: int


class Slots(NamedTuple):
    """Rows of one task side by side in slots of equal width, for one batched product.

    A free place repeats row 0; what it computes is never read.
    """

    tasks: torch.Tensor  # (n,) task of each slot
    rows: torch.Tensor  # (n width,) row at each place
    place: torch.Tensor  # (R,) place of each row
    width: int

    @classmethod
    def of(cls, tasks: np.ndarray, device: torch.device, width: int | None = None) -> "Slots":
        """Sort rows by task (R,); the cheapest width by default."""
        present, group, counts = np.unique(tasks, return_inverse=True, return_counts=True)
        if width is None:
            width = cheapest_width(counts)
        needed = -(-counts // width)  # slots of each task
        ends = counts.cumsum()
        order = group.argsort(kind="stable")
        rank = np.arange(len(tasks)) - (ends - counts).repeat(counts)
        place = np.empty(len(tasks), np.int64)
        place[order] = ((needed.cumsum() - needed) * width).repeat(counts) + rank
        rows = np.zeros(int(needed.sum()) * width, np.int64)
        rows[place] = np.arange(len(tasks))
        owner = torch.from_numpy(present.repeat(needed)).to(device)
        return cls(owner, torch.from_numpy(rows).to(device), torch.from_numpy(place).to(device),
                   width)

    def pack(self, rows: torch.Tensor) -> torch.Tensor:
        """(R, n) -> (slots, width, n)."""
        if len(self.tasks) == 1:
            return rows.unsqueeze(0)
        packed: torch.Tensor = rows.index_select(0, self.rows).unflatten(0, (-1, self.width))
        return packed

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        """(slots, width, n) -> (R, n)."""
        if len(self.tasks) == 1:
            return packed[0]
        return packed.flatten(0, 1).index_select(0, self.place)


def cheapest_width(counts: np.ndarray) -> int:
    """Width of slots for tasks of these sizes; a single task is one slot."""
    largest = int(counts.max())
    if len(counts) == 1:
        return largest
    widths: list[int] = [*(2 ** i for i in range(2, largest.bit_length())), largest]
    costs = [int((-(-counts // width)).sum()) * (width + _COST_OF_A_SLOT) for width in widths]
    return widths[costs.index(min(costs))]


class Arrangement(Protocol):
    """Rows (R, n) as groups that attend separately, (G', n', n), and back."""

    @property
    def mask(self) -> torch.Tensor | None:
        """(G', n' or 1, n'): False where a row must not see another; None if all may."""

    def arrange(self, rows: torch.Tensor) -> torch.Tensor:
        """Into groups."""

    def restore(self, grouped: torch.Tensor) -> torch.Tensor:
        """Back into rows."""


@dataclass(frozen=True)
class InPlace:
    """Rows already stand in groups of equal length; numbers of their own say who may meet."""

    n_groups: int
    mask: torch.Tensor | None

    @classmethod
    def of(cls, owner: np.ndarray, n_groups: int, device: torch.device) -> "InPlace":
        """Rows with the same owner (R,) meet; groups are equal parts of R."""
        if n_groups == 1 and (owner == owner[0]).all():
            return cls(1, None)
        apart = torch.from_numpy(owner).to(device).view(n_groups, -1)
        return cls(n_groups, apart.unsqueeze(2) == apart.unsqueeze(1))

    def arrange(self, rows: torch.Tensor) -> torch.Tensor:
        """(R, n) -> (G, R / G, n)."""
        grouped: torch.Tensor = rows.unflatten(0, (self.n_groups, -1))
        return grouped

    def restore(self, grouped: torch.Tensor) -> torch.Tensor:
        """(G, R / G, n) -> (R, n)."""
        return grouped.flatten(0, 1)


@dataclass(frozen=True)
class Packed:
    """A group for each task, filled up to the largest."""

    slots: Slots  # one for each task
    mask: torch.Tensor | None

    @classmethod
    def of(cls, tasks: np.ndarray, device: torch.device) -> "Packed":
        """Rows of the same task (R,) meet."""
        counts = np.unique(tasks, return_counts=True)[1]
        width = int(counts.max())
        mask = None if (counts == width).all() else torch.from_numpy(
            np.arange(width) < counts[:, None, None]).to(device)
        return cls(Slots.of(tasks, device, width), mask)

    def arrange(self, rows: torch.Tensor) -> torch.Tensor:
        """(R, n) -> (T', n_max, n)."""
        return self.slots.pack(rows)

    def restore(self, grouped: torch.Tensor) -> torch.Tensor:
        """(T', n_max, n) -> (R, n)."""
        return self.slots.unpack(grouped)


class Layout:
    """Everything about the places of the rows that a pass through the hierarchy needs.

    Sets stand side by side, G rows of n places: a set's targets, its context, then padding,
    which repeats sample 0 and has a cell and a block of its own, so that it meets nobody. What a
    relative of the family does not need is not computed.

    Args:
        tasks: (B,) of the samples.
        blocks: every task of a set has a row in each of its parts.
        dtype: of the rows.
    """

    def __init__(self, tasks: torch.Tensor, blocks: Blocks, dtype: torch.dtype) -> None:
        self.device, self.dtype, of_samples = tasks.device, dtype, tasks.cpu().numpy()
        self.n_sets, self.n_blocks = blocks.n_sets, blocks.n_parts * blocks.n_sets
        at, free = places(blocks.sets, blocks.n_sets)
        source = np.zeros(len(free), np.int64)
        source[at] = blocks.rows
        self._task = of_samples[source]
        self._block = np.full(len(free), self.n_blocks)
        self._block[at] = blocks.parts * blocks.n_sets + blocks.sets
        stride = int(of_samples.max()) + 1
        code = np.where(free, self.n_blocks * stride, self._block * stride + self._task)
        codes, self._cell = np.unique(code, return_inverse=True)
        n_cells = (len(codes) - bool(free.any())) // blocks.n_parts  # K; padding is the last code
        self._n_cells = n_cells * blocks.n_parts
        targets = self._cell[at[blocks.parts == 0]]
        self._count = np.bincount(targets, minlength=n_cells)
        sets = codes[:n_cells] // stride
        shares = np.bincount(sets, self._count, blocks.n_sets) / self._count.sum()
        self.source = self._tensor(source)  # (G n,) the sample at each place
        self.cells = Cells(
            self._tensor(codes[:n_cells] % stride), self._tensor(sets), self._tensor(targets),
            self._tensor(self._count), self._tensor(shares).to(dtype), blocks.n_sets)

    def _tensor(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values).to(self.device)

    @cached_property
    def slots(self) -> Slots:
        """Places by task."""
        return Slots.of(self._task, self.device)

    @cached_property
    def within_cells(self) -> Arrangement:
        """Rows of a cell meet."""
        if self.n_blocks > 1 or mostly_padding(self._count):
            return InPlace.of(self._cell, self.n_sets, self.device)
        return Packed.of(self._task, self.device)

    @cached_property
    def within_blocks(self) -> Arrangement:
        """Rows of a block meet."""
        return InPlace.of(self._block, self.n_sets, self.device)

    @cached_property
    def cell_means(self) -> torch.Tensor:
        """Weights (P K, G n) that make means over cells."""
        return self._tensor(means(self._cell, self._n_cells)).to(self.dtype)

    @cached_property
    def block_means(self) -> torch.Tensor:
        """Weights (P G, G n) that make means over blocks."""
        return self._tensor(means(self._block, self.n_blocks)).to(self.dtype)


def places(sets: np.ndarray, n_sets: int) -> tuple[np.ndarray, np.ndarray]:
    """The place of each row (R,) in equally long sets, and which places stay free (G n,)."""
    if n_sets == 1:
        return np.arange(len(sets)), np.zeros(len(sets), bool)
    counts = np.bincount(sets, minlength=n_sets)
    length = int(counts.max())
    order = sets.argsort(kind="stable")
    place = np.empty(len(sets), np.int64)
    place[order] = np.arange(len(sets)) - (counts.cumsum() - counts).repeat(counts)
    return place + sets * length, (np.arange(length) >= counts[:, None]).ravel()


def mostly_padding(counts: np.ndarray) -> bool:
    """Whether pairs within packed tasks outnumber the pairs of all rows."""
    return bool(len(counts) * counts.max() ** 2 > counts.sum() ** 2)


def means(owner: np.ndarray, count: int) -> np.ndarray:
    """Weights (count, R) that average the rows of each owner 0..count-1; others do not count."""
    mine = np.arange(count)[:, None] == owner
    weights: np.ndarray = mine / mine.sum(1, keepdims=True)
    return weights
