"""A memory with an equal part for each task; within its part the newest replaces the oldest."""
from typing import Any

import torch

from engine.buffer_storage import RowStorage
from engine.buffer_strategies import RingSampling
from engine.errors import RunError, UsageError
from utils.buffer import Buffer


class _PartOfTask(RingSampling):
    """Slots in turn within the part of the current task."""

    def place(self, buffer: RowStorage, count: int, labels: torch.Tensor | None) -> list[int]:
        """Sample n of a task goes to row n modulo the part's size, within the part."""
        assert isinstance(buffer, RingBuffer)
        part, first = buffer.buffer_portion_size, buffer.num_seen_examples
        start = part * buffer.task_number
        if start + part > buffer.buffer_size:
            raise RunError(f"Expected at most {buffer.buffer_size // part} tasks, the number this "
                           f"buffer was made for, but task {buffer.task_number} adds samples.")
        return [start + n % part for n in range(first, first + count)]


class RingBuffer(Buffer):
    """Buffer divided among tasks.

    The method sets `task_number`, and `num_seen_examples` to 0, when a task ends.

    Args:
        buffer_size: number of rows.
        n_tasks: number of equal parts; rows that do not divide stay unused.
        device: where the rows are kept.
    """

    def __init__(self, buffer_size: int, n_tasks: int = 1,
                 device: torch.device | str = "cpu") -> None:
        super().__init__(buffer_size, device, "ring")
        if buffer_size < n_tasks:
            raise UsageError(f"Expected --buffer_size to be at least {n_tasks}, one sample for "
                             f"each task, but got {buffer_size}.")
        self.task_number = 0
        self.buffer_portion_size = buffer_size // n_tasks
        self.filled_space = torch.zeros(buffer_size, dtype=torch.bool)

    def _new_strategy(self) -> RingSampling:
        return _PartOfTask()

    def __len__(self) -> int:
        """Number of rows in use, over all parts."""
        return int(self.filled_space.sum())

    def _rows(self) -> torch.Tensor:
        return torch.nonzero(self.filled_space).flatten()

    def _mark_filled(self, slots: dict[int, int]) -> None:
        self.filled_space[list(slots)] = True

    @property
    def num_seen_examples(self) -> int:
        """How many samples of the current task were offered so far."""
        return self._seen

    @num_seen_examples.setter
    def num_seen_examples(self, value: int) -> None:
        """Start again at the beginning of a part; what is stored stays."""
        self._seen = int(value)

    @property
    def buffer_size(self) -> int:
        """The number of rows of all parts together; fixed."""
        return self._buffer_size

    @buffer_size.setter
    def buffer_size(self, size: int) -> None:
        raise AttributeError("The parts of a RingBuffer are fixed, so its size is; make another.")

    def is_empty(self) -> bool:
        """Whether no task has stored anything."""
        return not self.filled_space.any()

    def empty(self) -> None:
        """Forget everything; the current task stays."""
        super().empty()
        self.filled_space[:] = False

    def state_dict(self) -> dict[str, Any]:
        """Everything that `Buffer.state_dict` has, and the division into parts."""
        return {**super().state_dict(), "task_number": self.task_number,
                "buffer_portion_size": self.buffer_portion_size}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the buffer that `state_dict` was taken from."""
        self.filled_space = torch.zeros(int(state["buffer_size"]), dtype=torch.bool)
        super().load_state_dict(state)
        self.filled_space[state["rows"]] = True
        self.task_number = int(state["task_number"])
        self.buffer_portion_size = int(state["buffer_portion_size"])
