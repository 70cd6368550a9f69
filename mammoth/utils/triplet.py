"""Triplet losses with the hardest pairs of a batch (Hermans et al., 2017), k for each anchor."""
import torch
import torch.nn.functional as F


def batch_hard_triplet_loss(labels: torch.Tensor, embeddings: torch.Tensor, k: int,
                            margin: float = 0, margin_type: str = "soft") -> torch.Tensor | None:
    """Pull each anchor's k farthest positives closer than its k nearest negatives.

    Args:
        labels: (B,).
        embeddings: (B, D).
        k: pairs per anchor, matched by rank: the farthest positive with the nearest negative.
        margin: by how much the squared distances should differ.
        margin_type: "soft" = softplus of the violation; anything else = its positive part.

    Returns:
        The mean over all pairs; None if no anchor has a negative.
    """
    return _hinge(labels, embeddings, k, margin, margin_type, with_positives=True)


def negative_only_triplet_loss(labels: torch.Tensor, embeddings: torch.Tensor, k: int,
                               margin: float = 0,
                               margin_type: str = "soft") -> torch.Tensor | None:
    """As `batch_hard_triplet_loss`, with distance 0 to every positive: only push apart."""
    return _hinge(labels, embeddings, k, margin, margin_type, with_positives=False)


def _hinge(labels: torch.Tensor, embeddings: torch.Tensor, k: int, margin: float,
           margin_type: str, with_positives: bool) -> torch.Tensor | None:
    k = min(k, len(labels))
    gaps = embeddings[:, None] - embeddings[None, :]  # (B, B, D)
    distances = gaps.square().sum(dim=2)              # (B, B)
    same = labels[:, None] == labels[None, :]
    near = distances.masked_fill(same, torch.inf).topk(k, dim=1, largest=False).values  # (B, k)
    valid = near.isfinite()
    if not valid.any():
        return None
    violation = margin - near[valid]
    if with_positives:
        far = distances.masked_fill(~same, 0.0).topk(k, dim=1).values                   # (B, k)
        violation = violation + far[valid]
    return (F.softplus(violation) if margin_type == "soft" else violation.relu()).mean()
