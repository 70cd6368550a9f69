"""From the logits of all heads and draws to one answer: whose head, which probabilities."""
from dataclasses import dataclass
from typing import Literal

import torch

from npcl_plugin.logits import SMALLEST_SUM

HeadInference = Literal["entropy", "mixture", "naive", "variance", "energy", "max_prob"]


@dataclass(frozen=True)
class Prediction:
    """Everything that one batch of images says.

    Attributes:
        logits: (T', S, B, C) under every head and draw.
        entropy: (T', B) mean over the draws of the softmax's entropy, equation 9.
        head: (B,) position of the head that answered; with `mixture` and `naive`, where all
            heads answer, the one of least entropy.
        draws: (S, B, C) probabilities of that head, draw by draw.
        probs: (B, C) the answer.
        head_probs: (T', B, C) what each head would answer.
        distance: (B,) from everything known, 0 to 1; see `Predictor.novelty`. None if nothing is.
    """

    logits: torch.Tensor
    entropy: torch.Tensor
    head: torch.Tensor
    draws: torch.Tensor
    probs: torch.Tensor
    head_probs: torch.Tensor
    distance: torch.Tensor | None = None


def doubt(logits: torch.Tensor, probs: torch.Tensor, mode: HeadInference) -> torch.Tensor:
    """How unsure each head is by other rules than entropy, (T', B): the least one answers."""
    if mode == "variance":
        return probs.var(1, unbiased=False).sum(-1)
    if mode == "energy":
        return -logits.logsumexp(-1).mean(1)
    return -probs.mean(1).amax(-1)  # max_prob


def answer(logits: torch.Tensor, mode: HeadInference,
           heads: torch.Tensor | None = None) -> Prediction:
    """Combine the heads.

    Args:
        logits: (T', S, B, C).
        heads: (B,) positions of the heads that shall answer (the oracle of the analyses).
    """
    log_probs = logits.log_softmax(-1)
    probs = log_probs.exp()
    head_probs = probs.mean(1)  # (T', B, C)
    entropy = -log_probs.mul_(probs).sum(-1).mean(1)  # the paper's sum over draws, divided by S
    oracle = heads is not None
    if heads is None:
        heads = (entropy if mode in ("entropy", "mixture", "naive")
                 else doubt(logits, probs, mode)).argmin(0)
    batch = torch.arange(logits.shape[2], device=logits.device)
    draws = probs[heads, :, batch].transpose(0, 1)  # (S, B, C)
    if mode == "mixture" and not oracle:
        said = head_probs.mean(0)
    elif mode == "naive" and not oracle:
        said = logits.mean((0, 1)).softmax(-1)
    else:
        said = draws.mean(0)
    return Prediction(logits, entropy, heads, draws, said, head_probs)


def additive_answer(targets: torch.Tensor, draws: torch.Tensor,
                    mode: HeadInference) -> torch.Tensor | None:
    """Probabilities (B, C) where logits are sums, without the (T', S, B, C) of them.

    exp(a + d) = exp(a) exp(d), so that the normalising sums of all heads and draws, and what
    entropies need besides, are products of small matrices.

    Args:
        targets: a (B, C).
        draws: d (T', S, C).

    Returns:
        None where a sum leaves the numbers that single precision can tell apart from 0, and for
        rules that need each probability by itself.
    """
    if mode not in ("entropy", "mixture", "naive"):
        return None
    if mode == "naive":
        return (targets + draws.mean((0, 1))).softmax(-1)
    n_heads, n_draws, _ = draws.shape
    a = targets - targets.amax(1, keepdim=True)
    d = (draws - draws.amax(-1, keepdim=True)).flatten(0, 1)  # (T' S, C)
    exp_a, exp_d = a.exp(), d.exp()
    total = exp_a @ exp_d.t()  # (B, T' S)
    if not float(total.min()) > SMALLEST_SUM:
        return None
    if mode == "mixture":
        share = total.reciprocal() / n_heads
    else:
        logits = torch.cat((exp_a * a, exp_a), 1) @ torch.cat((exp_d, exp_d * d), 1).t()
        entropy = torch.addcdiv(total.log(), logits, total, value=-1)  # (B, T' S)
        head = entropy.unflatten(1, (n_heads, -1)).sum(-1).argmin(1, keepdim=True)  # (B, 1)
        chosen = torch.zeros(len(a), n_heads, dtype=a.dtype, device=a.device)
        chosen = chosen.scatter_(1, head, 1.0)
        share = (chosen.unsqueeze(-1) / total.unflatten(1, (n_heads, -1))).flatten(1)
    return exp_a * (share @ exp_d) / n_draws


def answer_by_class(logits: torch.Tensor, mode: HeadInference) -> torch.Tensor | None:
    """Probabilities (B, C) as `answer` has them, of logits (T', S, C, B): half the time.

    None for rules that look at other things than entropies.
    """
    if mode not in ("entropy", "mixture", "naive"):
        return None
    if mode == "naive":
        return logits.mean((0, 1)).softmax(0).t()
    log_probs = logits.log_softmax(2)
    probs = log_probs.exp()
    if mode == "mixture":
        return probs.mean((0, 1)).t()
    heads = (probs * log_probs).sum((1, 2)).argmax(0)  # (B,) of least entropy
    return probs.mean(1)[heads, :, torch.arange(len(heads), device=heads.device)]
