"""The rows of a rehearsal memory: allocation, size, device, saving and loading."""
from collections.abc import Sequence
from typing import Any

import torch

from engine.buffer_strategies import STRATEGIES, ReservoirSampling, strategy_name
from engine.errors import UsageError

ATTRIBUTES = ("examples", "labels", "logits", "task_labels", "true_labels")
UNLIMITED = int(1e9)
_FIRST_CAPACITY = 10
_SEED_MIX = 0x9E3779B97F4A7C15


def _mixed(seed: int) -> int:
    """Spread a seed over 64 bits, so that the buffer's stream is not the global one."""
    z = (seed + _SEED_MIX) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


class RowStorage:
    """Tensors of equal length, one row per remembered sample, and a generator.

    Args: see `utils.buffer.Buffer`.
    """

    # Created by the first addition, like the rest of ATTRIBUTES; declared for type checkers.
    examples: torch.Tensor
    labels: torch.Tensor
    task_labels: torch.Tensor

    def __init__(self, buffer_size: int, device: torch.device | str,
                 sample_selection_strategy: str, seed: int | None) -> None:
        self.sample_selection_strategy = strategy_name(sample_selection_strategy)
        self.sample_selection_fn = self._new_strategy()
        self._buffer_size = self._checked_size(buffer_size)
        self.device = device
        self.attributes = list(ATTRIBUTES)
        self.attention_maps: list[list[torch.Tensor] | None] = [None] * self._buffer_size
        self._seen = 0
        self._filled = 0
        seed = torch.initial_seed() if seed is None else seed
        self.generator = torch.Generator().manual_seed(_mixed(seed))

    def _new_strategy(self) -> ReservoirSampling:
        """The strategy as it is before any sample."""
        return STRATEGIES[self.sample_selection_strategy]()

    def _checked_size(self, size: int) -> int:
        """Rows to allocate for a requested size."""
        if not self.sample_selection_fn.bounded:
            return _FIRST_CAPACITY
        if size < 1:
            raise UsageError(f"Expected --buffer_size to be at least 1, but got {size}; "
                             f"choose how many samples the method may remember.")
        return int(size)

    def __len__(self) -> int:
        """Number of rows in use."""
        return self._filled

    def _rows(self) -> torch.Tensor:
        """Numbers of the rows in use, on the CPU."""
        return torch.arange(self._filled)

    @property
    def num_seen_examples(self) -> int:
        """How many samples were offered so far."""
        return self._seen

    @num_seen_examples.setter
    def num_seen_examples(self, value: int) -> None:
        """Declare that the tensors hold the first `value` samples (methods reset with 0)."""
        self._seen = int(value)
        self._filled = min(self._seen, self._buffer_size)

    @property
    def buffer_size(self) -> int:
        """The largest number of rows."""
        return self._buffer_size if self.sample_selection_fn.bounded else UNLIMITED

    @buffer_size.setter
    def buffer_size(self, size: int) -> None:
        """Make room, or keep the rows that the strategy chooses; no effect when unlimited."""
        if not self.sample_selection_fn.bounded or size == self._buffer_size:
            return
        size = self._checked_size(size)
        self._resize(size, self.sample_selection_fn.keep(self, size))
        self.sample_selection_fn.resized(self)

    def _resize(self, size: int, rows: torch.Tensor) -> None:
        """Allocate `size` rows and move the given old rows to the front."""
        for name in self.used_attributes:
            old = getattr(self, name)
            new = old.new_zeros((size, *old.shape[1:]))
            new[:len(rows)] = old[rows.to(old.device)]
            setattr(self, name, new)
        maps = [self.attention_maps[row] for row in rows.tolist()]
        self.attention_maps = maps + [None] * (size - len(maps))
        self._buffer_size, self._filled = size, len(rows)

    @property
    def used_attributes(self) -> list[str]:
        """Names of the tensors that exist, in the order in which `get_data` returns them."""
        own = vars(self)
        return [name for name in self.attributes if name in own]

    def is_empty(self) -> bool:
        """Whether nothing has been stored."""
        return self._seen == 0

    def is_full(self) -> bool:
        """Whether the next sample has to replace one."""
        return len(self) >= self.buffer_size

    def empty(self) -> None:
        """Forget everything; the size and the random generator stay as they are."""
        for name in self.used_attributes:
            delattr(self, name)
        self._seen = self._filled = 0
        self.attention_maps = [None] * self._buffer_size
        self.sample_selection_fn = self._new_strategy()

    def to(self, device: torch.device | str) -> "RowStorage":
        """Move the rows to a device."""
        self.device = device
        for name in self.used_attributes:
            setattr(self, name, getattr(self, name).to(device))
        return self

    def _allocate(self, batch: dict[str, torch.Tensor]) -> None:
        """Create the tensors with their full size on the first call."""
        if "examples" not in vars(self):
            for name, value in batch.items():
                kind = torch.int64 if name.endswith("els") else torch.float32
                shape = (self._buffer_size, *value.shape[1:])
                setattr(self, name, torch.zeros(shape, dtype=kind, device=self.device))

    def _grow(self, needed: int) -> None:
        """Double the rows until `needed` fit, so that appending stays cheap."""
        size = self._buffer_size
        while size < needed:
            size *= 2
        if size > self._buffer_size:
            self._resize(size, self._rows())

    def _write(self, slots: list[int], batch: dict[str, torch.Tensor],
               maps: Sequence[torch.Tensor] | None) -> None:
        """Store sample i in slots[i]; of several for one slot, the last in the stream stays."""
        size = self._buffer_size
        winners = {slot: i for i, slot in enumerate(slots) if 0 <= slot < size}
        if not winners:
            return
        self._mark_filled(winners)
        target = torch.tensor(list(winners), device=self.device)
        source = torch.tensor(list(winners.values()))
        for name, value in batch.items():
            stored = getattr(self, name)
            chosen = value.index_select(0, source.to(value.device))
            stored.index_copy_(0, target, chosen.to(stored))
        for slot, i in winners.items():
            self.attention_maps[slot] = None if maps is None else [
                layer[i].detach().byte().to(self.device) for layer in maps]

    def _mark_filled(self, slots: dict[int, int]) -> None:
        """Count the rows in use: free slots are taken in order."""
        self._filled = max(self._filled, max(slots) + 1)

    def serialize(self, out_device: torch.device | str = "cpu") -> dict[str, torch.Tensor]:
        """The tensors by name, with all their rows, as upstream's checkpoints have them."""
        return {name: getattr(self, name).to(out_device) for name in self.used_attributes}

    def state_dict(self) -> dict[str, Any]:
        """Everything, including what the next draws will be; safe for `weights_only`."""
        rows = self._rows()
        maps = [self.attention_maps[row] for row in rows.tolist()]
        return {
            "strategy": self.sample_selection_strategy,
            "strategy_state": self.sample_selection_fn.state(),
            "buffer_size": self._buffer_size,
            "num_seen_examples": self._seen,
            "rows": rows,
            "tensors": {name: getattr(self, name)[rows.to(self.device)].cpu()
                        for name in self.used_attributes},
            "attention_maps": maps if any(m is not None for m in maps) else [],
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the buffer that `state_dict` was taken from; the device stays.

        Raises:
            UsageError: it was a buffer with another strategy.
        """
        if state["strategy"] != self.sample_selection_strategy:
            raise UsageError(f"Expected a `{self.sample_selection_strategy}` buffer, but the "
                             f"checkpoint holds a `{state['strategy']}` one; use the arguments "
                             f"of the run that wrote it.")
        self._buffer_size = int(state["buffer_size"])
        self.empty()
        rows = state["rows"]
        if state["tensors"]:
            self._allocate(state["tensors"])
        for name, value in state["tensors"].items():
            getattr(self, name)[rows.to(self.device)] = value.to(self.device)
        for row, maps in zip(rows.tolist(), state["attention_maps"], strict=False):
            self.attention_maps[row] = maps
        self._seen, self._filled = int(state["num_seen_examples"]), len(rows)
        self.sample_selection_fn.load(state["strategy_state"])
        self.generator.set_state(state["generator"].cpu())
