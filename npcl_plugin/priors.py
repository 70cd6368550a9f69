"""From targets and their context to the distributions of the ELBO and the draws to decode.

Two readings with the same interface, chosen when the network is built. The paper's: both are
encoded side by side, and q(z^t | z^G, C^t) sees the draws of z^G that q(z^t | z^G, T^t) sees.
The authors' code: the context draws a z^G of its own, and a task that has no context has no
divergence.
"""
from typing import NamedTuple

import torch

from npcl_plugin.context import misdirect
from npcl_plugin.gaussians import Gaussian
from npcl_plugin.latents import LatentEncoder
from npcl_plugin.layout import Blocks, Cells, Layout
from npcl_plugin.plan import Draws


class Samples(NamedTuple):
    """Targets of one or two sets, some of which are context too."""

    x: torch.Tensor  # (B, F)
    labels: torch.Tensor  # (B,)
    tasks: torch.Tensor  # (B,)
    sets: torch.Tensor  # (B,)
    context: torch.Tensor  # (m,) rows
    layout: Layout | None = None  # of targets and context, where it is known already


class Latents(NamedTuple):
    """What `network.TrainingPass` takes over."""

    cells: Cells
    z: torch.Tensor  # (S, K, O)
    global_posterior: Gaussian  # batch (G,)
    global_prior: Gaussian  # batch (G,)
    task_posterior: Gaussian  # batch (N, K)
    task_prior: Gaussian  # batch (N, K)


def layout_of(latent: LatentEncoder, samples: Samples) -> Layout:
    """Where targets and context stand, side by side."""
    blocks = Blocks.targets_and_context(samples.sets.cpu().numpy(), samples.context.cpu().numpy())
    return latent.layout(samples.tasks, blocks, samples.x)


def with_shared_draws(latent: LatentEncoder, samples: Samples, draws: Draws, *,
                      from_context: bool, n_misdirected: int) -> Latents:
    """Posterior and prior of the tasks under the same draws of z^G, N for each set."""
    # 1. Encode the targets T and, apart from them, their context C.
    layout = samples.layout or layout_of(latent, samples)
    encoding = latent.encode(samples.x, samples.labels, layout)
    cells, (global_posterior, global_prior) = encoding.cells, encoding.global_latents.unbind(0)

    # 2. z^G ~ q(z^G | T), N draws for each set.
    z_global = latent.draw_global(encoding, draws)  # (N, K, O)

    # 3. z^t ~ q(z^t | z^G, T^t), M draws for each z^G.
    psi = torch.stack((cells.tasks, misdirect(cells.tasks, n_misdirected))) \
        if n_misdirected > 1 else None
    task_posterior, task_prior = latent.conditional(encoding, z_global, psi).unbind(0)
    z = latent.task_latent.sample(task_prior if from_context else task_posterior, z_global,
                                  draws)  # (S, K, O)
    return Latents(cells, z, global_posterior, global_prior, task_posterior, task_prior)


def with_own_draws(latent: LatentEncoder, samples: Samples, draws: Draws, *,
                   from_context: bool, n_misdirected: int) -> Latents:
    """Posterior and prior each under draws of z^G of its own; divergences see the last draw."""
    x, labels, tasks, sets, context, _ = samples
    targets = latent(x, labels, tasks, Blocks.of_sets(sets.cpu().numpy()))
    part = latent(x[context], labels[context], tasks[context],
                  Blocks.of_sets(sets[context].cpu().numpy()))
    z_global = latent.draw_global(targets, draws)  # (N, K, O)
    psi = misdirect(part.cells.tasks, n_misdirected)[None] if n_misdirected > 1 else None
    posterior = latent.conditional(targets, z_global)[0]
    prior = latent.conditional(part, latent.draw_global(part, draws), psi)[0]
    prior = completed(prior, part.cells, posterior, targets.cells)
    z = latent.task_latent.sample(prior if from_context else posterior, z_global, draws)
    last = slice(-1, None)
    return Latents(targets.cells, z, targets.global_latents[0], part.global_latents[0],
                   posterior[last], prior[last])


def completed(prior: Gaussian, present: Cells, posterior: Gaussian, cells: Cells) -> Gaussian:
    """The prior (N, K') of the cells that have a context as one of all cells, batch (N, K).

    Cells without a context get their posterior, at which a divergence and its gradient are 0.
    """
    match = (cells.tasks.unsqueeze(1) == present.tasks) & (cells.sets.unsqueeze(1) == present.sets)
    own = torch.arange(len(match), device=match.device) + match.shape[1]
    where = torch.where(match.any(1), match.to(torch.uint8).argmax(1), own)  # (K,)
    return Gaussian(*(torch.cat(pair, dim=1).index_select(1, where) for pair in
                      ((prior.mean, posterior.mean), (prior.sd, posterior.sd))))
