"""How many threads a run computes with: sharing a small layer costs more than it saves."""
import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from utils.evaluate import evaluation_mode

AUTO = "auto"
# Multiplications of a batch's forward pass from which on several threads are faster than one.
WORTH_SHARING = 3e8
_CGROUP, _OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def usable_cores() -> int:
    """The cores that this process may use: by its affinity, its cgroup and `OMP_NUM_THREADS`."""
    limits = [os.cpu_count() or 1]
    if hasattr(os, "sched_getaffinity"):
        limits.append(len(os.sched_getaffinity(0)))
    wish = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # one a level of nesting
    if wish.isdigit() and int(wish) > 0:
        limits.append(int(wish))
    return max(1, min([*limits, *_cgroup_quotas()]))


def _cgroup_quotas() -> Iterator[int]:
    """Whole cores' worth of time that containers and slices give this process."""
    for group in _cgroups():
        with suppress(OSError, ValueError, ZeroDivisionError):  # no such limit, or "max"
            if (group / "cpu.max").is_file():
                quota, period = (group / "cpu.max").read_text().split()[:2]
            else:
                quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip()
                                 for name in ("quota", "period"))
            if float(quota) > 0:
                yield int(float(quota) / float(period))


def _cgroups() -> Iterator[Path]:
    """The control groups around this process, of both versions of the system's interface."""
    yield from (_CGROUP, _CGROUP / "cpu")
    lines: list[str] = []
    with suppress(OSError):
        lines = _OWN_CGROUPS.read_text().splitlines()
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if not kinds or "cpu" in kinds.split(","):
            top = _CGROUP / "cpu" if kinds else _CGROUP
            own = top / path.strip("/")
            yield from (own, *(above for above in own.parents if above.is_relative_to(top)))


def multiplications(net: nn.Module, images: torch.Tensor) -> int:
    """What one forward pass of the network's linear and convolutional layers multiplies."""
    counts: list[int] = []

    def count(layer: nn.Module, inputs: object, output: torch.Tensor) -> None:
        weight = layer.get_parameter("weight")
        counts.append(output.numel() * (weight.numel() // len(weight)))

    layers = [m for m in net.modules() if isinstance(m, (nn.Linear, nn.modules.conv._ConvNd))]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    try:
        with evaluation_mode(net):
            net(images)
    finally:
        for hook in hooks:
            hook.remove()
    return sum(counts)


def fastest(net: nn.Module, image: torch.Tensor, batch_size: int) -> int:
    """The number of threads for a network and a batch: all that may be used, or one.

    Args:
        image: one input, (1, ...).
    """
    shared = multiplications(net, image) * batch_size >= WORTH_SHARING
    return usable_cores() if shared else 1


def use_threads(args: Namespace, net: nn.Module, dataset: Any) -> None:
    """Let torch compute with as many threads as `--threads` says."""
    if args.threads != AUTO:
        torch.set_num_threads(int(args.threads))
        return
    channels = len(dataset.MEAN) if getattr(dataset, "MEAN", None) is not None else 1
    image = torch.zeros(1, channels, *dataset.SIZE)
    torch.set_num_threads(fastest(net, image, args.batch_size))


def where(device: torch.device) -> str:
    """The device, with the threads that a CPU computes with."""
    count = torch.get_num_threads()
    return str(device) if device.type != "cpu" else \
        f"{device} ({count} thread{'s' if count > 1 else ''})"
