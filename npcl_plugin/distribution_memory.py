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

    def __init__(self, n_tasks: int, size: int) -> None:
        super().__init__()
        self.register_buffer("global_mean", torch.zeros(size))
        self.register_buffer("global_sd", torch.ones(size))
        self.register_buffer("task_mean", torch.zeros(n_tasks, size))
        self.register_buffer("task_sd", torch.ones(n_tasks, size))
        self.register_buffer("recorded", torch.zeros(n_tasks, dtype=torch.bool))

    def globally(self) -> Gaussian:
        """batch ()."""
        return Gaussian(self.global_mean, self.global_sd)

    def of_tasks(self, tasks: torch.Tensor) -> Gaussian:
        """Numbers of tasks (P,) -> batch (P,)."""
        return Gaussian(self.task_mean[tasks], self.task_sd[tasks])

    def numbers(self) -> int:
        """How many numbers are stored, as the paper counts them (appendix, storage gain)."""
        return sum(part.numel() for part in (self.global_mean, self.global_sd, self.task_mean,
                                             self.task_sd))

    @torch.no_grad()
    def record(self, averages: "RunningAverages") -> None:
        """Take over what a pass over the data measured."""
        if averages.batches == 0:
            return
        if averages.globally is not None:
            self.global_mean.copy_(averages.globally[0] / averages.batches)
            self.global_sd.copy_(averages.globally[1] / averages.batches)
        if averages.task is not None:
            seen = averages.count > 0
            count = averages.count[seen].unsqueeze(1)
            self.task_mean[seen] = averages.task[0][seen] / count
            self.task_sd[seen] = averages.task[1][seen] / count
            self.recorded |= seen


class RunningAverages:
    """Batch-wise averages of means and standard deviations during the end-of-task pass.

    Args:
        n_tasks: T.
        wanted: (W,) the tasks to record: those that are new.
    """

    def __init__(self, n_tasks: int, wanted: torch.Tensor) -> None:
        self.n_tasks, self.wanted = n_tasks, wanted
        self.batches = 0
        self.globally: torch.Tensor | None = None  # (2, O) sums
        self.task: torch.Tensor | None = None  # (2, T, O) sums
        self.count = torch.zeros(n_tasks, device=wanted.device)

    def add(self, globally: Gaussian | None, of_tasks: Gaussian | None,
            tasks: torch.Tensor) -> None:
        """One batch: batch () and batch (N, T') distributions, the numbers of the T' tasks."""
        self.batches += 1
        if globally is not None:
            pair = torch.stack((globally.mean, globally.sd))
            self.globally = pair if self.globally is None else self.globally + pair
        if of_tasks is None:
            return
        pair = torch.stack((of_tasks.mean, of_tasks.sd)).mean(1)
        if self.task is None:
            self.task = pair.new_zeros(2, self.n_tasks, pair.shape[-1])
        new = torch.isin(tasks, self.wanted)
        self.task[:, tasks[new]] += pair[:, new]  # (2, W, O)
        self.count[tasks[new]] += 1
