"""Live curves for people who want them: TensorBoard and Weights & Biases, both optional."""
import os
from argparse import Namespace
from typing import Any

from engine.errors import UsageError
from engine.progress_file import ProgressFile
from utils.loggers import plain_args


class Trackers:
    """Sends losses and accuracies to every tracker that the arguments switch on."""

    def __init__(self, tensorboard: Any = None, wandb_run: Any = None,
                 progress: ProgressFile | None = None) -> None:
        self.tensorboard = tensorboard
        self.wandb_run = wandb_run
        self.progress = progress
        self.step = 0

    def log_step(self, terms: dict[str, Any], position: Any) -> None:
        """The loss, and its terms where the method returns them."""
        self.step += 1
        if self.progress is not None:
            self.progress.step(position)
        self._send({f"train/{name}": value for name, value in terms.items()})

    def log_accuracies(self, line: dict[str, Any]) -> None:
        """An evaluation, as metrics.jsonl has it."""
        if self.progress is not None:
            self.progress.accuracy = line["mean"]
        values = {"accuracy/mean": line["mean"]}
        values |= {f"accuracy/task_{i + 1}": v for i, v in enumerate(line["accuracies"])}
        if "task_il_mean" in line:
            values["accuracy/task_il_mean"] = line["task_il_mean"]
        self._send(values)

    def close(self) -> None:
        """Flush and end the sessions."""
        if self.tensorboard is not None:
            self.tensorboard.close()
        if self.wandb_run is not None:
            self.wandb_run.finish()

    def _send(self, values: dict[str, Any]) -> None:
        if self.tensorboard is not None:
            for name, value in values.items():
                self.tensorboard.add_scalar(name, value, self.step)
        if self.wandb_run is not None:
            self.wandb_run.log(values, step=self.step)


def open_trackers(args: Namespace, folder: Any) -> Trackers:
    """Start what `--tensorboard` and `--wandb_project` ask for.

    Raises:
        UsageError: the package is not installed; the sentence says how to get it.
    """
    tensorboard = wandb_run = None
    if args.tensorboard:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UsageError("--tensorboard needs the extra `logging`: pip install "
                             "tensorboard.") from error
        tensorboard = SummaryWriter(str(folder.path / "tensorboard"))
    project = args.wandb_project or os.environ.get("WANDB_PROJECT")
    if project and not args.debug_mode:
        try:
            import wandb
        except ImportError as error:
            raise UsageError("--wandb_project needs the extra `wandb`: pip install "
                             "wandb.") from error
        wandb_run = wandb.init(project=project,
                               entity=args.wandb_entity or os.environ.get("WANDB_ENTITY"),
                               name=args.wandb_name or args.model, dir=str(folder.path),
                               config=plain_args(args))
    return Trackers(tensorboard, wandb_run, ProgressFile.from_environment())
