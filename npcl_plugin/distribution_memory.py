"""M_N of the paper: the distributions as they were when each task was new.

Two vectors a task and two global ones, as registered buffers of the network, so that they are
part of every checkpoint, here and in upstream Mammoth.
"""
import torch
from torch import nn

from npcl_plugin.gaussians import Gaussian


class DistributionMemory(nn.Module):
    """Recorded (mu_G, sd_G) and (mu_t, sd_t); a standard normal until something is recorded.

    Args:
        n_tasks: T.
        size: O.
    """

    global_mean: torch.Tensor  # (O,)
    global_sd: torch.Tensor
    task_mean: torch.Tensor  # (T, O)
    task_sd: torch.Tensor
    recorded: torch.Tensor  # (T,)

    def __init__(self, n_tasks: int, size: int) -> None:
        super().__init__()
        self.register_buffer("global_mean", torch.zeros(size))
        self.register_buffer("global_sd", torch.ones(size))
        self.register_buffer("task_mean", torch.zeros(n_tasks, size))
        self.register_buffer("task_sd", torch.ones(n_tasks, size))
        self.register_buffer("recorded", torch.zeros(n_tasks, dtype=torch.bool))

    def global_latent(self) -> Gaussian:
        """batch ()."""
        return Gaussian(self.global_mean, self.global_sd)

    @property
    def blank(self) -> bool:
        """Whether no global distribution was ever recorded."""
        return not self.global_mean.any() and bool((self.global_sd == 1).all())

    def anchors(self) -> Gaussian:
        """What GR holds the global latent to, batch () or (n,)."""
        return self.global_latent()

    def task_latents(self, tasks: torch.Tensor) -> Gaussian:
        """Numbers of tasks (P,) -> batch (P,)."""
        return Gaussian(self.task_mean[tasks], self.task_sd[tasks])

    def numbers(self) -> int:
        """How many numbers are stored, as the paper counts them (appendix, storage gain)."""
        return sum(part.numel() for part in (self.global_mean, self.global_sd, self.task_mean,
                                             self.task_sd))

    @torch.no_grad()
    def record(self, averages: "RunningAverages") -> None:
        """Take over what a pass over the data measured."""
        if averages.batches:
            pair = averages.global_sums / averages.batches
            self.global_mean.copy_(pair[0])
            self.global_sd.copy_(pair[1])
        seen = averages.count > 0
        count = averages.count[seen].unsqueeze(1)
        self.task_mean[seen] = averages.task_sums[0, seen] / count
        self.task_sd[seen] = averages.task_sums[1, seen] / count
        self.recorded |= seen


class GlobalHistory(DistributionMemory):
    """A memory of every global distribution that was recorded, not of the last alone.

    Args:
        n_tasks: T.
        size: O.
        n_records: how many there may be.
    """

    past_mean: torch.Tensor  # (n, O)
    past_sd: torch.Tensor
    n_past: torch.Tensor  # ()

    def __init__(self, n_tasks: int, size: int, n_records: int) -> None:
        super().__init__(n_tasks, size)
        self.register_buffer("past_mean", torch.zeros(n_records, size))
        self.register_buffer("past_sd", torch.ones(n_records, size))
        self.register_buffer("n_past", torch.zeros((), dtype=torch.long))

    def anchors(self) -> Gaussian:
        """Every one, batch (n,)."""
        return Gaussian(self.past_mean, self.past_sd)[:int(self.n_past)]

    def numbers(self) -> int:
        """How many numbers are stored; the last distribution is one of the past ones."""
        return super().numbers() + 2 * (self.past_mean.numel() - self.global_mean.numel())

    @torch.no_grad()
    def record(self, averages: "RunningAverages") -> None:
        """Take over what a pass over the data measured."""
        super().record(averages)
        if averages.batches:
            self.past_mean[self.n_past] = self.global_mean
            self.past_sd[self.n_past] = self.global_sd
            self.n_past += 1


class RunningAverages:
    """Batch-wise averages of means and standard deviations during the end-of-task pass.

    Args:
        memory: where they go in the end.
        wanted: (W,) the tasks to record: those that are new.
    """

    def __init__(self, memory: DistributionMemory, wanted: torch.Tensor) -> None:
        self.wanted, self.batches = wanted, 0
        self.global_sums = torch.zeros_like(torch.stack((memory.global_mean, memory.global_sd)))
        self.task_sums = torch.zeros_like(torch.stack((memory.task_mean, memory.task_sd)))
        self.count = torch.zeros(len(memory.recorded), device=wanted.device)

    def add(self, global_latents: Gaussian, task_latents: Gaussian, tasks: torch.Tensor) -> None:
        """Some batches: batch (G,), and batch (N, K) with the numbers of the wanted tasks (K,).

        A level without units leaves no trace.
        """
        if global_latents.size:
            self.batches += len(global_latents.mean)
            self.global_sums += torch.stack((global_latents.mean, global_latents.sd)).sum(1)
        if task_latents.size:
            pair = torch.stack((task_latents.mean.mean(0), task_latents.sd.mean(0)))  # (2, K, O)
            self.task_sums.index_add_(1, tasks, pair)
            self.count.index_add_(0, tasks, torch.ones_like(tasks, dtype=self.count.dtype))
