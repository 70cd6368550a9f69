"""Where things are (paths, device) and what is random (seeds, loaders)."""
import functools
import logging
import os
import random
from argparse import Namespace
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from engine.errors import UsageError

_PATHS = {"base": "./data/", "checkpoints": "./checkpoints/"}


def _path(kind: str, override: str | None) -> str:
    if override is not None:
        _PATHS[kind] = override if override.endswith("/") else override + "/"
    return _PATHS[kind]


def base_path(override: str | None = None) -> str:
    """The folder of datasets and results, with a trailing slash; `override` changes it."""
    return _path("base", override)


def get_checkpoint_path(override: str | None = None) -> str:
    """The folder of checkpoints, with a trailing slash; `override` changes it."""
    return _path("checkpoints", override)


def machine_memory() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@functools.cache
def warn_once(*message: object) -> None:
    """Log a warning the first time it is given."""
    logging.getLogger("mammoth").warning(" ".join(str(part) for part in message))


def get_device(wanted: str | None = None) -> torch.device:
    """The device to compute on.

    Args:
        wanted: "cpu", "mps", "cuda", "cuda:1", "1" or a comma list of GPU ids (the first is
            used); None picks the GPU with most free memory, else MPS, else the CPU.

    Raises:
        UsageError: `wanted` is not a device, or is not there.
    """
    if wanted is None or not str(wanted).strip():
        return _best_device()
    name = str(wanted).split(",")[0].strip()
    try:
        device = torch.device(f"cuda:{name}" if name.isdigit() else name)
    except (RuntimeError, ValueError, OverflowError):
        device = None
    if device is None or device.type not in ("cpu", "mps", "cuda"):
        raise UsageError(f"Expected --device to be cpu, mps, cuda or a GPU number, but got "
                         f"`{wanted}`.")
    if device.type == "cuda" and not 0 <= (device.index or 0) < torch.cuda.device_count():
        raise UsageError(f"--device {wanted} asks for a GPU, but this machine has "
                         f"{torch.cuda.device_count()}; use --device cpu.")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UsageError("--device mps is not available here; use --device cpu.")
    return device


def _best_device() -> torch.device:
    if torch.cuda.is_available():
        free = [torch.cuda.mem_get_info(i)[0] for i in range(torch.cuda.device_count())]
        return torch.device(f"cuda:{int(np.argmax(free))}")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def set_random_seed(seed: int) -> None:
    """Seed every global generator that a method might use."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def get_rng_state() -> dict[str, Any]:
    """The state of the global generators as plain numbers and tensors (safe to load)."""
    numpy = np.random.get_state(legacy=False)
    keys = numpy["state"]["key"].astype(np.int64)
    version, numbers, gauss_next = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": [numpy["bit_generator"], torch.from_numpy(keys), numpy["state"]["pos"],
                  numpy["has_gauss"], numpy["gauss"]],
        "python": [version, list(numbers), gauss_next],
    }


def set_rng_state(state: dict[str, Any]) -> None:
    """Put the global generators back to what `get_rng_state` recorded."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    kind, keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, gauss))
    version, numbers, gauss_next = state["python"]
    random.setstate((version, tuple(numbers), gauss_next))


def seed_worker(worker_id: int, seed: int) -> None:
    """Give each loader process its own, repeatable randomness."""
    set_random_seed(seed + worker_id)


def create_seeded_dataloader(args: Namespace, dataset: Dataset, non_verbose: bool = False,
                             **options: Any) -> DataLoader:
    """An ordinary DataLoader whose order depends on the run's seed only.

    Args:
        args: reads `seed` and `num_workers`.
        options: passed on to DataLoader.
    """
    seed = getattr(args, "seed", None)
    seed = torch.initial_seed() if seed is None else seed
    workers = getattr(args, "num_workers", None)
    options.setdefault("num_workers", 0 if workers is None else workers)
    options.setdefault("generator", torch.Generator().manual_seed(seed))
    options.setdefault("worker_init_fn", functools.partial(seed_worker, seed=seed))
    return DataLoader(dataset, **options)
