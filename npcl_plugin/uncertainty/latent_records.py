"""The latent distributions of a model at one moment, as arrays.

Everything is taken from q(z | buffer), the distributions that evaluation draws from.
"""
from typing import Any

import numpy as np
import torch
from torch.distributions import Normal, kl_divergence

from npcl_plugin.context import Context
from npcl_plugin.gaussians import Gaussian
from npcl_plugin.latents import Encoding
from npcl_plugin.plan import Draws
from npcl_plugin.uncertainty.np_context import head_count, thinned


def _pair(distribution: Gaussian) -> torch.Tensor:
    """Mean and standard deviation, (2, ..., O)."""
    return torch.stack((distribution.mean, distribution.sd))


def _z_global(model: Any, encoding: Encoding) -> torch.Tensor:
    """The draws of z^G that an evaluation makes, (N, K, O)."""
    generator = torch.Generator().manual_seed(model.predictor.seed)
    draws = Draws(model.args.n_global_eval, model.args.n_task)
    found: torch.Tensor = model.predictor.net.latent.draw_global(encoding, draws, generator)
    return found


@torch.no_grad()
def distributions(model: Any, context: Context) -> dict[str, np.ndarray]:
    """q(z^G) as `now_global` (2, O) and q(z^t) as `now_task` (2, H, O), averaged over z^G.

    A part that the model does not have, and heads without a row in the buffer, are NaN.
    """
    plan, latent = model.predictor.net.plan, model.predictor.net.latent
    encoding = latent(*context)
    of_global = np.full((2, plan.latent_size), np.nan)
    of_tasks = np.full((2, head_count(model), plan.latent_size), np.nan)
    if plan.has_global:
        of_global = _pair(encoding.global_latents[0, 0]).cpu().numpy()
    if plan.has_task:
        pair = _pair(latent.conditional(encoding, _z_global(model, encoding))[0])  # (2, N, K, O)
        of_tasks[:, encoding.cells.tasks.cpu().numpy()] = pair.mean(1).cpu().numpy()
    return {"now_global": of_global, "now_task": of_tasks}


def stored(model: Any) -> dict[str, np.ndarray]:
    """The distribution memory; NaN for what was never recorded."""
    memory, heads = model.predictor.net.memory, head_count(model)
    of_tasks = torch.stack((memory.task_mean, memory.task_sd))[:, :heads].cpu().double().numpy()
    of_tasks[:, ~memory.recorded[:heads].cpu().numpy()] = np.nan
    of_global = torch.stack((memory.global_mean, memory.global_sd)).cpu().numpy()
    return {"stored_global": np.full_like(of_global, np.nan) if memory.blank else of_global,
            "stored_task": of_tasks}


@torch.no_grad()
def unit_kl(model: Any, context: Context) -> dict[str, np.ndarray]:
    """KL of each unit, posterior from prior: `kl_global` (O,), `kl_task` (H, O), nats.

    The posterior is q(z | buffer), the prior q(z | C) with C an evenly spaced `context_share`
    of every task's rows, as in training; the mean over draws of z^G. NaN as in `distributions`.
    """
    plan, latent = model.predictor.net.plan, model.predictor.net.latent
    rows = thinned(context.tasks, model.args.context_share)
    whole, part = latent(*context), latent(*(values[rows] for values in context))
    of_global = np.full(plan.latent_size, np.nan)
    of_task = np.full((head_count(model), plan.latent_size), np.nan)
    if plan.has_global:
        of_global = _kl(*(_pair(encoding.global_latents[0, 0])
                          for encoding in (whole, part))).cpu().numpy()
    if plan.has_task:
        z_global = _z_global(model, whole)
        posterior, prior = (_pair(latent.conditional(encoding, z_global)[0])
                            for encoding in (whole, part))
        of_task[whole.cells.tasks.cpu().numpy()] = _kl(posterior, prior).mean(0).cpu().numpy()
    return {"kl_global": of_global, "kl_task": of_task}


def _kl(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Of every number separately: (2, ...), (2, ...) -> (...)."""
    return kl_divergence(Normal(*first), Normal(*second))
