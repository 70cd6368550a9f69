"""Forward passes that leave the running statistics of batch normalisation alone."""
from types import TracebackType

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


class bn_track_stats:  # noqa: N801 (upstream's name: used as a function, `with bn_track_stats(...)`)
    """Context in which the batch-norm layers of `module` do not update running statistics.

    In training mode the layers normalise with the statistics of the batch, which are then not
    recorded. Layers that did not track before stay so afterwards.

    Args:
        module: the network.
        condition: track as usual when true, so that a flag can be passed straight in.
    """

    def __init__(self, module: nn.Module, condition: bool = True) -> None:
        self.module = module
        self.enable = condition
        self._paused: list[_BatchNorm] = []

    def __enter__(self) -> "bn_track_stats":
        if not self.enable:
            layers = (m for m in self.module.modules() if isinstance(m, _BatchNorm))
            self._paused = [layer for layer in layers if layer.track_running_stats]
            for layer in self._paused:
                layer.track_running_stats = False
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for layer in self._paused:
            layer.track_running_stats = True
        self._paused = []
