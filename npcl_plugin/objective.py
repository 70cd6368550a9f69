"""The terms of the loss (paper, equations 5 to 8) and of our extensions.

Every function returns a scalar; which of them make up the loss, and their weights, is declared
in `terms.py`.
Where the paper is silent: KL is closed-form; the JS divergence, which has no closed form
between Gaussians, is replaced by `gaussians.js`.
"""
import math
from collections.abc import Callable
from typing import Literal

import torch
from torch.nn import functional as F

from npcl_plugin.gaussians import Gaussian, js, kl
from npcl_plugin.layout import Cells

# How divergences of K cells (tasks of sets) over O units become one number. `sum`: over tasks
# and units. `sample`: over units, tasks weighted by their share of the samples, which is what
# 1/(|D|+|M|) sum_samples of equation 8 gives. `mean`: `sample`, averaged over units. Sets count by
# their share of the targets, but in `sets`, which is `sum` with stream and replay added up.
Reduction = Literal["sum", "sample", "mean", "sets"]
Distance = Callable[[Gaussian, Gaussian, torch.Tensor | float], torch.Tensor]
DISTANCES: dict[str, Distance] = {"js": js, "kl": kl}
# Softens what is recalled, so that also classes of small probability count.
RECALL_TEMPERATURE = 2.0


def cell_weights(cells: Cells, size: int, how: Reduction) -> torch.Tensor:
    """Weight of each cell's divergence (K,)."""
    if how == "sets":
        return torch.ones_like(cells.share)
    if how == "sum":
        return cells.set_share[cells.sets]
    return cells.share / size if how == "mean" else cells.share


def task_divergence(posterior: Gaussian, prior: Gaussian, cells: Cells,
                    how: Reduction) -> torch.Tensor:
    """D^t of equation 5, averaged over draws and combined over cells; both batch (N, K)."""
    return kl(posterior, prior, cell_weights(cells, posterior.size, how) / posterior.mean.shape[0])


def global_divergence(posterior: Gaussian, prior: Gaussian, cells: Cells,
                      how: Reduction) -> torch.Tensor:
    """D^G of equation 5; both batch (G,)."""
    if how == "sets":
        return kl(posterior, prior)
    share = cells.set_share
    return kl(posterior, prior, share / posterior.size if how == "mean" else share)


def global_regulariser(now: Gaussian, then: Gaussian, how: Reduction,
                       distance: Distance = js) -> torch.Tensor:
    """GR, equation 6: the replayed set's global distribution against recorded ones.

    Args:
        now: batch ().
        then: batch () or (n,), which are summed up.
    """
    return distance(now.like(then), then, 1 / now.size if how == "mean" else 1.0)


def task_regulariser(now: Gaussian, then: Gaussian, past: torch.Tensor, share: torch.Tensor,
                     how: Reduction, distance: Distance = js) -> torch.Tensor:
    """TR, equation 7, for the past tasks among the replayed samples.

    Args:
        now: batch (N, K) of all cells; computing a few too many is cheaper than picking.
        then: batch (K,), recorded when each task was new.
        past: (K,) which cells are replayed samples of a past task.
        share: (K,) part of the replayed samples that belongs to each.
    """
    weight = past.to(share.dtype) if how in ("sum", "sets") else past * share
    return distance(now, then, weight / (now.mean.shape[0] * (now.size if how == "mean" else 1)))


def task_marginal(logits: torch.Tensor, labels: torch.Tensor,
                  present: torch.Tensor) -> torch.Tensor:
    """Ours: -log (1/T') sum_t p(y | x, z_t), the likelihood with the task unknown.

    Args:
        logits: (K, S, B, C) of a few draws under the head of every cell.
        present: (K, B) whether a cell is in the target's own set.
    """
    log_prob = F.log_softmax(logits, dim=-1)
    picked = log_prob.gather(-1, labels.expand(logits.shape[:-1]).unsqueeze(-1)).squeeze(-1)
    picked = picked.masked_fill(~present.unsqueeze(1), -math.inf)  # (K, S, B)
    count = present.sum(0) * logits.shape[1]  # (B,)
    return -(picked.flatten(0, 1).logsumexp(0) - count.log()).mean()


def head_contrast(logits: torch.Tensor, wrong: torch.Tensor) -> torch.Tensor:
    """Ours: KL(uniform || p) under the wrong heads, averaged over heads, draws and targets.

    Args:
        logits: (K, S, B, C) under the head of every cell.
        wrong: (K, B) cells of the target's set that are not its own; without any it is 0.
    """
    log_prob = F.log_softmax(logits, dim=-1)
    distance = -log_prob.mean(-1).mean(1) - math.log(logits.shape[-1])  # (K, B)
    return (distance * wrong).sum() / wrong.sum().clamp_min(1)


def dark_replay(mean_logits: torch.Tensor, stored: torch.Tensor) -> torch.Tensor:
    """Ours: squared distance of the mean logits over the draws (B, C) to stored ones (B, C)."""
    return F.mse_loss(mean_logits, stored)


def stream_recall(mean_logits: torch.Tensor, recalled: torch.Tensor) -> torch.Tensor:
    """Ours: KL(recalled || now) among past classes at temperature 2, mean over the samples.

    Times the temperature's square, so that gradients keep their size (Hinton et al., 2015).

    Args:
        mean_logits: (B, C) over the draws.
        recalled: (B, C) log-probabilities at that temperature, -inf for classes of no past.
    """
    other = recalled.isneginf()
    now = (mean_logits / RECALL_TEMPERATURE).masked_fill(other, -math.inf).log_softmax(1)
    difference = (recalled - now).masked_fill(other, 0.0)
    return (recalled.exp() * difference).sum(1).mean() * RECALL_TEMPERATURE ** 2


def guided_attention(attention: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """Ours: -log of the attention on rows of the target's class, mean over targets that have one.

    Args:
        attention: (B, m), rows sum to 1.
        own: (B, m) which rows of the context are of a target's class; without any it is 0.
    """
    known = own.any(1)
    mass = (attention * own).sum(1).clamp_min(torch.finfo(attention.dtype).tiny)
    return -(mass.log() * known).sum() / known.sum().clamp_min(1)
