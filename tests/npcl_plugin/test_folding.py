"""Folded norms: the features of the plain backbone, whatever it is and whatever happens to it."""
import copy
import pickle
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from backbone import get_backbone_class
from backbone.ResNetBlock import BasicBlock, ResNet
from engine.optimisers import SGD
from npcl_plugin.folding import _complain
from npcl_plugin.network import NPNetwork

FOLDED = {"resnet18": {"num_filters": 16}, "reduced-resnet18": {}, "resnet34": {"num_filters": 4}}
PLAIN = {"resnet32": {"depth": 14}, "smallconv": {"num_filters": 8}}


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


def around(backbone):
    return NPNetwork(unsettle(backbone)).eval()


def network(name="reduced-resnet18", **arguments):
    return around(get_backbone_class(name)(num_classes=4, **arguments))


def images(count=3, seed=0):
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


def assert_as_plain(net, x):
    with torch.no_grad():
        found = net.features(x)
        expected = net.backbone(x, returnt="features")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
    return found


def is_folded(net, x=None):
    """Whether no norm is asked; the first question may compare with the plain network."""
    x = images() if x is None else x
    with torch.no_grad():
        net.features(x)
        return norms(lambda: net.features(x)) == 0


@pytest.mark.parametrize("name", FOLDED)
def test_features_are_the_backbones_without_its_norms(name, capsys):
    net, x = network(name, **FOLDED[name]), images()
    before = x.clone()
    assert_as_plain(net, x)
    assert torch.equal(x, before) and is_folded(net)
    assert not any("fold" in key for key in net.state_dict()) and not capsys.readouterr().err


@pytest.mark.parametrize("name", PLAIN)
def test_other_networks_are_asked_as_they_are(name):
    net, x = network(name, **PLAIN[name]), images()
    with torch.no_grad():
        assert torch.equal(net.features(x), net.backbone(x, returnt="features"))
    assert not is_folded(net)


def test_mlp_has_nothing_to_fold():
    net, x = NPNetwork(get_backbone_class("mnistmlp")(28 * 28, 4)).eval(), torch.rand(3, 28 * 28)
    with torch.no_grad():
        assert torch.equal(net.features(x), net.backbone(x, returnt="features"))


@settings(max_examples=25, deadline=None)
@given(blocks=st.tuples(*[st.integers(1, 2)] * 4), filters=st.integers(1, 18),
       size=st.integers(8, 20), count=st.integers(1, 4), seed=st.integers(0, 99),
       innermost=st.booleans())
def test_any_residual_network_has_its_own_features(blocks, filters, size, count, seed, innermost):
    torch.manual_seed(seed)
    net = around(ResNet(BasicBlock, blocks, 3, filters)).double()
    x = torch.randn(count, 3, size, size, dtype=torch.double)
    if innermost:
        x = x.contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        torch.testing.assert_close(net.features(x), net.backbone(x, returnt="features"))
    assert is_folded(net, x)


def by_step(net):
    optimiser = torch.optim.SGD(net.backbone.parameters(), 0.5)
    net.train()
    net.features(images(8, seed=1)).square().mean().backward()
    optimiser.step()
    net.eval()


def by_fused_step_in_evaluation_mode(net):
    optimiser = SGD(net.backbone.parameters(), 0.5, fused=True)
    net.features(images(8, seed=1)).square().mean().backward()
    optimiser.step()


def by_step_without_torchs_knowing(net):
    net.train()
    net.features(images(8, seed=1)).square().mean().backward()
    for parameter in net.backbone.parameters():
        if parameter.grad is not None:
            parameter.data.sub_(parameter.grad)
    net.eval()


def by_statistics_alone(net):
    net.train()
    with torch.no_grad():
        net.features(images(8, seed=1) * 3)
    net.eval()


def by_loading(net):
    net.load_state_dict(network().state_dict() | {
        key: value + 0.1 for key, value in net.state_dict().items() if value.dim() == 4})


def by_assigning(net):
    net.load_state_dict({key: value * 0.9 if value.is_floating_point() else value
                         for key, value in net.state_dict().items()}, assign=True)


def by_an_average(net):
    slow = list(net.backbone.parameters())
    with torch.no_grad():
        torch._foreach_lerp_(slow, [parameter * 0.8 + 0.01 for parameter in slow], 0.5)


def by_data(net):
    for parameter in net.backbone.parameters():
        parameter.data = parameter.data * 0.9 + 0.01


def by_moving(net):
    by_data(net)
    net.double().float()


def by_new_parameter(net):
    net.backbone.layer1[0].conv1.weight = nn.Parameter(torch.randn(20, 20, 3, 3) * 0.2)


def by_epsilon(net):
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.eps = 1.0


def by_stride(net):
    net.backbone.conv1.stride = (2, 2)


def by_new_layer(net):
    net.backbone.layer4[1].conv2 = nn.Conv2d(160, 160, 3, padding=1)
    net.eval()


