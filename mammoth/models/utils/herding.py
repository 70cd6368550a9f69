"""Herding: exemplars whose running mean follows the mean of their class.

Reference: Rebuffi et al., "iCaRL", CVPR 2017, algorithm 4.
"""
import torch


def herding_order(features: torch.Tensor, count: int) -> torch.Tensor:
    """Greedy choice of exemplars, the most useful one first.

    With mean mu and sum s of the k features chosen so far, the next exemplar f minimises
    |mu - (s + f) / (k + 1)|. Multiplied out, f enters only through |f|^2 - 2 f.d with
    d = (k + 1) mu - s, so that each step is one matrix-vector product over all candidates.

    Args:
        features: (N, F) features of one class.
        count: how many to choose; at most N are returned.

    Returns:
        (min(count, N),) int64 row numbers, each at most once, in order of choice.
    """
    if features.dim() != 2:
        raise ValueError(f"Expected `features` to have shape (N, F), "
                         f"but got {tuple(features.shape)}.")
    # Late picks differ by very little; centring and double precision keep their order exact.
    x = features.detach().double()
    x = x - x.mean(dim=0)  # mu = 0, so d = -s
    cost = x.square().sum(dim=1)  # (N,) |f|^2 + 2 f.s, updated as s grows
    chosen = torch.empty(min(count, len(x)), dtype=torch.int64, device=x.device)
    for step in range(len(chosen)):
        best = cost.argmin()
        chosen[step] = best
        cost += 2 * (x @ x[best])
        cost[best] = torch.inf
    return chosen
