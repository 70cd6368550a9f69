"""The hierarchy of Gaussians: q(z^G | set) and q(z^t | z^G, set of task t).

Paper: section 4.3 and appendix C; the single-level relatives: appendices A.2 and A.3.
"""
from typing import NamedTuple

import torch
from torch import nn

from npcl_plugin.gaussians import Gaussian
from npcl_plugin.layers.attention import SelfAttention, TaskwiseSelfAttention
from npcl_plugin.layers.encoders import SampleEncoder, mean_by, same
from npcl_plugin.layers.stacked import StackedLayerNorm, StackedLinear, StackedMLP


class Groups(NamedTuple):
    """Rows sorted into tasks: (T', n_max) places, of which `mask` are taken.

    A place that is not taken repeats row 0, so that packing is a plain selection of rows; what
    it computes is masked wherever rows meet.
    """

    tasks: torch.Tensor  # (T',) numbers of the tasks present, ascending
    group: torch.Tensor  # (B,) position of each row's task in `tasks`
    place: torch.Tensor  # (B,) place of each row among all T' * n_max
    row: torch.Tensor  # (T' * n_max,) row at each place
    mask: torch.Tensor  # (T', n_max)

    def pack(self, rows: torch.Tensor) -> torch.Tensor:
        """(B, ...) -> (T', n_max, ...)."""
        if len(self.tasks) == 1:
            return rows.unsqueeze(0)
        return rows.index_select(0, self.row).unflatten(0, self.mask.shape)

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        """(T', n_max, O) -> (B, O)."""
        if len(self.tasks) == 1:
            return packed[0]
        return packed.flatten(0, 1).index_select(0, self.place)

    @property
    def mostly_padding(self) -> bool:
        """Whether pairs within packed tasks outnumber the pairs of all rows."""
        return self.mask.numel() * self.mask.shape[1] > len(self.group) ** 2

    def mean(self, packed: torch.Tensor) -> torch.Tensor:
        """(T', n_max, O) -> (T', O), over real rows."""
        if len(self.tasks) == 1:
            return packed.mean(1)
        kept = packed * self.mask.unsqueeze(-1)
        return kept.sum(1) / self.mask.sum(1, keepdim=True)


def group_rows(tasks: torch.Tensor) -> Groups:
    """Sort rows by task number (B,), without a loop."""
    if bool((tasks == tasks[0]).all()):  # the stream nearly always is one task
        places = torch.arange(len(tasks), device=tasks.device)
        return Groups(tasks[:1], torch.zeros_like(tasks), places, places,
                      torch.ones(1, len(tasks), dtype=torch.bool, device=tasks.device))
    present, group, counts = tasks.unique(return_inverse=True, return_counts=True)
    order = group.argsort(stable=True)
    largest = int(counts.max())
    places = torch.arange(largest, device=tasks.device)
    mask = places < counts.unsqueeze(1)  # (T', n_max)
    row = torch.zeros(mask.numel(), dtype=torch.long, device=tasks.device)
    taken = mask.flatten().nonzero().squeeze(1)  # (B,) in the order of `order`
    row[taken] = order
    place = torch.empty_like(order)
    place[order] = taken
    return Groups(present, group, place, row, mask)


