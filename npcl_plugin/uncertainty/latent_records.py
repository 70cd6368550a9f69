"""The latent distributions of a model at one moment, as arrays.

Everything is taken from q(z | buffer), the distributions that evaluation draws from.
"""
from typing import Any

import numpy as np
import torch
from torch.distributions import Normal, kl_divergence

from npcl_plugin.gaussians import Gaussian
from npcl_plugin.latents import Encoding
from npcl_plugin.network import Draws
from npcl_plugin.uncertainty.np_context import Context, head_count, thinned


def _pair(distribution: Gaussian) -> torch.Tensor:
    """Mean and standard deviation, (2, ..., O)."""
    return torch.stack((distribution.mean, distribution.sd))


def _task_latents(model: Any, encoding: Encoding,
                  z_global: torch.Tensor | None) -> torch.Tensor | None:
    """(2, N, T', O), or None without task latents."""
    of_tasks = model.net.latent.of_tasks(encoding, z_global)
    return None if of_tasks is None else _pair(of_tasks)


def _z_global(model: Any, encoding: Encoding) -> torch.Tensor | None:
    generator = torch.Generator().manual_seed(model.predictor.seed)
    draws = Draws(model.args.n_global_eval, model.args.n_task)
    return model.net.draw_global(encoding.globally, draws, generator)


@torch.no_grad()
def distributions(model: Any, context: Context) -> dict[str, np.ndarray]:
    """q(z^G) as `now_global` (2, O) and q(z^t) as `now_task` (2, H, O), averaged over z^G.

    A part that the model does not have, and heads without a row in the buffer, are NaN.
    """
    encoding = model.net.latent(*context)
    size, heads = model.net.plan.size, head_count(model)
    globally = np.full((2, size), np.nan)
    if encoding.globally is not None:
        globally = _pair(encoding.globally).cpu().numpy()
    of_tasks = np.full((2, heads, size), np.nan)
    pair = _task_latents(model, encoding, _z_global(model, encoding))
    if pair is not None:
        of_tasks[:, encoding.groups.tasks.cpu().numpy()] = pair.mean(1).cpu().numpy()
    return {"now_global": globally, "now_task": of_tasks}


def stored(model: Any) -> dict[str, np.ndarray]:
    """The distribution memory; NaN for what was never recorded."""
    memory, heads = model.net.memory, head_count(model)
    of_tasks = torch.stack((memory.task_mean, memory.task_sd))[:, :heads].cpu().double().numpy()
    of_tasks[:, ~memory.recorded[:heads].cpu().numpy()] = np.nan
    return {"stored_global": torch.stack((memory.global_mean, memory.global_sd)).cpu().numpy(),
            "stored_task": of_tasks}


@torch.no_grad()
def unit_kl(model: Any, context: Context) -> dict[str, np.ndarray]:
    """KL of each unit, posterior from prior: `kl_global` (O,), `kl_task` (H, O), nats.

    The posterior is q(z | buffer), the prior q(z | C) with C an evenly spaced `context_share`
    of every task's rows, as in training; the mean over draws of z^G. NaN as in `distributions`.
    """
    rows = thinned(context.tasks, model.args.context_share)
    whole = model.net.latent(*context)
    part = model.net.latent(*(values[rows] for values in context))
    size = model.net.plan.size
    of_global, of_task = np.full(size, np.nan), np.full((head_count(model), size), np.nan)
    if whole.globally is not None:
        of_global = _kl(_pair(whole.globally), _pair(part.globally)).cpu().numpy()
    z_global = _z_global(model, whole)
    posterior, prior = (_task_latents(model, encoding, z_global) for encoding in (whole, part))
    if posterior is not None:
        present = whole.groups.tasks.cpu().numpy()
        of_task[present] = _kl(posterior, prior).mean(0).cpu().numpy()
    return {"kl_global": of_global, "kl_task": of_task}


def _kl(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Of every number separately: (2, ...), (2, ...) -> (...)."""
    return kl_divergence(Normal(*first), Normal(*second))
