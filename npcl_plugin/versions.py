"""Whether tensors still are what they were: torch counts what is written into each of them."""
from collections.abc import Sequence

import torch


class Versions:
    """Remembers how tensors are, to tell whether they still are so.

    What torch does not count is not seen: writes by `tensor.data` into the same memory, and by
    other views of it that were made in such a way.
    """

    def __init__(self) -> None:
        self._state: list[object] | None = None
        self._places: list[torch.Tensor] = []

    def same(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether nothing changed since they were remembered."""
        return self._state is not None and self._state == _state(tensors)

    def remember(self, tensors: Sequence[torch.Tensor]) -> None:
        """From now on they are compared with how they are now."""
        self._state = _state(tensors)
        # While these are kept, no other tensor can have their places in memory.
        self._places = [tensor.detach() for tensor in tensors]

    def forget(self) -> None:
        """Nothing is the same until something is remembered."""
        self._state, self._places = None, []


def _state(tensors: Sequence[torch.Tensor]) -> list[object]:
    try:
        return [(tensor.data_ptr(), tensor._version) for tensor in tensors]
    except RuntimeError:  # tensors of torch's inference mode count nothing
        return [object()]  # like nothing else
