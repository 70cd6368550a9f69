"""Where rows stand while they are encoded: which see each other, which share a layer.

The rows of a step are few and of many kinds, so that finding their places costs more than the
products do; it is done with numpy, which takes a tenth of torch's time for each small operation.
"""
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

# Added to the score of two rows it leaves no weight, and unlike -inf it may be multiplied.
_NEVER = -1e9
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
    in_groups: bool = True  # for attention by torch; see `Frame`

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

    def key(self, like: torch.Tensor) -> tuple[Any, ...]:
        """All but the samples, and the type and device of their features."""
        return (self.parts.tobytes(), self.sets.tobytes(), *self[3:], like.dtype, like.device)


@dataclass
class Cells:
    """Samples of G sets sorted into K cells: one for each task of each set."""

    tasks: torch.Tensor  # (K,)
    sets: torch.Tensor  # (K,)
    cell: torch.Tensor  # (B,) cell of each target
    sizes: torch.Tensor  # (K,) targets in each
    share: torch.Tensor  # (K,) part of all targets that each has
    set_share: torch.Tensor  # (G,) part of all targets that each set has
    n_sets: int

    @cached_property
    def own(self) -> torch.Tensor:
        """The cell of each target, one-hot (B, K): a product with it is faster than indexing."""
        return self.own_in(1)

    def own_in(self, turns: int) -> torch.Tensor:
        """Turn and cell of each target, one-hot (B, turns K); targets take turns one by one."""
        count, device = self.tasks.shape[0], self.cell.device
        turn = torch.arange(self.cell.shape[0], device=device) % turns
        numbers = torch.arange(turns * count, device=device)
        return (torch.add(self.cell, turn, alpha=count).unsqueeze(1) == numbers).to(self.share)

    @cached_property
    def slots(self) -> "Slots":
        """Targets by cell."""
        return Slots.of(self.cell.cpu().numpy(), self.cell.device)

    def only(self, kept: torch.Tensor) -> "Cells":
        """Some of the cells; what is known of targets stays as it was."""
        return replace(self, tasks=self.tasks[kept], sets=self.sets[kept])


