"""Learning-rate schedules within a task (`--lr_scheduler`)."""
import math
from argparse import Namespace
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, MultiStepLR

from engine.errors import UsageError


def get_scheduler(model: Any, args: Namespace, reload_optim: bool = True) -> LRScheduler | None:
    """The schedule for the coming task, or None.

    Args:
        model: its `custom_scheduler`, if it set one, wins.
        reload_optim: renew `model.opt`, so that each task starts at the full learning rate.

    Raises:
        UsageError: the schedule has no such name or lacks its milestones.
    """
    own = getattr(model, "custom_scheduler", None)  # some method files pass a bare network
    if own is not None:
        return own
    name = getattr(args, "lr_scheduler", None)
    if name is None or str(name).lower() == "none":
        return None
    if reload_optim:
        model.opt = model.get_optimizer()
    if name == "multisteplr":
        if not args.lr_milestones:
            raise UsageError("--lr_scheduler multisteplr needs --lr_milestones, e.g. 35 45.")
        return MultiStepLR(model.opt, args.lr_milestones, args.sched_multistep_lr_gamma)
    if name == "cosine":
        length = args.n_iters if args.fitting_mode == "iters" else args.n_epochs
        if args.scheduler_mode == "iter" and args.fitting_mode != "iters":
            length *= len(model.dataset.train_loader)
        return CosineAnnealingLR(model.opt, length)
    raise UsageError(f"Expected --lr_scheduler to be multisteplr or cosine, but got {name}.")


class CosineSchedule(LambdaLR):
    """A quarter of a cosine: from the full rate to 1.6 % of it after K - 1 steps (CODA-Prompt).

    Args:
        K: number of steps, at least 2.
    """

    def __init__(self, optimizer: Optimizer, K: int) -> None:  # noqa: N803 (upstream's name)
        if K < 2:
            raise UsageError(f"Expected this method to have at least 2 epochs per task, but got "
                             f"{K}; give --n_epochs.")
        super().__init__(optimizer, lambda step: math.cos(0.99 * math.pi / 2 * step / (K - 1)))


class CosineSchedulerWithLinearWarmup(LambdaLR):
    """Rises linearly during the warm-up, then falls to 0 along half a cosine.

    Args:
        base_lrs: the full rate, or one for each group of parameters.
        warmup_length: steps until the full rate is reached.
        steps: all steps, warm-up included.
    """

    def __init__(self, optimizer: Optimizer, base_lrs: float | list[float], warmup_length: int,
                 steps: int) -> None:
        groups = optimizer.param_groups
        rates = base_lrs if isinstance(base_lrs, list) else [base_lrs] * len(groups)
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate

        def share(step: int) -> float:
            if step < warmup_length:
                return (step + 1) / warmup_length
            return 0.5 + 0.5 * math.cos(math.pi * (step - warmup_length) / (steps - warmup_length))

        super().__init__(optimizer, share)
