"""The inverse of torchvision's Normalize."""
from collections.abc import Sequence

import torch


class DeNormalize:
    """Brings normalised images back to [0, 1]: x * std + mean, channel by channel.

    Args:
        mean: per channel, as given to Normalize.
        std: per channel, as given to Normalize.
    """

    def __init__(self, mean: Sequence[float] | torch.Tensor,
                 std: Sequence[float] | torch.Tensor) -> None:
        self.mean = torch.as_tensor(mean, dtype=torch.float32)
        self.std = torch.as_tensor(std, dtype=torch.float32)

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        """Args: images (C, H, W) or (B, C, H, W). Returns: a new tensor of the same shape."""
        mean, std = (value.to(tensor).view(-1, 1, 1) for value in (self.mean, self.std))
        return tensor * std + mean
