"""Learning-rate schedules within a task (`--lr_scheduler`)."""
from argparse import Namespace
from typing import Any

from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, MultiStepLR

from utils.errors import UsageError


def get_scheduler(model: Any, args: Namespace, reload_optim: bool = True) -> LRScheduler | None:
    """The schedule for the coming task, or None.

    Args:
        model: its `custom_scheduler`, if it set one, wins.
        reload_optim: renew `model.opt`, so that each task starts at the full learning rate.

    Raises:
        UsageError: the schedule has no such name or lacks its milestones.
    """
    if model.custom_scheduler is not None:
        return model.custom_scheduler
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
