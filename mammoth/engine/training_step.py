"""One step of training as a run and a taught model both take it, and what is wrong with one."""
import math
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import torch

from engine.errors import RunError
from utils.checkpoints import Position


def take_step(model: Any, batch: Sequence[torch.Tensor], position: Position,
              extra_names: Sequence[str] = ()) -> dict[str, Any]:
    """One step on a batch; returns the terms of the loss.

    Args:
        batch: inputs, labels, inputs that are not augmented, then what `extra_names` names.
        position: where in the training it is; counted on.

    Raises:
        RunError: a term of the loss is not finite.
    """
    inputs, labels, not_aug = (part.to(model.device) for part in batch[:3])
    extra = {name: value.to(model.device) for name, value in zip(extra_names, batch[3:],
                                                                 strict=False)}
    outcome = model.meta_observe(inputs, labels, not_aug, epoch=position.epoch, **extra)
    terms = outcome if isinstance(outcome, dict) else {"loss": outcome}
    if not all(math.isfinite(value) for value in terms.values()
               if isinstance(value, (int, float))):
        raise RunError(non_finite_message(terms, position))
    position.batch += 1
    position.steps += 1
    return terms


def nothing_to_train_on(args: Namespace, position: Position) -> str:
    """Why a task without a single batch cannot be learned."""
    why = f"it has fewer than --batch_size {args.batch_size} samples and --drop_last 1 skips an " \
        "incomplete batch; lower --batch_size" if args.drop_last else \
        "it has no sample; choose other data"
    return f"There is nothing to train on in task {position.task + 1}: {why}."


def non_finite_message(terms: dict[str, Any], position: Position) -> str:
    """Which term of the loss went wrong, and when."""
    bad = [name for name, value in terms.items()
           if isinstance(value, (int, float)) and not math.isfinite(value)]
    named = [name for name in bad if name != "loss"] or bad
    return (f"The {' and '.join(named)} became {terms[bad[0]]} in task {position.task + 1}, epoch "
            f"{position.epoch + 1}, step {position.batch + 1}; lower --lr or look at that term. "
            "What was measured before is kept.")


def ensure_finite_weights(model: Any, task: int) -> None:
    """The last step of a task shows in no loss, nor does what a method trains in its hooks.

    Raises:
        RunError: training went astray.
    """
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise RunError(f"The weights {name} are not finite after task {task + 1}; lower --lr. "
                           "What was measured before is kept.")
