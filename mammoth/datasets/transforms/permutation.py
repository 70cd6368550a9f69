"""Pixel permutations: the tasks of Permuted MNIST."""
import numpy as np
import torch


def private_rng() -> np.random.Generator:
    """A numpy generator started from torch's: numpy's global one is left alone."""
    return np.random.default_rng(int(torch.randint(2 ** 62, (1,))))


class Permutation:
    """One fixed rearrangement of the flattened image, the same for every sample.

    Args:
        size: number of values in a sample.
        rng: where the permutation comes from; from torch's generator when not given.
    """

    perm: np.ndarray | None

    def __init__(self, size: int, rng: np.random.Generator | None = None) -> None:
        self._set((rng or private_rng()).permutation(size))

    def _set(self, order: np.ndarray) -> None:
        self.perm = order
        self._source = torch.from_numpy(order)

    def __call__(self, sample: torch.Tensor) -> torch.Tensor:
        """Args: one image of any shape. Returns: its values rearranged, same shape."""
        return self.on_batch(sample.unsqueeze(0)).squeeze(0)

    def on_batch(self, images: torch.Tensor) -> torch.Tensor:
        """Args: images (B, ...). Returns: each rearranged in the same way."""
        flat = images.reshape(len(images), -1)  # (B, size)
        return flat.index_select(1, self._source.to(flat.device)).view(images.shape)

    def moves(self, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Where each pixel comes from (H*W,), and that all come from inside the image."""
        return self._source, torch.ones(height * width, dtype=torch.bool)


class FixedPermutation(Permutation):
    """A permutation that depends on `seed` only; its size is that of the first image seen."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.perm = None

    def on_batch(self, images: torch.Tensor) -> torch.Tensor:
        """Args: images (B, ...). Returns: each rearranged in the same way."""
        self._fix(images[0].numel())
        return super().on_batch(images)

    def moves(self, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Where each pixel comes from (H*W,), and that all come from inside the image."""
        self._fix(height * width)
        return super().moves(height, width)

    def _fix(self, size: int) -> None:
        if self.perm is None:
            self._set(np.random.default_rng(self.seed).permutation(size))
