"""Several GPUs in one process, for method files that ask for it."""
from typing import Any

import torch
from torch import nn

from engine.errors import UsageError


class CustomDP(nn.DataParallel):
    """DataParallel that answers for the network inside: its attributes and its state."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.load_state_dict(*args, **kwargs)


def make_dp(model: nn.Module) -> CustomDP:
    """Spread a network over all GPUs.

    Raises:
        UsageError: there is none.
    """
    if not torch.cuda.is_available():
        raise UsageError("This method spreads its network over GPUs, but there is none here.")
    return CustomDP(model.to("cuda:0"), device_ids=list(range(torch.cuda.device_count())))