class GaussianHeads(nn.Module):
    """psi: for each of T tasks a perceptron for the mean and one for the standard deviation.

    Their input is [summary; z^G], or the summary alone. The first layer is linear, so the
    summary's part is computed once and not once a draw, for mean and deviation together.

    Args:
        count: T.
        size: O.
        depth, norm: hidden layers of each perceptron, and whether they are normalised.
        with_global: whether z^G is an input.
    """

    def __init__(self, count: int, size: int, depth: int, norm: bool,
                 with_global: bool) -> None:
        super().__init__()
        self.count, self.size = count, size
        self.from_summary = StackedLinear(count, size, 2 * size)
        self.from_global = StackedLinear(count, size, 2 * size, bias=False) \
            if with_global else None
        n_in = 2 * size if with_global else size
        for layer in (self.from_summary, self.from_global):
            if layer is not None:  # Xavier for the two layers of (n_in, O) that they make up
                layer.initialise(n_in, size)
        self.norm = StackedLayerNorm(2 * count, size) if norm and depth else None
        self.rest = StackedMLP(2 * count, size, size, size, depth - 1, norm) if depth else None

    def forward(self, summary: torch.Tensor, tasks: torch.Tensor,
                z_global: torch.Tensor | None = None) -> Gaussian:
        """P summaries of each of n tasks, and the draws of z^G that all P share.

        Args:
            summary: (n, P, O).
            tasks: (n,).
            z_global: (n, N, O), or None, where N is 1.

        Returns:
            batch (n, P, N)
        """
        hidden = self.from_summary(summary, tasks).unsqueeze(2)  # (n, P, 1, 2 O)
        if self.from_global is not None:
            hidden = hidden + self.from_global(z_global, tasks).unsqueeze(1)  # (n, P, N, 2 O)
        if self.rest is None:
            return spread_limited(*hidden.chunk(2, dim=-1))
        shape = hidden.shape[:3]
        hidden = torch.cat(hidden.flatten(1, 2).chunk(2, dim=-1))  # (2 n, P N, O)
        both = torch.cat((tasks, tasks + self.count))  # means, deviations
        if self.norm is not None:
            hidden = self.norm(hidden, both)
        mean, raw = self.rest(torch.relu(hidden), both).unflatten(1, shape[1:]).chunk(2)
        return spread_limited(mean, raw)


def spread_limited(mean: torch.Tensor, raw: torch.Tensor) -> Gaussian:
    """sd = 0.1 + 0.9 sigmoid(.): an exponential diverges to NaN within the first task."""
    return Gaussian(mean, 0.1 + 0.9 * torch.sigmoid(raw))


class Encoding(NamedTuple):
    """A set of labelled samples, as the latent path sees it."""

    groups: Groups
    summary: torch.Tensor | None  # (T', O) mean of s^t; None without task latents
    globally: Gaussian | None  # q(z^G | set), batch (); None without a global latent


class Cells(NamedTuple):
    """Targets of one or two sets, sorted into K cells: one for each task of each set."""

    tasks: torch.Tensor  # (K,)
    sets: torch.Tensor  # (K,)
    cell: torch.Tensor  # (B,) cell of each target
    count: torch.Tensor  # (K,) targets in it
    n_sets: int


class SetLayout(NamedTuple):
    """Targets and contexts of G sets as G equally long rows of places, G * n in all.

    A set's places hold its targets, then its context, then padding, which repeats target 0 and
    has a cell and a block of its own (the last ones), so that it meets nobody.
    """

    cells: Cells
    source: torch.Tensor  # (G n,) target at each place
    task: torch.Tensor  # (G n,)
    cell: torch.Tensor  # (G n,) in 0..2K: cells of targets, cells of contexts, padding
    block: torch.Tensor  # (G n,) in 0..2G: targets of each set, contexts of each, padding

    @classmethod
    def of(cls, tasks: torch.Tensor, sets: torch.Tensor, context: torch.Tensor,
           n_sets: int) -> "SetLayout":
        """Sort tasks (B,) and sets (B,) of the targets, of which `context` (m,) are context."""
        row = torch.cat((torch.arange(len(tasks), device=tasks.device), context))  # (R,)
        block = sets[row]
        block[len(tasks):] += n_sets
        if n_sets > 1:
            groups = group_rows(block % n_sets)
            filled = groups.mask.flatten()
            source, block = row[groups.row], torch.where(filled, block[groups.row], 2 * n_sets)
        else:
            source = row
        task = tasks[source]
        stride = int(tasks.max()) + 1
        codes, cell = torch.where(block < 2 * n_sets, block * stride + task,
                                  2 * n_sets * stride).unique(return_inverse=True)
        n_cells = len(codes) // 2  # K; with or without padding
        of_target = cell[groups.place[:len(tasks)]] if n_sets > 1 else cell[:len(tasks)]
        cells = Cells(codes[:n_cells] % stride, codes[:n_cells] // stride, of_target,
                      of_target.bincount(minlength=n_cells), n_sets)
        return cls(cells, source, task, cell, block)


