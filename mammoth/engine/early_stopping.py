"""End a task when its validation stops improving (`--fitting_mode early_stopping`)."""
from argparse import Namespace
from typing import Any

from utils.evaluate import evaluate
from utils.loggers import mean


class EarlyStopping:
    """Counts checks without improvement and keeps the best weights.

    Args:
        state: what a checkpoint kept of an earlier process, or {}.
    """

    def __init__(self, args: Namespace, state: dict[str, Any]) -> None:
        self.args = args
        self.state = state or {"best": None, "waited": 0, "weights": None}

    @property
    def finished(self) -> bool:
        """Whether patience has run out."""
        return self.state["waited"] >= self.args.early_stopping_patience

    def check(self, model: Any, dataset: Any, epoch: int) -> None:
        """Validate the current task after an epoch and remember whether it got better."""
        if (epoch + 1) % self.args.early_stopping_freq:
            return
        accs, _, loss = evaluate(model, dataset, last=not self.args.joint, return_loss=True)
        score = -loss if self.args.early_stopping_metric == "loss" else mean(accs)
        best = self.state["best"]
        if best is None or score > best + self.args.early_stopping_epsilon:
            weights = {k: v.detach().clone() for k, v in model.net.state_dict().items()}
            self.state.update(best=score, waited=0, weights=weights)
        else:
            self.state["waited"] += 1

    def restore_best(self, model: Any) -> None:
        """Go back to the best weights, when this mode is on."""
        if self.state["weights"] is not None:
            model.net.load_state_dict(self.state["weights"])