def by_patched_layer(net):
    net.backbone.layer4[1].forward = lambda x: x * 2


def by_another_stage(net):
    net.backbone.layer4 = nn.Identity()


def by_another_shortcut(net):
    net.backbone.layer4[0].shortcut.append(nn.Sigmoid())
    net.eval()


def by_new_backbone(net):
    net.backbone = unsettle(get_backbone_class("smallconv")(num_classes=4), seed=5).eval()


@pytest.mark.parametrize("change", [
    by_step, by_step_without_torchs_knowing, by_fused_step_in_evaluation_mode,
    by_statistics_alone, by_loading, by_assigning, by_an_average, by_data, by_moving,
    by_new_parameter, by_epsilon, by_stride, by_new_layer, by_patched_layer, by_another_stage,
    by_another_shortcut, by_new_backbone])
def test_changes_of_the_backbone_are_seen(change):
    net, x = network(), images()
    before = assert_as_plain(net, x)
    change(net)
    after = assert_as_plain(net, x)
    assert before.shape != after.shape or not torch.allclose(before, after, rtol=1e-2)


def test_weights_set_again_and_again_are_seen():
    """A tensor that is let go leaves its place in memory to the next one."""
    net, x = network("resnet18", num_filters=8), images(2)
    for _ in range(20):
        by_data(net)
        assert_as_plain(net, x)


def test_statistics_that_are_taken_away_are_missed_by_nobody():
    net, x = network(), images()
    assert is_folded(net)
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.track_running_stats, layer.running_mean, layer.running_var = False, None, None
    assert_as_plain(net, x)


def test_a_copy_has_weights_of_its_own():
    net, x = network(), images()
    before = assert_as_plain(net, x)
    other, kept = copy.deepcopy(net), pickle.loads(pickle.dumps(net.folded))
    by_data(net)
    torch.testing.assert_close(assert_as_plain(other, x), before)
    with torch.no_grad():
        torch.testing.assert_close(kept(other.backbone, x), before)


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


@pytest.mark.parametrize("register", [
    lambda net, hook: net.backbone.layer1.register_forward_hook(hook),
    lambda net, hook: nn.modules.module.register_module_forward_hook(
        lambda module, *rest: hook() if module is net.backbone.layer1 else None)])
def test_hooks_are_called(register):
    net, x, seen = network(), images(), []
    with torch.no_grad():
        net.features(x)
        hook = register(net, lambda *_: seen.append(1))
        net.features(x)
        assert seen == [1]
        hook.remove()
    assert is_folded(net)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", ["image", "weight"])
def test_what_is_not_finite_stays_so(place, value):
    net, x = network(), images()
    assert_as_plain(net, x)
    if place == "image":
        x[1, 0, 4, 4] = value
    else:
        with torch.no_grad():
            net.backbone.layer1[0].conv1.weight[0, 0] = value
    found = assert_as_plain(net, x)
    assert not found.isfinite().all()


def test_no_images_at_all():
    net = network()
    with torch.no_grad():
        assert net.features(images(0)).shape == (0, 160)
    assert is_folded(net)


def test_reduced_precision_is_left_to_torch():
    net, x = network(), images()
    with torch.no_grad(), torch.autocast("cpu"):
        assert torch.equal(net.features(x), net.backbone(x, returnt="features"))
    assert is_folded(net)


def test_weights_made_in_inference_mode_are_folded_anew_each_time():
    with torch.inference_mode():
        net, x = network(), images()
        before = net.features(x).clone()
        net.backbone.conv1.weight.mul_(0.5)  # nothing counts this
        after = net.features(x)
        torch.testing.assert_close(after, net.backbone(x, returnt="features"))
    assert not torch.allclose(before, after, rtol=1e-2)


def test_a_network_that_is_not_what_its_name_says_is_used_as_it_is(capsys):
    """Upstream's stem may end in a pooling layer, ours never does."""
    _complain.cache_clear()
    net, x = network(), images()
    net.backbone.maxpool = nn.MaxPool2d(2).eval()
    with torch.no_grad():
        for each in (net, copy.deepcopy(net)):
            assert torch.equal(each.features(x), net.backbone(x, returnt="features"))
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and said[0].startswith("ResNet is evaluated without folded norms")


def test_a_network_of_ones_own_is_used_as_it_is():
    class Mine(ResNet):
        def forward(self, x, returnt="out"):
            return super().forward(x, returnt) + 1

    net, x = around(Mine(BasicBlock, (1, 1, 1, 1), 4, 8)), images()
    with torch.no_grad():
        assert torch.equal(net.features(x), net.backbone(x, returnt="features"))


def test_threads_may_ask_at_the_same_time():
    net, x, failed = network("resnet18", num_filters=8), images(2), []
    expected = assert_as_plain(copy.deepcopy(net), x)

    def ask():
        try:
            with torch.no_grad():
                torch.testing.assert_close(net.features(x), expected)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
