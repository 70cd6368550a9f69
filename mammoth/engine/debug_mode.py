"""`--debug_mode 1`, a smoke test: every step of a run, as little of each as possible.

The data are cut where loaders are made, so that whatever passes over a task (training, its
evaluation, herding, Fisher information, the end of a task) is short without knowing about it.
"""
from argparse import Namespace

import numpy as np

BATCHES = 4  # of the stream, per task
TEST_SAMPLES = 64  # per task, at most
_SOURCE = "debug mode"


def shorten(args: Namespace) -> None:
    """Bound the length of training, in place: one epoch of a few batches per task."""
    if not args.debug_mode:
        return
    for name, most in (("n_epochs", 1), ("n_iters", BATCHES), ("early_stopping_patience", 1)):
        value = getattr(args, name, None)
        if value is not None and value > most:
            setattr(args, name, most)
            args.conf_sources[name] = _SOURCE


def few_rows(targets: np.ndarray, args: Namespace, train: bool) -> np.ndarray | None:
    """The samples of a task that a smoke test uses: the same number of each class.

    Args:
        targets: (N,) labels.

    Returns:
        Which rows stay, (N,) bool; None outside of debug mode.
    """
    if not getattr(args, "debug_mode", False):
        return None
    labels, counts = np.unique(targets, return_counts=True)
    wanted = BATCHES * args.batch_size if train else TEST_SAMPLES
    each = max(-(-wanted // max(len(labels), 1)), 2)
    stays = np.zeros(len(targets), dtype=bool)
    for label, count in zip(labels, counts, strict=True):
        stays[np.flatnonzero(targets == label)[:min(each, count)]] = True
    return stays
