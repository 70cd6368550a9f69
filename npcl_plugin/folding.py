"""The backbone in evaluation mode by fewer operations: the same features, but for rounding.

A batch norm that is not trained multiplies and adds what does not change, which can be done to
the weights of the convolution before it, once for all images; ReLUs and sums of residual blocks
can write over a result that nobody else reads.
"""
import operator
import sys
from collections import Counter
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

_RELUS = (F.relu, torch.relu)


class Pair(NamedTuple):
    """A convolution and the norm of its results."""

    name: str  # of the convolution in the traced network
    convolution: nn.Conv2d
    norm: nn.BatchNorm2d

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """What the folded weights depend on."""
        return (*self.convolution.parameters(), *self.norm.parameters(), *self.norm.buffers())


class FoldedFeatures:
    """Features of images as a backbone has them, where they are only looked at.

    Weights and layers of the backbone may change at any time. With gradients, a layer in training
    mode, hooks, or a device other than the CPU the backbone itself is asked; likewise if it has
    no norms, or torch cannot trace it.
    """

    def __init__(self) -> None:
        self._layers: list[nn.Module] = []
        self._network: fx.GraphModule | None = None
        self._pairs: list[Pair] = []
        self._tensors: list[torch.Tensor] = []
        self._state: list[tuple[int, int]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return FoldedFeatures, ()  # a copy begins anew, with the backbone that it is asked about

    def __call__(self, backbone: nn.Module, x: torch.Tensor) -> torch.Tensor:
        """Images -> (B, F)."""
        layers = [] if torch.is_grad_enabled() else list(backbone.modules())
        if x.device.type != "cpu" or len(x) == 0 \
                or not any(isinstance(layer, nn.BatchNorm2d) for layer in layers) \
                or any(layer.training or layer._forward_hooks or layer._forward_pre_hooks
                       for layer in layers):
            self._state = []  # training may write to weights without torch's knowing (`.data`)
            return plain_features(backbone, x)
        if layers != self._layers:
            self._layers = layers
            self._trace(backbone, x[:1])
        return plain_features(backbone, x) if self._network is None else self._features(x)

    def _trace(self, backbone: nn.Module, x: torch.Tensor) -> None:
        """The traced backbone is used if it says of some images what the backbone does."""
        try:
            self._network, self._pairs = traced(backbone)
            found, expected = self._features(x.clone()), plain_features(backbone, x.clone())
            largest = float(expected.abs().nan_to_num(0).amax())
            if not torch.allclose(found, expected, rtol=0, atol=1e-3 * largest, equal_nan=True):
                raise ValueError("its features are not the backbone's")
        except Exception as error:  # a network of somebody else may do anything
            self._network = None
            _complain(type(backbone).__name__,
                      str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__)

    def _features(self, x: torch.Tensor) -> torch.Tensor:
        assert self._network is not None
        tensors = [tensor for pair in self._pairs for tensor in pair.tensors()]
        state = [(t.data_ptr(), t._version) for t in tensors]  # torch counts in-place writes
        if state != self._state:
            for name, convolution, norm in self._pairs:
                folded = fuse_conv_bn_eval(convolution, norm)
                # Channels innermost, as in the images: less to reorder for every batch.
                self._network.set_submodule(name, nn.utils.convert_conv2d_weight_memory_format(
                    folded, torch.channels_last))
            # While they are kept, no other tensor can have their places in memory.
            self._tensors, self._state = tensors, state
        found: torch.Tensor = self._network(x)
        return found


@cache
def _complain(network: str, reason: str) -> None:
    """Once, as there may be many copies of a network."""
    print(f"{network} is evaluated without folded norms, which are faster: {reason}.",
          file=sys.stderr)


def plain_features(backbone: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Layer by layer, (B, F)."""
    found: torch.Tensor = backbone(x, returnt="features")
    return found


class _Traced(nn.Module):
    """A backbone as a function of images alone."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images -> (B, F)."""
        return plain_features(self.backbone, x)


class _OnCPU(fx.Proxy):
    """Stands for a tensor whose place is known, so that networks may ask for it."""

    device = torch.device("cpu")

    def __iadd__(self, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", operator.iadd, (self, other), {})


class _Tracer(fx.Tracer):
    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _OnCPU(node, self)


def traced(backbone: nn.Module) -> tuple[fx.GraphModule, list[Pair]]:
    """The way from images to features without the norms that can be folded, and those pairs."""
    root = _Traced(backbone)
    network = fx.GraphModule(root, _Tracer().trace(root))
    graph, layers = network.graph, dict(root.named_modules())
    calls = Counter(node.target for node in graph.nodes)
    pairs: dict[fx.Node, Pair] = {}
    for node in list(graph.nodes):
        norm, before = layer_of(node, layers), next(iter(node.all_input_nodes), None)
        convolution = layer_of(before, layers)
        if before is not None and type(convolution) is nn.Conv2d and len(before.users) == 1 \
                and calls[before.target] == 1 and type(norm) is nn.BatchNorm2d \
                and norm.track_running_stats and before not in pairs:  # one norm each
            pairs[before] = Pair(str(before.target), convolution, norm)
            node.replace_all_uses_with(before)
            graph.erase_node(node)
    write_in_place(graph, layers)
    network.recompile()
    return network, list(pairs.values())


def layer_of(node: fx.Node | None, layers: dict[str, nn.Module]) -> nn.Module | None:
    """The layer that a step of a graph calls, if it calls one."""
    return None if node is None or node.op != "call_module" else layers[str(node.target)]


def write_in_place(graph: fx.Graph, layers: dict[str, nn.Module]) -> None:
    """Let ReLUs and sums write over what was made for nobody else."""
    made: set[fx.Node] = set()  # results with memory of their own
    for node in graph.nodes:
        layer = layer_of(node, layers)
        free = [each for each in node.all_input_nodes if each in made and len(each.users) == 1]
        if isinstance(layer, nn.Conv2d | nn.BatchNorm2d):
            made.add(node)
        elif free and (node.target in _RELUS or isinstance(layer, nn.ReLU)):
            node.op, node.target = "call_function", torch.relu_
            node.args, node.kwargs = (free[0],), {}
            made.add(node)
        elif free and node.target is operator.add and len(node.all_input_nodes) == 2:
            other, = set(node.all_input_nodes) - {free[0]}
            node.target, node.args = operator.iadd, (free[0], other)
            made.add(node)
        elif free and node.target is operator.iadd and node.args[0] is free[0]:
            made.add(node)
