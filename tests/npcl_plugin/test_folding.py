"""Folded norms: the features of the plain backbone, whatever it is and whatever happens to it."""
import copy
import operator
from contextlib import redirect_stderr
from io import StringIO

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from backbone import get_backbone_class
from npcl_plugin.folding import FoldedFeatures, _complain
from npcl_plugin.network import NPNetwork

BACKBONES = {  # name -> arguments, norms that stay
    "resnet18": ({"num_filters": 16}, 0),
    "reduced-resnet18": ({}, 0),
    "resnet32": ({"depth": 14}, 1 + 6),  # those after a ReLU
    "smallconv": ({"num_filters": 8}, 0),
}


class Counted(TorchDispatchMode):
    """Counts torch's operations by name."""

    def __init__(self):
        super().__init__()
        self.counts = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        return function(*args, **(kwargs or {}))


def norms(function):
    with Counted() as counted:
        function()
    return sum(count for name, count in counted.counts.items() if "batch_norm" in name)


def unsettle(net, seed=0):
    """Statistics and weights of norms as training leaves them."""
    g = torch.Generator().manual_seed(seed)
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for name, tensor in layer.state_dict().items():
                if tensor.is_floating_point():
                    low, high = (0.5, 2) if name in ("weight", "running_var") else (-0.5, 0.5)
                    tensor.uniform_(low, high, generator=g)
    return net


def network(name="reduced-resnet18", **arguments):
    return unsettle(NPNetwork(get_backbone_class(name)(num_classes=4, **arguments))).eval()


def images(count=3, seed=0):
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


def assert_as_plain(net, x):
    with torch.no_grad():
        found = net.features(x)
        expected = net.backbone(x, returnt="features")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
    return found


@pytest.mark.parametrize("name", BACKBONES)
def test_features_are_the_backbones_with_fewer_operations(name):
    arguments, left = BACKBONES[name]
    net, x = network(name, **arguments), images()
    before = x.clone()
    assert_as_plain(net, x)
    assert torch.equal(x, before)
    with torch.no_grad():
        assert norms(lambda: net.features(x)) == left
        assert norms(lambda: net.backbone(x, returnt="features")) > left
    assert not any("fold" in key for key in net.state_dict())


def test_mlp_has_nothing_to_fold():
    net = NPNetwork(get_backbone_class("mnistmlp")(28 * 28, 4)).eval()
    x = torch.rand(3, 28 * 28)
    with torch.no_grad():
        assert torch.equal(net.features(x), net.backbone(x, returnt="features"))


def by_step(net):
    optimiser = torch.optim.SGD(net.backbone.parameters(), 0.5)
    net.train()
    net.features(images(8, seed=1)).square().mean().backward()
    optimiser.step()
    net.eval()


def by_statistics_alone(net):
    net.train()
    with torch.no_grad():
        net.features(images(8, seed=1) * 3)
    net.eval()


def by_loading(net):
    net.load_state_dict(network().state_dict() | {
        key: value + 0.1 for key, value in net.state_dict().items() if value.dim() == 4})


def by_step_without_torchs_knowing(net):
    net.train()
    net.features(images(8, seed=1)).square().mean().backward()
    for parameter in net.backbone.parameters():
        if parameter.grad is not None:
            parameter.data.sub_(parameter.grad)
    net.eval()


def by_data(net):
    for parameter in net.backbone.parameters():
        parameter.data = parameter.data * 0.9 + 0.01


def by_moving(net):
    by_data(net)
    net.double().float()


def by_new_layer(net):
    net.backbone.layer4[1].conv2 = nn.Conv2d(160, 160, 3, padding=1)
    net.eval()


def by_new_backbone(net):
    net.backbone = unsettle(get_backbone_class("smallconv")(num_classes=4), seed=5).eval()


@pytest.mark.parametrize("change", [by_step, by_step_without_torchs_knowing,
                                    by_statistics_alone, by_loading, by_data,
                                    by_moving, by_new_layer, by_new_backbone])
def test_changes_of_the_backbone_are_seen(change):
    net, x = network(), images()
    before = assert_as_plain(net, x)
    change(net)
    after = assert_as_plain(net, x)
    assert before.shape != after.shape or not torch.allclose(before, after, rtol=1e-2)


def test_a_copy_has_weights_of_its_own():
    net, x = network(), images()
    before = assert_as_plain(net, x)
    other = copy.deepcopy(net)
    by_data(net)
    torch.testing.assert_close(assert_as_plain(other, x), before)


def test_training_is_as_it_was():
    net, x = network(), images(8)
    plain = copy.deepcopy(net.backbone).train()
    net.train()
    net.features(x).sum().backward()
    plain(x, returnt="features").sum().backward()
    for ours, theirs in zip(net.backbone.parameters(), plain.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None)
        assert ours.grad is None or torch.equal(ours.grad, theirs.grad)
    assert all(map(torch.equal, net.backbone.buffers(), plain.buffers()))


def test_gradients_in_evaluation_mode_and_a_layer_that_is_trained_are_not_folded():
    net, x = network(), images().requires_grad_()
    assert norms(lambda: net.features(x)) == 20
    assert torch.autograd.grad(net.features(x).sum(), x)[0].abs().sum() > 0
    net.backbone.layer2.train()
    with torch.no_grad():
        assert norms(lambda: net.features(x)) == 20


