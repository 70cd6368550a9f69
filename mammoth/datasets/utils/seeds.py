"""Private randomness of the data, all of it derived from one number of the run.

Nothing here reads or advances a global generator, so every method, whatever randomness it uses
itself, sees the same tasks, the same splits and the same order of samples.
"""
from argparse import Namespace

import numpy as np
import torch

_NON_NEGATIVE = 2 ** 63


def data_seed(args: Namespace) -> int:
    """The number that all data randomness of this run starts from.

    It is `--seed`; without one it is taken from torch once and kept in `args.data_seed`, so that
    a second dataset made from the same arguments (the final test after `--validation`, a resumed
    run) is the same benchmark.
    """
    seed = getattr(args, "seed", None)
    if seed is None:
        if getattr(args, "data_seed", None) is None:
            args.data_seed = torch.initial_seed() % _NON_NEGATIVE
        seed = args.data_seed
    return int(seed) % _NON_NEGATIVE


def numpy_rng(*numbers: int) -> np.random.Generator:
    """A generator that depends on these numbers only."""
    return np.random.default_rng(list(numbers))


def torch_generator(*numbers: int) -> torch.Generator:
    """A CPU generator that depends on these numbers only; near numbers give unrelated streams."""
    mixed = np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(mixed) % _NON_NEGATIVE)