class SetsEncoding(NamedTuple):
    """Targets and contexts of all sets, as the latent path sees them."""

    cells: Cells
    summary: torch.Tensor | None  # (K, 2, O): of the targets of each cell and of its context
    globally: tuple[Gaussian, Gaussian] | None  # posterior and prior, each batch (G,)


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
        self.across = SelfAttention(size, heads) if across else None
        self.psi_global = GaussianHeads(1, size, depth, norm, False) if has_global else None
        self.psi_task = GaussianHeads(n_tasks, size, depth, norm, has_global) \
            if has_task else None

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
            together = same(tasks, tasks)[None] if groups.mostly_padding else None
            packed = self.taskwise(rows, groups, together)  # (T', n_max, O)
            summary = groups.mean(packed)  # (T', O)
            rows = groups.unpack(packed)
        if self.psi_global is None:
            return Encoding(groups, summary, None)
        if self.across is not None:
            rows = self.across(rows[None])[0]
        return Encoding(groups, summary, self._psi_global(rows.mean(0, keepdim=True))[0])

    def encode_sets(self, x: torch.Tensor, labels: torch.Tensor, tasks: torch.Tensor,
                    sets: torch.Tensor, context: torch.Tensor, n_sets: int) -> SetsEncoding:
        """Encode the targets and the context of several sets at once; none sees another.

        Args:
            x, labels, tasks: of all targets: (B, F), (B,), (B,).
            sets: (B,) in 0..n_sets-1.
            context: (m,) the targets that are context; every task of every set has one.
        """
        layout = SetLayout.of(tasks, sets, context, n_sets)
        rows = self.encoder(x, labels).index_select(0, layout.source)  # (G n, O)
        apart = layout.cell.view(n_sets, -1)  # (G, n)
        summary = None
        if self.taskwise is not None:
            groups = group_rows(layout.task)
            rows = groups.unpack(self.taskwise(rows, groups,
                                               apart.unsqueeze(2) == apart.unsqueeze(1)))
            means = mean_by(rows, layout.cell, 2 * len(layout.cells.tasks) + 1)[:-1]
            summary = means.unflatten(0, (2, -1)).transpose(0, 1)  # (K, 2, O)
        if self.psi_global is None:
            return SetsEncoding(layout.cells, summary, None)
        if self.across is not None:
            block = layout.block.view(n_sets, -1)
            rows = self.across(rows.unflatten(0, (n_sets, -1)),
                               block.unsqueeze(2) == block.unsqueeze(1)).flatten(0, 1)
        means = mean_by(rows, layout.block, 2 * n_sets + 1)[:-1]
        pair = self._psi_global(means)  # batch (2 G,)
        return SetsEncoding(layout.cells, summary, (pair[:n_sets], pair[n_sets:]))

    def _psi_global(self, means: torch.Tensor) -> Gaussian:
        """(n, O) -> batch (n,)."""
        only = torch.zeros(1, dtype=torch.long, device=means.device)
        return self.psi_global(means[None], only)[0, :, 0]

    def of_tasks(self, encoding: Encoding, z_global: torch.Tensor | None) -> Gaussian | None:
        """q(z^t | z^G, set) for all tasks present: batch (N, T'); None without task latents.

        Args:
            z_global: (N, O), or None in st_npcl, where N is 1.
        """
        if self.psi_task is None:
            return None
        shared = None if z_global is None else z_global.expand(len(encoding.summary), -1, -1)
        found = self.psi_task(encoding.summary.unsqueeze(1), encoding.groups.tasks, shared)
        return found[:, 0].swap()

    def of_cells(self, encoding: SetsEncoding, z_global: torch.Tensor | None,
                 misdirected: torch.Tensor | None = None) \
            -> tuple[Gaussian | None, Gaussian | None]:
        """Posterior and prior of z^t in each cell under the same z^G: batches (N, K).

        Args:
            z_global: (N, G, O), or None in st_npcl.
            misdirected: (K,) psi that the contexts go to instead of their own (ablation).
        """
        if self.psi_task is None:
            return None, None
        cells, summary = encoding.cells, encoding.summary  # (K, 2, O)
        own = None if z_global is None else \
            z_global.transpose(0, 1).index_select(0, cells.sets)  # (K, N, O)
        if misdirected is None:
            posterior, prior = self.psi_task(summary, cells.tasks, own).unbind(1)  # (K, N) each
            return posterior.swap(), prior.swap()
        posterior = self.psi_task(summary[:, :1], cells.tasks, own)
        prior = self.psi_task(summary[:, 1:], misdirected, own)
        return posterior[:, 0].swap(), prior[:, 0].swap()