def test_hooks_are_called():
    net, x, seen = network(), images(), []
    with torch.no_grad():
        net.features(x)
        hook = net.backbone.layer1.register_forward_hook(lambda *_: seen.append(1))
        net.features(x)
        assert seen == [1]
        hook.remove()
        assert norms(lambda: net.features(x)) == 0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", ["image", "weight"])
def test_what_is_not_finite_stays_so(place, value):
    net, x = network("smallconv", num_filters=8), images()
    assert_as_plain(net, x)
    if place == "image":
        x[1, 0, 4, 4] = value
    else:
        with torch.no_grad():
            net.backbone.layers[1][0].weight[0, 0] = value
    found = assert_as_plain(net, x)
    assert not found.isfinite().all()


def test_no_images_at_all():
    net = network()
    with torch.no_grad():
        assert net.features(images(0)).shape == (0, 160)
        net.features(images())
        assert norms(lambda: net.features(images())) == 0


class Undecided(nn.Module):
    """What it does depends on numbers, so that it cannot be traced."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
        self.classifier = nn.Linear(8, 4)

    def forward(self, x, returnt="out"):
        found = self.layers(x)
        return (found if found.sum() > 0 else -found).mean((2, 3))


class Remembering(Undecided):
    """Adds what it met before, which a traced network does not."""

    def forward(self, x, returnt="out"):
        self.count = getattr(self, "count", 0) + 1
        return self.layers(x).mean((2, 3)) + self.count


@pytest.mark.parametrize("kind, cause", [
    (Undecided, "control flow"), (Remembering, "its features are not the backbone's")])
def test_a_network_that_cannot_be_folded_is_used_as_it_is(kind, cause, capsys):
    net = NPNetwork(unsettle(kind())).eval()
    with torch.no_grad():
        net.features(images())
        copy.deepcopy(net).features(images())
        assert norms(lambda: net.features(images())) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and cause in said[0]
    assert said[0].startswith(f"{kind.__name__} is evaluated without folded norms")


OPERATIONS = ("convolution", "same convolution", "norm", "norm without statistics", "relu",
              "torch relu", "relu layer", "relu in place", "layer in place", "sum", "sum in place",
              "broadcast sum", "half")
IN_PLACE = {"relu in place", "layer in place", "sum in place"}


class Program(nn.Module):
    """A network of given operations on numbered earlier results."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps
        self.convolutions = nn.ModuleList(
            nn.Conv2d(4, 4, 3, padding=1, groups=1 + i % 2, bias=i % 3 > 0)
            for i in range(len(steps)))
        self.norms = nn.ModuleList(nn.BatchNorm2d(4, affine=i % 3 > 0) for i in range(len(steps)))
        self.raw = nn.BatchNorm2d(4, track_running_stats=False)
        self.relu, self.relu_ = nn.ReLU(), nn.ReLU(inplace=True)
        self.classifier = nn.Linear(4, 2)

    def forward(self, x, returnt="out"):
        values = [x]
        for i, (operation, first, second) in enumerate(self.steps):
            a, b = values[first % len(values)], values[second % len(values)]
            values.append({
                "convolution": lambda a, b, i: self.convolutions[i](a),
                "same convolution": lambda a, b, i: self.convolutions[0](a),
                "norm": lambda a, b, i: self.norms[i](a),
                "norm without statistics": lambda a, b, i: self.raw(a),
                "relu": lambda a, b, i: F.relu(a),
                "torch relu": lambda a, b, i: torch.relu(a),
                "relu layer": lambda a, b, i: self.relu(a),
                "relu in place": lambda a, b, i: F.relu(a, inplace=True),
                "layer in place": lambda a, b, i: self.relu_(a),
                "sum": lambda a, b, i: a + b,
                "sum in place": lambda a, b, i: operator.iadd(a, b),
                "broadcast sum": lambda a, b, i: a.mean((2, 3), keepdim=True) + b,
                "half": lambda a, b, i: a * 0.5,
            }[operation](a, b, i))
        return torch.stack(values[-3:]).sum(0).mean((2, 3))


@settings(max_examples=100, deadline=None)
@example([("convolution", 0, 0), ("norm", 1, 0), ("norm", 2, 0), ("half", 0, 0), ("half", 0, 0)])
@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 8), st.integers(0, 8)),
                min_size=1, max_size=9))
def test_any_network_has_its_own_features(steps):
    torch.manual_seed(0)
    _complain.cache_clear()
    net = NPNetwork(unsettle(Program(steps))).eval().double()
    folded = FoldedFeatures()
    x = torch.randn(2, 4, 5, 5, dtype=torch.double)
    with torch.no_grad(), redirect_stderr(StringIO()) as complaints:
        expected, first = net.backbone(x.clone(), returnt="features"), x.clone()
        for given in (first, x.clone()):
            torch.testing.assert_close(folded(net.backbone, given), expected)
    assert not complaints.getvalue()
    if not any(operation in IN_PLACE for operation, _, _ in steps):
        assert torch.equal(first, x)
