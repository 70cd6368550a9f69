"""The hierarchy of Gaussians: q(z^G | set) and q(z^t | z^G, set of task t).

A Gaussian here is `Independent(Normal, 1)`: batch shape as written, event shape (O,).
Paper: section 4.3 and appendix C; the single-level relatives: appendices A.2 and A.3.
"""
from typing import NamedTuple

import torch
from torch import nn
from torch.distributions import Independent, Normal

from npcl_plugin.layers.attention import Attention, TaskwiseSelfAttention
from npcl_plugin.layers.encoders import SampleEncoder, mean_by, same
from npcl_plugin.layers.stacked import StackedMLP


def gaussian(mean: torch.Tensor, sd: torch.Tensor) -> Independent:
    """Diagonal normal distribution, event (O,), over the last dimension."""
    return Independent(Normal(mean, sd, validate_args=False), 1, validate_args=False)


def draw(distribution: Independent, count: int,
         generator: torch.Generator | None = None) -> torch.Tensor:
    """`count` reparameterised samples (count, *batch, O), from a private generator if given.

    The noise is made on the CPU when a generator is given, so that a seed means the same
    numbers on every device.
    """
    mean, sd = distribution.base_dist.loc, distribution.base_dist.scale
    shape = (count, *mean.shape)
    if generator is None:
        noise = torch.randn(shape, dtype=mean.dtype, device=mean.device)
    else:
        noise = torch.randn(shape, dtype=mean.dtype, generator=generator).to(mean.device)
    return mean + sd * noise


class Groups(NamedTuple):
    """Rows sorted into tasks: (T', n_max) places, of which `mask` are taken."""

    tasks: torch.Tensor  # (T',) numbers of the tasks present, ascending
    group: torch.Tensor  # (B,) position of each row's task in `tasks`
    place: torch.Tensor  # (B,) place of each row within its task
    mask: torch.Tensor  # (T', n_max)

    def pack(self, rows: torch.Tensor) -> torch.Tensor:
        """(B, O) -> (T', n_max, O), zero where there is no row."""
        if len(self.tasks) == 1:
            return rows.unsqueeze(0)
        packed = rows.new_zeros(*self.mask.shape, rows.shape[-1])
        return packed.index_put((self.group, self.place), rows)

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        """(T', n_max, O) -> (B, O)."""
        if len(self.tasks) == 1:
            return packed[0]
        return packed[self.group, self.place]

    def mean(self, packed: torch.Tensor) -> torch.Tensor:
        """(T', n_max, O) -> (T', O), over real rows."""
        if len(self.tasks) == 1:
            return packed.mean(1)
        kept = packed * self.mask.unsqueeze(-1)
        return kept.sum(1) / self.mask.sum(1, keepdim=True)


def group_rows(tasks: torch.Tensor) -> Groups:
    """Sort rows by task number (B,), without a loop."""
    present, group, counts = tasks.unique(return_inverse=True, return_counts=True)
    order = group.argsort(stable=True)
    first = counts.cumsum(0) - counts  # (T',)
    place = torch.empty_like(group)
    place[order] = torch.arange(len(group), device=group.device) - first[group[order]]
    mask = torch.arange(int(counts.max()), device=group.device) < counts.unsqueeze(1)
    return Groups(present, group, place, mask)


class GaussianHeads(nn.Module):
    """psi: T pairs of perceptrons for mean and standard deviation, one stack of 2 T.

    sd = 0.1 + 0.9 sigmoid(.): an exponential diverges to NaN within the first task.
    """

    def __init__(self, count: int, n_in: int, size: int, depth: int, norm: bool) -> None:
        super().__init__()
        self.count = count
        self.pairs = StackedMLP(2 * count, n_in, size, size, depth, norm)

    def forward(self, x: torch.Tensor, tasks: torch.Tensor) -> Independent:
        """(T', n, in) -> batch (T', n), event (O,)."""
        both = self.pairs(torch.cat((x, x)), torch.cat((tasks, tasks + self.count)))
        mean, raw = both.chunk(2)
        return gaussian(mean, 0.1 + 0.9 * torch.sigmoid(raw))


class Encoding(NamedTuple):
    """A set of labelled samples, as the latent path sees it."""

    groups: Groups
    summary: torch.Tensor | None  # (T', O) mean of s^t; None without task latents
    globally: Independent | None  # q(z^G | set), batch (); None without a global latent


class Cells(NamedTuple):
    """Targets of one or two sets, sorted into K cells: one for each task of each set."""

    tasks: torch.Tensor  # (K,)
    sets: torch.Tensor  # (K,)
    cell: torch.Tensor  # (B,) cell of each target
    count: torch.Tensor  # (K,) targets in it
    n_sets: int


class SetsEncoding(NamedTuple):
    """Targets and contexts of all sets, as the latent path sees them."""

    cells: Cells
    summary: torch.Tensor | None  # (2 K, O): of the targets of each cell, then of its context
    globally: tuple[Independent, Independent] | None  # posterior and prior, each batch (G,)


