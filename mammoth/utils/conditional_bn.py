"""Batch normalisation whose scale and shift belong to a condition, e.g. a task."""
import torch
from torch import nn


class _ConditionalBatchNorm(nn.Module):
    """Normalises the batch as one, then scales and shifts each sample by its condition.

    Args:
        num_features: channels.
        num_conditions: number of scales and shifts; scales start near 1, shifts at 0.
    """

    def __init__(self, num_features: int, num_conditions: int, norm: nn.Module) -> None:
        super().__init__()
        self.num_features = num_features
        self.bn = norm
        self.embed = nn.Embedding(num_conditions, 2 * num_features)  # scale, then shift
        with torch.no_grad():
            scale, shift = self.embed.weight.split(num_features, dim=1)
            nn.init.normal_(scale, mean=1.0, std=0.02)
            nn.init.zeros_(shift)

    def forward(self, x: torch.Tensor, cond_id: torch.Tensor,
                flag_stop_grad: torch.Tensor | None = None) -> torch.Tensor:
        """Normalise.

        Args:
            x: (B, C, ...).
            cond_id: (B,) the condition of each sample.
            flag_stop_grad: samples (a mask or indices) that do not train scale and shift.
        """
        affine = self.embed(cond_id)  # (B, 2·C)
        if flag_stop_grad is not None:
            frozen = torch.zeros(len(affine), 1, dtype=torch.bool, device=affine.device)
            frozen[flag_stop_grad] = True
            affine = torch.where(frozen, affine.detach(), affine)
        shape = (len(x), self.num_features, *[1] * (x.dim() - 2))
        scale, shift = (part.reshape(shape) for part in affine.chunk(2, dim=1))
        return torch.addcmul(shift, scale, self.bn(x))


class ConditionalBatchNorm1d(_ConditionalBatchNorm):
    """For inputs (B, C)."""

    def __init__(self, num_features: int, num_conditions: int) -> None:
        super().__init__(num_features, num_conditions, nn.BatchNorm1d(num_features, affine=False))


class ConditionalBatchNorm2d(_ConditionalBatchNorm):
    """For inputs (B, C, H, W)."""

    def __init__(self, num_features: int, num_conditions: int) -> None:
        super().__init__(num_features, num_conditions, nn.BatchNorm2d(num_features, affine=False))
