"""How the learning rate rises at the beginning: once in a run, or in every task."""
from argparse import Namespace
from typing import Any

LOWEST_RATE = 1e-5


class WarmUpOnce:
    """A linear rise over the first steps of a run.

    Args:
        args: with `warmup`, the number of steps.
    """

    def __init__(self, args: Namespace) -> None:
        self.args = args

    def begin_task(self, dataset: Any) -> None:
        """A new task does not matter."""

    def factor(self, steps: int, steps_of_task: int) -> float:
        """Of the learning rate, after so many steps of the run and of the task."""
        warmup: int = self.args.warmup
        return min(1.0, (steps + 1) / max(warmup, 1))

    def state_dict(self) -> dict[str, int]:
        """There is none."""
        return {}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """There is nothing to load."""


class WarmUpEveryTask(WarmUpOnce):
    """A linear rise from 1e-5 over a part of every task's steps, as in the authors' code.

    Args:
        args: with `warmup_share`, that part, and what makes up the number of steps.
    """

    def __init__(self, args: Namespace) -> None:
        super().__init__(args)
        self.n_steps = 0  # of the rise

    def begin_task(self, dataset: Any) -> None:
        """Find out how many steps the task will have."""
        self.n_steps = int(steps_of_task(dataset, self.args) * self.args.warmup_share)

    def factor(self, steps: int, steps_of_task: int) -> float:
        """Of the learning rate, after so many steps of the run and of the task."""
        if steps_of_task >= self.n_steps:
            return 1.0
        lowest = LOWEST_RATE / float(self.args.lr)
        return lowest + (1.0 - lowest) * steps_of_task / self.n_steps

    def state_dict(self) -> dict[str, int]:
        """The length of the rise in the task at hand."""
        return {"n_steps": self.n_steps}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on with the task at hand."""
        self.n_steps = int(state["n_steps"])


def steps_of_task(dataset: Any, args: Namespace) -> int:
    """How many steps the task that begins will have."""
    iterations: int | None = getattr(args, "n_iters", None)
    return iterations or len(dataset.train_loader) * args.n_epochs


def warm_up(args: Namespace) -> WarmUpOnce:
    """The one that the arguments ask for."""
    return WarmUpEveryTask(args) if args.warmup_share else WarmUpOnce(args)