class LatentEncoder(nn.Module):
    """The latent path.

    Args:
        encoder: a SampleEncoder of its own.
        n_tasks: T.
        size: O.
        heads: of the attention.
        depth, norm: of psi.
        has_global: z^G exists (not in st_npcl).
        has_task: z^t exists (not in anp and np).
        attention: False for `np`.
    """

    def __init__(self, encoder: SampleEncoder, n_tasks: int, size: int, heads: int, depth: int,
                 norm: bool, has_global: bool, has_task: bool, attention: bool) -> None:
        super().__init__()
        self.encoder = encoder
        self.taskwise = TaskwiseSelfAttention(n_tasks, size, heads) if has_task else None
        across = has_global and attention
        self.across = Attention(size, heads) if across else None
        self.psi_global = GaussianHeads(1, size, size, depth, norm) if has_global else None
        n_in = 2 * size if has_global else size
        self.psi_task = GaussianHeads(n_tasks, n_in, size, depth, norm) if has_task else None

    def forward(self, x: torch.Tensor, labels: torch.Tensor, tasks: torch.Tensor) -> Encoding:
        """Encode one set.

        Args:
            x: features (B, F).
            labels: (B,).
            tasks: (B,).
        """
        rows = self.encoder(x, labels)  # (B, O)
        groups = group_rows(tasks)
        summary = None
        if self.taskwise is not None:
            packed = self.taskwise(groups.pack(rows), groups.mask, groups.tasks)  # (T', n, O)
            summary = groups.mean(packed)  # (T', O)
            rows = groups.unpack(packed)
        if self.psi_global is None:
            return Encoding(groups, summary, None)
        if self.across is not None:
            rows = self.across(rows, rows, rows)
        pair = self._psi_global(rows.mean(0, keepdim=True)).base_dist  # batch (1,)
        return Encoding(groups, summary, gaussian(pair.loc[0], pair.scale[0]))

    def encode_sets(self, x: torch.Tensor, labels: torch.Tensor, tasks: torch.Tensor,
                    sets: torch.Tensor, context: torch.Tensor, n_sets: int) -> SetsEncoding:
        """Encode the targets and the context of several sets at once; none sees another.

        Args:
            x, labels, tasks: of all targets: (B, F), (B,), (B,).
            sets: (B,) in 0..n_sets-1.
            context: (m,) the targets that are context; every task of every set has one.
        """
        rows = self.encoder(x, labels)
        rows = torch.cat((rows, rows[context]))  # (R, O): all targets, then all contexts
        task = torch.cat((tasks, tasks[context]))
        block = torch.cat((sets, sets[context] + n_sets))  # (R,)
        stride = int(task.max()) + 1
        codes, cell, count = (block * stride + task).unique(return_inverse=True,
                                                            return_counts=True)
        half = len(codes) // 2
        cells = Cells(codes[:half] % stride, codes[:half] // stride, cell[:len(labels)],
                      count[:half], n_sets)
        summary = None
        if self.taskwise is not None:
            rows = self.taskwise.within(rows, group_rows(task), same(cell, cell))
            summary = mean_by(rows, cell, len(codes))
        if self.psi_global is None:
            return SetsEncoding(cells, summary, None)
        if self.across is not None:
            rows = self.across(rows, rows, rows, same(block, block))
        pair = self._psi_global(mean_by(rows, block, 2 * n_sets)).base_dist  # batch (2 G,)
        return SetsEncoding(cells, summary, (gaussian(pair.loc[:n_sets], pair.scale[:n_sets]),
                                             gaussian(pair.loc[n_sets:], pair.scale[n_sets:])))

    def _psi_global(self, means: torch.Tensor) -> Independent:
        """(n, O) -> batch (n,)."""
        only = torch.zeros(1, dtype=torch.long, device=means.device)
        pair = self.psi_global(means[None], only).base_dist
        return gaussian(pair.loc[0], pair.scale[0])

    def of_tasks(self, encoding: Encoding, z_global: torch.Tensor | None) -> Independent | None:
        """q(z^t | z^G, set) for all tasks present: batch (N, T'); None without task latents.

        Args:
            z_global: (N, O), or None in st_npcl, where N is 1.
        """
        if self.psi_task is None:
            return None
        shared = None if z_global is None else z_global.expand(len(encoding.summary), -1, -1)
        return self._psi_task(encoding.summary, shared, encoding.groups.tasks)

    def of_cells(self, encoding: SetsEncoding, z_global: torch.Tensor | None,
                 misdirected: torch.Tensor | None = None) \
            -> tuple[Independent | None, Independent | None]:
        """Posterior and prior of z^t in each cell under the same z^G: batches (N, K).

        Args:
            z_global: (N, G, O), or None in st_npcl.
            misdirected: (K,) psi that the contexts go to instead of their own (ablation).
        """
        if self.psi_task is None:
            return None, None
        cells = encoding.cells
        own = z_global
        if z_global is not None:
            own = z_global.transpose(0, 1)[torch.cat((cells.sets, cells.sets))]  # (2 K, N, O)
        encoders = torch.cat((cells.tasks, cells.tasks if misdirected is None else misdirected))
        both = self._psi_task(encoding.summary, own, encoders).base_dist
        mean, sd = both.loc.chunk(2, dim=1), both.scale.chunk(2, dim=1)
        return gaussian(mean[0], sd[0]), gaussian(mean[1], sd[1])

    def _psi_task(self, summary: torch.Tensor, z_global: torch.Tensor | None,
                  encoders: torch.Tensor) -> Independent:
        """(n, O), (n, N, O) or None, (n,) -> batch (N, n)."""
        x = summary.unsqueeze(1)  # (n, 1, O)
        if z_global is not None:
            x = torch.cat((x.expand(-1, z_global.shape[1], -1), z_global), dim=-1)
        pair = self.psi_task(x, encoders).base_dist  # batch (n, N)
        return gaussian(pair.loc.transpose(0, 1), pair.scale.transpose(0, 1))