class Slots(NamedTuple):
    """Rows of one task side by side in slots of equal width, for one batched product.

    A free place repeats row 0; what it computes is never read.
    """

    tasks: torch.Tensor  # (n,) task of each slot
    rows: torch.Tensor  # (n width,) row at each place
    place: torch.Tensor  # (R,) place of each row

    @classmethod
    def of(cls, tasks: np.ndarray, device: torch.device, width: int | None = None) -> "Slots":
        """Sort rows by task (R,); the cheapest width by default."""
        present, counts = numbers_present(tasks)
        if width is None:
            width = cheapest_width(counts)
        needed = -(-counts // width)  # slots of each task
        order = tasks.argsort(kind="stable")
        rank = np.arange(len(tasks)) - (counts.cumsum() - counts).repeat(counts)
        place = np.empty(len(tasks), np.int64)
        place[order] = ((needed.cumsum() - needed) * width).repeat(counts) + rank
        rows = np.zeros(int(needed.sum()) * width, np.int64)
        rows[place] = np.arange(len(tasks))
        owner = torch.from_numpy(present.repeat(needed)).to(device)
        return cls(owner, torch.from_numpy(rows).to(device), torch.from_numpy(place).to(device))

    def pack(self, rows: torch.Tensor) -> torch.Tensor:
        """(R, n) -> (slots, width, n)."""
        count = self.tasks.shape[0]
        if count == 1:
            return rows.unsqueeze(0)
        packed: torch.Tensor = rows.index_select(0, self.rows).unflatten(0, (count, -1))
        return packed

    def weights(self, like: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
        """Weights (R,), equal ones by default, as (slots, width, 1) with 0 at free places."""
        spread = like.new_zeros(self.rows.shape[0])
        if weight is None:
            spread.index_fill_(0, self.place, 1 / self.place.shape[0])
        else:
            spread.index_copy_(0, self.place, weight)
        return spread.view(self.tasks.shape[0], -1, 1)

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        """(slots, width, n) -> (R, n)."""
        if self.tasks.shape[0] == 1:
            return packed[0]
        return packed.flatten(0, 1).index_select(0, self.place)


def cheapest_width(counts: np.ndarray) -> int:
    """Width of slots for tasks of these sizes; a single task is one slot."""
    sizes: list[int] = counts.tolist()
    largest: int = max(sizes)
    if len(sizes) == 1:
        return largest
    widths: list[int] = [*(2 ** i for i in range(3, largest.bit_length())), largest]
    costs = [sum(-(-size // width) for size in sizes) * (width + _COST_OF_A_SLOT)
             for width in widths]
    return widths[costs.index(min(costs))]


class Arrangement(Protocol):
    """Rows (R, n) as groups that attend separately, (G', n', n), and back."""

    @property
    def owner(self) -> torch.Tensor | None:
        """(R,) rows with the same number, a float, meet; None if all do."""

    @property
    def mask(self) -> torch.Tensor | None:
        """(G', n' or 1, n'), to be added to the scores; None if all rows of a group may meet."""

    def arrange(self, rows: torch.Tensor) -> torch.Tensor:
        """Into groups."""

    def restore(self, grouped: torch.Tensor) -> torch.Tensor:
        """Back into rows."""


@dataclass(frozen=True)
class InPlace:
    """Rows already stand in groups of equal length; numbers of their own say who may meet."""

    n_groups: int
    owner: torch.Tensor | None  # (R,), no number in two groups; None: a single group meets
    uniform: bool = False  # everybody in a group meets

    @classmethod
    def of(cls, owner: np.ndarray, n_groups: int, like: torch.Tensor) -> "InPlace":
        """Rows with the same owner (R,) meet; groups are equal parts of R."""
        grouped = owner.reshape(n_groups, -1)
        uniform = bool((grouped == grouped[:, :1]).all())
        return cls(n_groups, torch.from_numpy(owner).to(like), uniform)

    @cached_property
    def mask(self) -> torch.Tensor | None:
        """See `Arrangement.mask`."""
        if self.owner is None or self.uniform:
            return None
        owners = self.owner.unflatten(0, (self.n_groups, -1))
        return apart(owners, owners)

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
    owner: torch.Tensor  # (R,) the tasks

    @classmethod
    def of(cls, tasks: np.ndarray, like: torch.Tensor) -> "Packed":
        """Rows of the same task (R,) meet."""
        counts = numbers_present(tasks)[1]
        width = int(counts.max())
        free = torch.from_numpy(np.arange(width) >= counts[:, None, None]).to(like)
        return cls(Slots.of(tasks, like.device, width),
                   None if (counts == width).all() else free.mul_(_NEVER),
                   torch.from_numpy(tasks).to(like))

    def arrange(self, rows: torch.Tensor) -> torch.Tensor:
        """(R, n) -> (T', n_max, n)."""
        return self.slots.pack(rows)

    def restore(self, grouped: torch.Tensor) -> torch.Tensor:
        """(T', n_max, n) -> (R, n)."""
        return self.slots.unpack(grouped)


class Frame:
    """Where the rows of blocks stand, whatever their tasks: the same in almost every step.

    In groups, sets stand side by side, G rows of n places: a set's targets, its context, then
    padding, which repeats sample 0 and has a cell and a block of its own, so that it meets nobody.
    Otherwise all rows stand in one line, without padding.

    Args:
        parts, sets: (R,) of the rows.
        in_groups: see `Blocks`.
        like: a tensor with the type and device of the rows.
    """

    def __init__(self, parts: np.ndarray, sets: np.ndarray, n_parts: int, n_sets: int,
                 in_groups: bool, like: torch.Tensor) -> None:
        self.n_parts, self.n_sets, self.n_blocks = n_parts, n_sets, n_parts * n_sets
        self.in_groups, self.n_groups = in_groups, n_sets if in_groups else 1
        self.like = like[:0]
        self.place, self.free = places(sets, self.n_groups)
        self.block = np.full(len(self.free), self.n_blocks)
        self.block[self.place] = parts * n_sets + sets
        self.targets = self.place[parts == 0]  # (B,)
        self.within_blocks = InPlace.of(self.block, self.n_groups, like)  # rows of a block meet
        # Weights (P G, G n) that make means over blocks.
        self.block_means = torch.from_numpy(means(self.block, self.n_blocks)).to(like)

    @classmethod
    def of(cls, blocks: Blocks, like: torch.Tensor) -> "Frame":
        """The frame of these blocks, from those of the last steps if it is there."""
        return _frame(*blocks.key(like))


@lru_cache(maxsize=8)
def _frame(parts: bytes, sets: bytes, n_parts: int, n_sets: int, in_groups: bool,
           dtype: torch.dtype, device: torch.device) -> Frame:
    return Frame(np.frombuffer(parts, np.int64).copy(), np.frombuffer(sets, np.int64).copy(),
                 n_parts, n_sets, in_groups, torch.empty(0, dtype=dtype, device=device))


class Layout:
    """Everything about the places of the rows that a pass through the hierarchy needs.

    What a relative of the family does not need is not computed.

    Args:
        tasks: (B,) of the samples.
        blocks: every task of a set has a row in each of its parts.
        like: a tensor with the type and device of the rows.
    """

    def __init__(self, tasks: torch.Tensor, blocks: Blocks, like: torch.Tensor) -> None:
        frame = self.frame = Frame.of(blocks, like)
        self._like, of_samples = frame.like, tasks.cpu().numpy()
        source = np.zeros(len(frame.free), np.int64)
        source[frame.place] = blocks.rows
        self._task = of_samples[source]
        stride = int(of_samples.max()) + 1
        code = np.where(frame.free, frame.n_blocks * stride, frame.block * stride + self._task)
        codes, sizes = numbers_present(code)
        number = np.zeros(frame.n_blocks * stride + 1, np.int64)
        number[codes] = np.arange(len(codes))
        self._cell = number[code]
        # K; padding is the last code.
        n_cells = (len(codes) - bool(frame.free.any())) // frame.n_parts
        self._n_cells, self._count = n_cells * frame.n_parts, sizes[:n_cells]
        targets, sets = self._cell[frame.targets], codes[:n_cells] // stride
        total = self._count.sum()
        shares = np.bincount(sets, self._count, frame.n_sets) / total
        self.source = self._tensor(source)  # (G n,) the sample at each place
        self.cells = Cells(
            self._tensor(codes[:n_cells] % stride), self._tensor(sets), self._tensor(targets),
            self._tensor(self._count), self._tensor(self._count / total).to(like),
            self._tensor(shares).to(like), frame.n_sets)

    @classmethod
    def of_one_task(cls, blocks: Blocks, like: torch.Tensor) -> "Layout":
        """All samples of the same task: but for the rows, the same in almost every step."""
        found = copy(_of_one_task(*blocks.key(like)))
        found.cells, frame = copy(found.cells), found.frame
        source = np.zeros(len(frame.free), np.int64)
        source[frame.place] = blocks.rows
        found.source = found._tensor(source)
        return found

    def complete(self, by_task: bool, by_cell: bool) -> None:
        """Compute what is computed when it is asked for, as far as it will be.

        Args:
            by_task: there are layers of each task's own.
            by_cell: targets of a cell are decoded together.
        """
        in_groups = self.frame.in_groups  # else neither slots nor masks are needed
        if by_task:
            _ = self.cell_means, self.within_cells
            _ = (self.slots, self.within_cells.mask) if in_groups else self.tasks
        if in_groups:
            _ = self.frame.within_blocks.mask
        if by_cell:
            _ = self.cells.slots

    def _tensor(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values).to(self._like.device)

    @cached_property
    def tasks(self) -> torch.Tensor:
        """The task at each place, as floats (G n,)."""
        return self._tensor(self._task).to(self._like)

    @cached_property
    def slots(self) -> Slots:
        """Places by task."""
        return Slots.of(self._task, self._like.device)

    @cached_property
    def within_cells(self) -> Arrangement:
        """Rows of a cell meet."""
        if self.frame.n_blocks > 1 or mostly_padding(self._count):
            return InPlace.of(self._cell, self.frame.n_groups, self._like)
        return Packed.of(self._task, self._like)

    @cached_property
    def cell_means(self) -> torch.Tensor:
        """Weights (P K, G n) that make means over cells."""
        return self._tensor(means(self._cell, self._n_cells)).to(self._like)


@lru_cache(maxsize=8)
def _of_one_task(parts: bytes, sets: bytes, n_parts: int, n_sets: int, in_groups: bool,
                 dtype: torch.dtype, device: torch.device) -> Layout:
    of_rows = np.frombuffer(parts, np.int64).copy()
    blocks = Blocks(np.zeros_like(of_rows), of_rows, np.frombuffer(sets, np.int64).copy(), n_parts,
                    n_sets, in_groups)
    found = Layout(torch.zeros(len(of_rows), dtype=torch.long), blocks,
                   torch.empty(0, dtype=dtype, device=device))
    found.complete(by_task=False, by_cell=True)
    return found


def numbers_present(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The small numbers that occur (R,), sorted, and how often: faster than `np.unique`."""
    counts = np.bincount(values)
    present = counts.nonzero()[0]
    return present, counts[present]


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


def apart(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Owners (..., n) and (..., m), as floats -> (..., n, m) to be added to scores of attention.

    0 where they are the same; the square is a faster way to tell than comparing.
    """
    return (first.unsqueeze(-1) - second.unsqueeze(-2)).square_().mul_(_NEVER)


def mostly_padding(counts: np.ndarray) -> bool:
    """Whether pairs within packed tasks outnumber the pairs of all rows."""
    return bool(len(counts) * counts.max() ** 2 > counts.sum() ** 2)


def means(owner: np.ndarray, count: int) -> np.ndarray:
    """Weights (count, R) that average the rows of each owner 0..count-1; others do not count."""
    mine = np.arange(count)[:, None] == owner
    weights: np.ndarray = mine / np.bincount(owner, minlength=count)[:count, None]
    return weights
