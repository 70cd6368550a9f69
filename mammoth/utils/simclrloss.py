"""Contrastive losses over several views of each sample: SimCLR, and its supervised form.

Khosla et al., "Supervised contrastive learning" (2020), equation 2; without labels it is SimCLR's.
"""
from typing import Literal

import torch
from torch import nn


class SupConLoss(nn.Module):
    """For each anchor, minus the mean log-probability of picking one of its positives.

    The probability is a softmax over all other views in the batch, of inner products divided by
    the temperature.

    Args:
        temperature: of the softmax.
        contrast_mode: which views are anchors: "all", or "one" for the first view of each sample.
        base_temperature: the loss is multiplied by temperature / base_temperature.
        reduction: "mean" over samples; anything else is their sum.
    """

    def __init__(self, temperature: float = 0.07, contrast_mode: Literal["all", "one"] = "all",
                 base_temperature: float = 0.07, reduction: str = "mean") -> None:
        super().__init__()
        if contrast_mode not in ("all", "one"):
            raise ValueError(f"Expected contrast_mode to be all or one, but got {contrast_mode}.")
        self.temperature = temperature
        self.contrast_mode = contrast_mode
        self.base_temperature = base_temperature
        self.reduction = reduction

    def forward(self, features: torch.Tensor, labels: torch.Tensor | None = None,
                mask: torch.Tensor | None = None) -> torch.Tensor:
        """The loss of a batch.

        Args:
            features: (B, V, ...), V views of each sample.
            labels: (B,); samples with the same label are positives of each other.
            mask: (B, B) instead of labels; entry (i, j) says whether j is a positive of i.
        """
        if features.dim() < 3:
            raise ValueError(f"Expected features of shape (samples, views, ...), but got "
                             f"{tuple(features.shape)}.")
        count, views = features.shape[:2]
        related = self._related(count, labels, mask, features.device)  # (B, B)
        rows = features.reshape(count * views, -1)                     # (B·V, D), sample by sample
        step = 1 if self.contrast_mode == "all" else views
        anchors = torch.arange(0, count * views, step, device=features.device)
        owner = torch.arange(count, device=features.device).repeat_interleave(views)

        itself = anchors[:, None] == torch.arange(count * views, device=features.device)
        logits = (rows[anchors] @ rows.mT / self.temperature).masked_fill(itself, -torch.inf)
        log_probs = logits.log_softmax(dim=1).masked_fill(itself, 0.0)
        positives = related[owner[anchors]][:, owner].masked_fill(itself, 0.0)
        chosen = (positives * log_probs).sum(dim=1) / positives.sum(dim=1)
        losses = -self.temperature / self.base_temperature * chosen.view(count, -1).mean(dim=1)
        return losses.mean() if self.reduction == "mean" else losses.sum()

    @staticmethod
    def _related(count: int, labels: torch.Tensor | None, mask: torch.Tensor | None,
                 device: torch.device) -> torch.Tensor:
        if labels is not None and mask is not None:
            raise ValueError("Expected labels or a mask, but got both.")
        if mask is not None:
            return mask.float().to(device)
        if labels is None:
            return torch.eye(count, device=device)
        if len(labels) != count:
            raise ValueError(f"Expected {count} labels, but got {len(labels)}.")
        return (labels[:, None] == labels[None, :]).float().to(device)
