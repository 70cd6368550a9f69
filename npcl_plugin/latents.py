"""The hierarchy of Gaussians: q(z^G | set) and q(z^t | z^G, set of task t).

Paper: section 4.3 and appendix C; the single-level relatives: appendices A.2 and A.3. A level
that a relative does not have is a part of its own with the same interface, chosen when the
network is built.
"""
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from npcl_plugin.distribution_memory import DistributionMemory
from npcl_plugin.gaussians import Gaussian, draw
from npcl_plugin.kernels.operators import fits
from npcl_plugin.layers.attention import SelfAttention, TaskwiseSelfAttention, Unmixed
from npcl_plugin.layers.encoders import SampleEncoder, Zeros
from npcl_plugin.layers.feedforward import (
    N_BLOCKS,
    FeedForwardAttention,
    Successive,
    TaskwiseFeedForwardAttention,
    TrunkPsi,
)
from npcl_plugin.layers.stacked import StackedLinear, StackedMLP, StackedRectifiedNorm
from npcl_plugin.layout import Blocks, Cells, Layout
from npcl_plugin.plan import Draws, Plan


class LinearPsi(nn.Module):
    """psi without a hidden layer: for each of T tasks a mean and a standard deviation.

    Its input is [summary; z^G], or the summary alone. The first layer is linear, so the
    summary's part is computed once and not once per draw, for mean and deviation together.

    Args:
        count: T.
        size: O.
        with_global: whether z^G is an input.
    """

    def __init__(self, count: int, size: int, with_global: bool) -> None:
        super().__init__()
        self.count, self.size = count, size
        self.from_summary = StackedLinear(count, size, 2 * size)
        self.from_global: StackedLinear | None = None
        parts = [self.from_summary]
        if with_global:
            self.from_global = StackedLinear(count, size, 2 * size, bias=False)
            parts.append(self.from_global)
        for layer in parts:  # Xavier for the two layers that they make up
            layer.initialise(size * len(parts), size)

    def forward(self, summary: torch.Tensor, tasks: torch.Tensor,
                z_global: torch.Tensor | None = None) -> Gaussian:
        """P summaries of each of n tasks, and the draws of z^G that all P share.

        Args:
            summary: (n, P, O).
            tasks: (n,).
            z_global: (n, N, O), if it is an input.

        Returns:
            batch (n, P, N), N = 1 without z^G
        """
        hidden = self.from_summary(summary, tasks).unsqueeze(2)
        if self.from_global is not None:
            hidden = hidden + self.from_global(z_global, tasks).unsqueeze(1)  # (n, P, N, 2 O)
        mean, raw = self.outputs(hidden, tasks)
        # An exponential would diverge to NaN within the first task.
        return Gaussian(mean, torch.sigmoid(raw).mul(0.9).add_(0.1))

    def outputs(self, hidden: torch.Tensor, tasks: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(n, P, N, 2 O) -> means and raw deviations, (n, P, N, O) each."""
        return hidden.chunk(2, dim=-1)


class DeepPsi(LinearPsi):
    """psi with `depth` hidden layers, one at least, perceptrons of mean and deviation apart."""

    def __init__(self, count: int, size: int, with_global: bool, depth: int, norm: bool) -> None:
        super().__init__(count, size, with_global)
        self.norm = StackedRectifiedNorm(2 * count, size) if norm else None
        self.rest = StackedMLP(2 * count, size, size, size, depth - 1, norm)

    def outputs(self, hidden: torch.Tensor, tasks: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(n, P, N, 2 O) -> means and raw deviations, (n, P, N, O) each."""
        shape = hidden.shape[1:3]
        both = torch.cat((tasks, tasks + self.count))  # means, deviations
        hidden = torch.cat(hidden.flatten(1, 2).chunk(2, dim=-1))  # (2 n, P N, O)
        hidden = torch.relu(hidden) if self.norm is None else self.norm(hidden, both)
        found: torch.Tensor = self.rest(hidden, both).unflatten(1, shape)
        return found.chunk(2)


def psi(count: int, plan: Plan, with_global: bool) -> LinearPsi | TrunkPsi:
    """psi for `count` tasks."""
    if plan.encoders == "release":
        return TrunkPsi(count, plan.latent_size, with_global, plan.depth, plan.norm)
    if not plan.depth:
        return LinearPsi(count, plan.latent_size, with_global)
    return DeepPsi(count, plan.latent_size, with_global, plan.depth, plan.norm)


class GlobalLatent(nn.Module):
    """q(z^G | block).

    Args:
        psi_global: from a summary to a Gaussian.
        alone: there is no level below, so all S draws are made here.
    """

    only: torch.Tensor  # (1,) the number of the one psi

    def __init__(self, psi_global: LinearPsi | TrunkPsi, alone: bool) -> None:
        super().__init__()
        self.psi, self.alone = psi_global, alone
        self.register_buffer("only", torch.zeros(1, dtype=torch.long), persistent=False)

    def forward(self, summary: torch.Tensor) -> Gaussian:
        """(n, O) -> batch (n,)."""
        found: Gaussian = self.psi(summary[None], self.only)  # batch (1, n, 1)
        return Gaussian(found.mean.view(summary.shape), found.sd.view(summary.shape))

    def sample(self, source: Gaussian, draws: Draws,
               generator: torch.Generator | None = None) -> torch.Tensor:
        """batch (G,) -> z^G (N, G, O)."""
        return draw(source, draws.total if self.alone else draws.n_global, generator)

    def recall(self, memory: DistributionMemory, draws: Draws,
               generator: torch.Generator) -> torch.Tensor:
        """z^G from the memory, where it is the only level: (S, 1, O)."""
        return draw(memory.global_latent(), draws.total, generator).unsqueeze(1)


class NoGlobalLatent(nn.Module):
    """In the place of the global level: a Gaussian without units, of which one draw is enough."""

    def forward(self, summary: torch.Tensor) -> Gaussian:
        """(n, O) -> batch (n,), no units."""
        nothing = summary.new_zeros(summary.shape[0], 0)
        return Gaussian(nothing, nothing)

    def sample(self, source: Gaussian, draws: Draws,
               generator: torch.Generator | None = None) -> torch.Tensor:
        """batch (G,) -> (1, G, 0)."""
        return source.mean.unsqueeze(0)

    def recall(self, memory: DistributionMemory, draws: Draws,
               generator: torch.Generator) -> torch.Tensor:
        """(1, 1, 0)."""
        return memory.global_mean.new_zeros(1, 1, 0)


class TaskLatent(nn.Module):
    """q(z^t | z^G, cell).

    Args:
        psi_task: from a summary and z^G to a Gaussian.
        alone: there is no level above, so all S draws are made here.
    """

    def __init__(self, psi_task: LinearPsi | TrunkPsi, alone: bool) -> None:
        super().__init__()
        self.psi, self.alone = psi_task, alone

    def layout(self, tasks: torch.Tensor, blocks: Blocks, like: torch.Tensor) -> Layout:
        """A cell for each task of a set."""
        return Layout(tasks, blocks, like)

    def summarise(self, rows: torch.Tensor, layout: Layout) -> torch.Tensor:
        """Means over cells: (R, O) -> (P K, O)."""
        return layout.cell_means @ rows

    def forward(self, summary: torch.Tensor, tasks: torch.Tensor,
                z_global: torch.Tensor) -> Gaussian:
        """P summaries of K cells, under the same z^G.

        Args:
            summary: (P, K, O).
            tasks: (K,) psi of each cell; (P, K) if the parts of a cell go to different ones.
            z_global: (N, K, O) of each cell's set.

        Returns:
            batch (P, N, K)
        """
        draws = z_global.transpose(0, 1)  # (K, N, O)
        if tasks.dim() == 1:
            found = self.psi(summary.transpose(0, 1), tasks, draws)  # (K, P, N)
            return Gaussian(found.mean.permute(1, 2, 0, 3), found.sd.permute(1, 2, 0, 3))
        parts = [self.psi(part.unsqueeze(1), own, draws)[:, 0]  # (K, N)
                 for part, own in zip(summary, tasks, strict=True)]
        return Gaussian(*(torch.stack(values).transpose(1, 2) for values in
                          ([part.mean for part in parts], [part.sd for part in parts])))

    def sample(self, source: Gaussian, z_global: torch.Tensor, draws: Draws,
               generator: torch.Generator | None = None) -> torch.Tensor:
        """batch (N, K) -> z (S, K, O)."""
        return draw(source, draws.total if self.alone else draws.n_task, generator).flatten(0, 1)

    def recall(self, memory: DistributionMemory, draws: Draws, generator: torch.Generator, *,
               n_heads: int, above: "GlobalLatent | NoGlobalLatent") -> torch.Tensor:
        """Every head from the memory: (S, T', O)."""
        every = torch.arange(n_heads, device=memory.task_mean.device)
        return draw(memory.task_latents(every), draws.total, generator)


class NoTaskLatent(nn.Module):
    """In the place of the task level: one head per set, which is z^G."""

    def layout(self, tasks: torch.Tensor, blocks: Blocks, like: torch.Tensor) -> Layout:
        """One task for all: a set is one cell."""
        return Layout.of_one_task(blocks, like)

    def summarise(self, rows: torch.Tensor, layout: Layout) -> torch.Tensor:
        """(P K, 0): nobody asks."""
        return rows.new_zeros(layout.frame.n_blocks, 0)

    def forward(self, summary: torch.Tensor, tasks: torch.Tensor,
                z_global: torch.Tensor) -> Gaussian:
        """batch (P, 1, K), no units."""
        nothing = summary.new_zeros(summary.shape[0], 1, summary.shape[1], 0)
        return Gaussian(nothing, nothing)

    def sample(self, source: Gaussian, z_global: torch.Tensor, draws: Draws,
               generator: torch.Generator | None = None) -> torch.Tensor:
        """z^G of each cell's set (S, K, O), as it is."""
        return z_global

    def recall(self, memory: DistributionMemory, draws: Draws, generator: torch.Generator, *,
               n_heads: int, above: "GlobalLatent | NoGlobalLatent") -> torch.Tensor:
        """The one head from the memory: (S, 1, O)."""
        # A generator of its own: with a context these draws are not used, and cost none.
        apart = torch.Generator().manual_seed(generator.initial_seed())
        return above.recall(memory, draws, apart)


class Encoding(NamedTuple):
    """Samples as the latent path sees them: one part in inference, in training targets and context.

    A level that does not exist has no units.
    """

    cells: Cells
    summary: torch.Tensor  # (P, K, O) mean of s^t over each cell
    global_latents: Gaussian  # q(z^G | block), batch (P, G)

    def only(self, tasks: torch.Tensor) -> "Encoding":
        """The same without the cells of other tasks."""
        kept = torch.isin(self.cells.tasks, tasks).nonzero().squeeze(1)
        return self._replace(cells=self.cells.only(kept), summary=self.summary[:, kept])


def taskwise_attention(plan: Plan) -> nn.Module:
    """SA^t of the latent path."""
    sizes = (plan.n_tasks, plan.latent_size, plan.n_attention_heads)
    if plan.encoders == "paper":
        return TaskwiseSelfAttention(*sizes, plan.attends_compiled)
    return Successive(TaskwiseFeedForwardAttention(*sizes) for _ in range(N_BLOCKS))


def attention_across(plan: Plan) -> nn.Module:
    """The attention of all tasks' rows to each other."""
    sizes = (plan.latent_size, plan.n_attention_heads)
    if plan.encoders == "paper":
        return SelfAttention(*sizes, plan.attends_compiled)
    return Successive(FeedForwardAttention(*sizes) for _ in range(N_BLOCKS))


class LatentEncoder(nn.Module):
    """The latent path.

    Args:
        encoder: a SampleEncoder of its own.
        plan: which levels exist, and their sizes.
    """

    def __init__(self, encoder: SampleEncoder, plan: Plan) -> None:
        super().__init__()
        self.own_draws, self.compiled = plan.global_draws == "task", plan.attends_compiled
        has_any = plan.has_global or plan.has_task
        self.encoder: SampleEncoder | Zeros = encoder if has_any else Zeros(0)
        self.taskwise = taskwise_attention(plan) if plan.has_task else Unmixed()
        self.across = attention_across(plan) if plan.has_global and plan.attention else Unmixed()
        self.global_latent: GlobalLatent | NoGlobalLatent = GlobalLatent(
            psi(1, plan, with_global=False), alone=not plan.has_task) \
            if plan.has_global else NoGlobalLatent()
        self.task_latent: TaskLatent | NoTaskLatent = TaskLatent(
            psi(plan.n_tasks, plan, with_global=plan.has_global), alone=not plan.has_global) \
            if plan.has_task else NoTaskLatent()

    def forward(self, x: torch.Tensor, labels: torch.Tensor, tasks: torch.Tensor,
                blocks: Blocks | None = None) -> Encoding:
        """Encode samples; the rows of a block see nobody else.

        Args:
            x: features (B, F).
            labels: (B,).
            tasks: (B,).
            blocks: one block of all by default.
        """
        blocks = blocks or Blocks.of_sets(np.zeros(len(labels), np.int64))
        return self.encode(x, labels, self.layout(tasks, blocks, x))

    def layout(self, tasks: torch.Tensor, blocks: Blocks, like: torch.Tensor) -> Layout:
        """Where the samples of tasks (B,) stand; see `Layout`."""
        in_groups = not (self.compiled and fits(like))
        return self.task_latent.layout(tasks, blocks._replace(in_groups=in_groups), like)

    def encode(self, x: torch.Tensor, labels: torch.Tensor, layout: Layout) -> Encoding:
        """As `forward`, with the places of the rows known."""
        n_parts = layout.frame.n_parts
        rows = self.encoder(x, labels).index_select(0, layout.source)  # (R, O)
        rows = self.taskwise(rows, layout)  # s^t
        summary = self.task_latent.summarise(rows, layout).unflatten(0, (n_parts, -1))
        rows = self.across(rows, layout)
        found = self.global_latent(layout.frame.block_means @ rows)  # batch (P G,)
        return Encoding(layout.cells, summary, found.unflatten(0, (n_parts, -1)))

    def conditional(self, encoding: Encoding, z_global: torch.Tensor,
                    tasks: torch.Tensor | None = None) -> Gaussian:
        """q(z^t | z^G, cell) of every part and cell: batch (P, N, K).

        Args:
            z_global: (N, K, O).
            tasks: psi of each part's cells (P, K), if not each cell's own.
        """
        found: Gaussian = self.task_latent(
            encoding.summary, encoding.cells.tasks if tasks is None else tasks, z_global)
        return found

    def draw_global(self, encoding: Encoding, draws: Draws,
                    generator: torch.Generator | None = None) -> torch.Tensor:
        """z^G of each cell, (N, K, O), from the first part: its set's draws, or its own."""
        source, sets = encoding.global_latents[0], encoding.cells.sets
        if self.own_draws:
            return self.global_latent.sample(source[sets], draws, generator)
        return self.global_latent.sample(source, draws, generator).index_select(1, sets)

    def sample(self, encoding: Encoding, draws: Draws,
               generator: torch.Generator | None = None) -> tuple[Gaussian, torch.Tensor]:
        """Ancestral sampling of a single set: q(z^t | z^G), batch (N, K), and z (S, K, O)."""
        z_global = self.draw_global(encoding, draws, generator)
        source = self.conditional(encoding, z_global)[0]
        return source, self.task_latent.sample(source, z_global, draws, generator)

    def recall(self, memory: DistributionMemory, n_heads: int, draws: Draws,
               generator: torch.Generator) -> torch.Tensor:
        """z (S, T', O) of every head as the memory has it, a standard normal if it has nothing."""
        return self.task_latent.recall(memory, draws, generator, n_heads=n_heads,
                                       above=self.global_latent)
