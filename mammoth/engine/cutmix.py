"""CutMix (Yun et al., 2019): a rectangle of each image comes from another one."""
import numpy as np
import torch


def cutmix_data(x: torch.Tensor, y: torch.Tensor, alpha: float = 1.0, cutmix_prob: float = 0.5,
                force: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """Paste one rectangle, the same for the whole batch, from a permutation of the batch.

    Args:
        x: (B, C, H, W); left as it is.
        y: (B,) labels.
        alpha: the share of the area that stays is drawn from Beta(alpha, alpha).
        cutmix_prob: how often it happens at all.
        force: always.

    Returns:
        Images, their own labels, the labels of the pasted part, and the share of the pixels
        that are the image's own (exact: the rectangle is cut off at the border).
    """
    if not force and np.random.rand() > cutmix_prob:
        return x, y, y, 1.0
    share = np.random.beta(alpha, alpha)
    sides = np.array(x.shape[-2:])
    centre = np.array([np.random.randint(side) for side in sides])
    half = (sides * np.sqrt(1 - share)).astype(int) // 2
    (top, left), (bottom, right) = np.maximum(centre - half, 0), np.minimum(centre + half, sides)
    order = torch.randperm(len(x), device=x.device)
    mixed = x.clone()
    mixed[..., top:bottom, left:right] = x[order, :, top:bottom, left:right]
    own = 1 - (bottom - top) * (right - left) / sides.prod()
    return mixed, y, y[order.to(y.device)], float(own)
