"""What the backbone says about the buffer: computed once, and kept with the model."""
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from npcl_plugin.contract import evaluation_mode
from npcl_plugin.network import NPNetwork
from npcl_plugin.versions import Versions


class _Kept(NamedTuple):
    """Features (m, F) of rows (m,) when so many samples had been seen."""

    rows: torch.Tensor
    n_seen: int
    x: torch.Tensor


class ContextFeatures:
    """Features of rows of a buffer, computed anew only where images or weights changed.

    The pass at the end of a task and the evaluation that follows ask for the same. A checkpoint
    has them too, so that a model that is loaded need not look at its buffer again.

    Args:
        net: whose backbone is asked.
        normalise: raw images of the buffer -> what the backbone is evaluated on.
    """

    batch_size = 64  # larger ones leave the caches

    def __init__(self, net: NPNetwork,
                 normalise: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.net, self.normalise = net, normalise
        self._kept: _Kept | None = None
        self._versions = Versions()  # of weights and images
        self._loaded: dict[str, Any] = {}

    def forget(self) -> None:
        """Drop what is kept."""
        self._kept, self._loaded = None, {}
        self._versions.forget()

    def state_dict(self, buffer: Any) -> dict[str, Any]:
        """The features, if they are still those of the buffer, and a digest of what they are of."""
        if self._kept is None:
            return self._loaded
        if buffer.is_empty():
            return {}
        rows, _, x = self._kept
        if not self._knows(buffer, rows):
            return {}
        return {"x": x, "digest": self._digest(buffer, rows, x)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """To be used if they turn out to be of the images and weights that are asked about."""
        self._kept, self._loaded = None, state

    def __call__(self, buffer: Any, rows: torch.Tensor) -> torch.Tensor:
        """Of rows (m,) of the buffer: (m, F)."""
        if self._kept is None or not self._knows(buffer, rows):
            with evaluation_mode(self.net):
                self._kept = _Kept(rows, buffer.num_seen_examples, self._found(buffer, rows))
            self._versions.remember([*self._weights(), buffer.examples])
        return self._kept.x

    def _found(self, buffer: Any, rows: torch.Tensor) -> torch.Tensor:
        loaded, self._loaded = self._loaded, {}
        if loaded and loaded["digest"] == self._digest(buffer, rows, loaded["x"]):
            x: torch.Tensor = loaded["x"]
            return x.to(next(self.net.parameters()).device)
        return torch.cat([self.net.features(part) for part in self._images(buffer, rows)])

    def _images(self, buffer: Any, rows: torch.Tensor) -> Iterator[torch.Tensor]:
        """Batches of them as the backbone takes them."""
        device = next(self.net.parameters()).device
        for part in rows.to(buffer.examples.device).split(self.batch_size):
            yield self.normalise(buffer.examples[part].to(device))

    def _knows(self, buffer: Any, rows: torch.Tensor) -> bool:
        """Whether what is kept is of these rows, and images and weights are what they were."""
        return self._kept is not None and torch.equal(rows, self._kept.rows) \
            and buffer.num_seen_examples == self._kept.n_seen \
            and self._versions.same([*self._weights(), buffer.examples])

    def _weights(self) -> list[torch.Tensor]:
        return [*self.net.backbone.parameters(), *self.net.backbone.buffers()]

    def _digest(self, buffer: Any, rows: torch.Tensor, x: torch.Tensor) -> str:
        """Of features, weights and images, which does not depend on the process."""
        found = hashlib.blake2b(digest_size=16)
        for tensor in (x, *self._weights(), *self._images(buffer, rows)):
            found.update(repr((tensor.dtype, tuple(tensor.shape))).encode())
            found.update(tensor.detach().cpu().contiguous().numpy().data)
        return found.hexdigest()
