"""What can only be known once benchmark and network are built, asked before anything is read."""
import math
from argparse import Namespace
from typing import Any

import torch
from torch import nn

from engine.errors import UsageError
from utils.conf import machine_memory
from utils.evaluate import evaluation_mode

_NUMBER = 4  # bytes
_GIGABYTE = 2**30


def image_shape(dataset: Any) -> tuple[int, ...]:
    """Channels, height and width of the benchmark's images."""
    channels = len(dataset.MEAN) if getattr(dataset, "MEAN", None) is not None else 1
    return channels, *dataset.SIZE


def check_memory(args: Namespace, dataset: Any) -> None:
    """Refuse a buffer that this machine cannot hold.

    Raises:
        UsageError: naming what it would take.
    """
    rows = getattr(args, "buffer_size", None) or 0
    needed = rows * math.prod(image_shape(dataset)) * _NUMBER
    there = machine_memory()
    if needed > there:
        raise UsageError(f"--buffer_size {rows} needs {needed / _GIGABYTE:,.0f} GB, but this "
                         f"machine has {there / _GIGABYTE:,.0f} GB of memory; choose a smaller "
                         "one.")


def check_network(args: Namespace, net: nn.Module, dataset: Any) -> None:
    """Show the network one image: it has to take it and to answer for each class.

    Raises:
        UsageError: it does not fit the benchmark.
    """
    shape = image_shape(dataset)
    image = torch.zeros(1, *shape, device=next(net.parameters(), torch.zeros(0)).device)
    said = " x ".join(map(str, shape))
    try:
        with evaluation_mode(net):
            logits = net(image)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise UsageError(f"The network {args.backbone} does not take the images of {args.dataset} "
                         f"({said}); choose another --backbone, or leave out --input_size where "
                         "it is given.") from error
    classes = logits.shape[1] if torch.is_tensor(logits) and logits.dim() == 2 else None
    if classes != dataset.N_CLASSES:
        raise UsageError(f"Expected --num_classes to be {dataset.N_CLASSES}, the classes of "
                         f"{args.dataset}, but the network {args.backbone} answers for {classes}; "
                         "leave it out.")
