"""The terms of the loss (paper, equations 5 to 8) and of our four extensions.

Every function returns a scalar; weights are applied where the terms are summed (`total`).
Where the paper is silent: KL is closed-form; the JS divergence, which has no closed form
between Gaussians, is replaced by the mean KL to the Gaussian with averaged mean and averaged
standard deviation (0 iff equal, symmetric, finite).
"""
import math
from typing import Literal

import torch
from torch.distributions import Independent, kl_divergence
from torch.nn import functional as F

from npcl_plugin.latents import gaussian

# How a divergence (N, T') over O units becomes one number. `sum`: over tasks and units.
# `sample`: over units, tasks weighted by their share of the samples, which is what
# 1/(|D|+|M|) sum_samples of equation 8 gives. `mean`: `sample`, averaged over units.
Reduction = Literal["sum", "sample", "mean"]


def reduce_tasks(divergence: torch.Tensor, share: torch.Tensor, size: int,
                 how: Reduction) -> torch.Tensor:
    """Average over draws, combine tasks: (N, T'), their shares (T',) -> scalar."""
    per_task = divergence.mean(0)  # (T',)
    if how == "sum":
        return per_task.sum()
    weighted = (per_task * share).sum()
    return weighted / size if how == "mean" else weighted


def kl(posterior: Independent, prior: Independent) -> torch.Tensor:
    """Closed-form KL of diagonal Gaussians, summed over the O units: the batch shape."""
    return kl_divergence(posterior, prior)


def js(first: Independent, second: Independent) -> torch.Tensor:
    """Our stand-in for the Jensen-Shannon divergence (see above): the batch shape."""
    a, b = first.base_dist, second.base_dist
    middle = gaussian((a.loc + b.loc) / 2, (a.scale + b.scale) / 2)
    return (kl(first, middle) + kl(second, middle)) / 2


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """-E_q [log p(y | x, z)]: mean over draws and targets of (S, B, C) logits."""
    repeated = labels.expand(len(logits), -1)  # (S, B)
    return F.cross_entropy(logits.flatten(0, 1), repeated.reshape(-1))


def task_divergence(posterior: Independent, prior: Independent, share: torch.Tensor,
                    how: Reduction) -> torch.Tensor:
    """D^t of equation 5; both have batch (N, T')."""
    return reduce_tasks(kl(posterior, prior), share, posterior.event_shape[0], how)


def global_divergence(posterior: Independent, prior: Independent, how: Reduction) -> torch.Tensor:
    """D^G of equation 5; both have batch ()."""
    value = kl(posterior, prior)
    return value / posterior.event_shape[0] if how == "mean" else value


def global_regulariser(now: Independent, then: Independent, how: Reduction) -> torch.Tensor:
    """GR, equation 6: the replayed set's global distribution against the recorded one."""
    value = js(now, then)
    return value / now.event_shape[0] if how == "mean" else value


def task_regulariser(now: Independent, then: Independent, share: torch.Tensor,
                     how: Reduction) -> torch.Tensor:
    """TR, equation 7, for the past tasks among the replayed samples.

    Args:
        now: batch (N, P) of the P past tasks.
        then: batch (P,), recorded when each task was new.
        share: (P,) part of the replayed samples that belongs to each.
    """
    return reduce_tasks(js(now, then.expand(now.batch_shape)), share, now.event_shape[0], how)


def task_marginal(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Ours: -log (1/T') sum_t p(y | x, z_t), the likelihood with the task unknown.

    Args:
        logits: (T', S, B, C) of a few draws under every head present.
    """
    log_prob = F.log_softmax(logits, dim=-1)
    picked = log_prob.gather(-1, labels.expand(logits.shape[:-1]).unsqueeze(-1))  # (T', S, B, 1)
    mixed = picked.flatten(0, 1).logsumexp(0) - math.log(logits.shape[0] * logits.shape[1])
    return -mixed.mean()


def head_contrast(logits: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
    """Ours: KL(uniform || p) under the wrong heads, averaged over heads, draws and targets.

    Args:
        logits: (T', S, B, C) under every head present.
        heads: (B,) position of the right head; with a single head the term is 0.
    """
    count = logits.shape[0]
    if count == 1:
        return logits.new_zeros(())
    log_prob = F.log_softmax(logits, dim=-1)
    distance = -log_prob.mean(-1).mean(1) - math.log(logits.shape[-1])  # (T', B)
    wrong = torch.arange(count, device=heads.device).unsqueeze(1) != heads  # (T', B)
    return (distance * wrong).sum() / wrong.sum()


def dark_replay(logits: torch.Tensor, stored: torch.Tensor) -> torch.Tensor:
    """Ours: squared distance of the mean logits over the draws (S, B, C) to stored (B, C)."""
    return F.mse_loss(logits.mean(0), stored)


def total(terms: dict[str, torch.Tensor], weights: dict[str, float]) -> torch.Tensor:
    """Equation 8: the weighted sum of the terms; cross-entropy has weight 1."""
    return sum(weights.get(name, 1.0) * value for name, value in terms.items())
