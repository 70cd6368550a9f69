"""Similarity-preserving distillation (Tung and Mori, 2019)."""
import torch
import torch.nn.functional as F
from torch import nn


def similarities(features: torch.Tensor) -> torch.Tensor:
    """Inner products between all samples of a batch, each row scaled to length 1.

    Args:
        features: (B, ...).

    Returns:
        (B, B)
    """
    flat = features.flatten(start_dim=1)
    return F.normalize(flat @ flat.mT, dim=1)


class SPKDLoss(nn.Module):
    """Squared distance between the similarity matrices of two networks on the same batch.

    Args:
        reduction: "batchmean" divides by the square of the batch's size; anything else does not.
    """

    def __init__(self, reduction: str) -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, teacher_outputs: torch.Tensor, student_outputs: torch.Tensor) -> torch.Tensor:
        """Both (B, ...), of any width; returns a scalar."""
        gap = (similarities(teacher_outputs) - similarities(student_outputs)).square().sum()
        return gap / len(teacher_outputs) ** 2 if self.reduction == "batchmean" else gap
