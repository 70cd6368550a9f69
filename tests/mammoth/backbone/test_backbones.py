"""Networks: sizes, return types, flat parameter vectors."""
import copy
from argparse import Namespace

import pytest
import torch
from torch import nn

from backbone import (
    MammothBackbone,
    get_backbone,
    get_backbone_class,
    get_backbone_names,
    num_flat_features,
    xavier,
)
from backbone.MNISTMLP import BaseMNISTMLP, mnistmlp
from backbone.ResNet32 import resnet32
from backbone.ResNetBlock import BasicBlock, ResNet, reduced_resnet18, resnet18, resnet34
from backbone.SmallConv import smallconv
from engine.errors import RunError, UsageError
from utils.batch_norm import bn_track_stats

SMALL = {"mnistmlp": lambda: mnistmlp(7, mlp_hidden_size=12, input_size=3 * 64),
         "resnet18": lambda: resnet18(7, num_filters=4),
         "resnet32": lambda: resnet32(7, depth=8),
         "smallconv": lambda: smallconv(7, num_filters=4)}


@pytest.fixture(params=SMALL)
def net(request):
    torch.manual_seed(0)
    return SMALL[request.param]()


def images(count=5):
    return torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("factory, classes, expected", [
    (resnet18, 10, 11_173_962), (resnet18, 100, 11_220_132), (resnet18, 200, 11_271_432),
    (reduced_resnet18, 10, 1_094_750), (reduced_resnet18, 100, 1_109_240),
    (reduced_resnet18, 200, 1_125_340), (resnet34, 10, 21_282_122), (resnet34, 100, 21_328_292),
    (resnet32, 10, 464_282), (resnet32, 100, 470_132), (mnistmlp, 9, 89_509),
    (mnistmlp, 10, 89_610), (smallconv, 10, 94_762), (smallconv, 100, 106_372)])
def test_factory_has_published_number_of_parameters(factory, classes, expected):
    with torch.device("meta"):
        net = factory(num_classes=classes)
    assert sum(p.numel() for p in net.parameters()) == expected


def test_num_filters_twenty_is_the_reduced_network():
    assert resnet18(10, num_filters=20).get_params().shape == (1_094_750,)


def test_mlp_hidden_size_counts():
    net = mnistmlp(10, mlp_hidden_size=50)
    assert net.get_params().shape == (784 * 50 + 50 + 50 * 50 + 50 + 50 * 10 + 10,)


def test_registry_offers_networks_with_their_arguments():
    assert {"resnet18", "resnet34", "reduced-resnet18", "resnet32",
            "mnistmlp"} <= set(get_backbone_names(names_only=True))
    _, arguments = get_backbone_class("mnistmlp", return_args=True)
    assert {name: spec["default"] for name, spec in arguments.items()} == {
        "num_classes": None, "mlp_hidden_size": 100, "input_size": 784}
    assert not any(spec["required"] for spec in arguments.values())
    _, arguments = get_backbone_class("resnet18", return_args=True)
    assert arguments["num_filters"]["default"] == 64
    assert arguments["num_filters"]["type"]("32") == 32
    built = get_backbone(Namespace(backbone="mnistmlp", num_classes=10, mlp_hidden_size=100,
                                   input_size=64))
    assert built(torch.rand(2, 1, 8, 8)).shape == (2, 10)


def test_return_types_agree(net):
    net.eval()
    x = images()
    out, features = net(x), net(x, returnt="features")
    assert out.shape == (5, 7)
    assert features.shape == (5, net.feature_dim)
    assert torch.equal(net.classifier(features), out)
    assert torch.equal(net.features(x), features)
    both = net(x, returnt="both")
    assert torch.equal(both[0], out) and torch.equal(both[1], features)
    full, alias = net(x, returnt="full"), net(x, returnt="all")
    assert torch.equal(full[0], out)
    for one, other in zip(_flat(full[1]), _flat(alias[1]), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(NotImplementedError, match="logits"):
        net(x, returnt="logits")


def _flat(value):
    return value if isinstance(value, list) else [value]


def test_mlp_full_is_logits_and_features():
    net = SMALL["mnistmlp"]()
    out, features = net(images(), returnt="full")
    assert torch.equal(features, net(images(), returnt="features"))
    assert torch.equal(net.net(images().flatten(1)), out)
    assert torch.equal(net.fc2(net.fc1(images().flatten(1)).relu()).relu(), features)


def test_mlp_accepts_images_that_are_not_contiguous():
    net = SMALL["mnistmlp"]()
    x = images().permute(0, 1, 3, 2)
    assert torch.equal(net(x), net(x.contiguous()))


def test_mlp_state_dict_has_upstream_names_of_shared_weights():
    net = mnistmlp(10)
    expected = {f"{layer}.{kind}" for kind in ("weight", "bias")
                for layer in ("fc1", "fc2", "_features.0", "_features.2", "classifier",
                              "net.0.0", "net.0.2", "net.1")}
    assert set(net.state_dict()) == expected
    assert net.net[0][0].weight is net.fc1.weight and net.net[1] is net.classifier
    assert isinstance(net, BaseMNISTMLP)


def test_xavier_bounds_weights_and_clears_bias():
    layer = nn.Linear(30, 60)
    nn.Sequential(layer, nn.ReLU()).apply(xavier)
    bound = (6 / 90) ** 0.5
    assert layer.bias.abs().max() == 0
    assert 0.9 * bound < layer.weight.abs().max() <= bound
    assert abs(layer.weight.var().item() - bound ** 2 / 3) < 0.1 * bound ** 2


def test_num_flat_features_counts_without_batch():
    assert num_flat_features(torch.zeros(4, 3, 5, 2)) == 30
    assert num_flat_features(torch.zeros(0, 3, 5)) == 15


def test_resnet_full_shows_stem_and_stages():
    net = SMALL["resnet18"]().eval()
    _, maps = net(images(), returnt="full")
    assert [tuple(m.shape[1:]) for m in maps] == [
        (4, 8, 8), (4, 8, 8), (8, 4, 4), (16, 2, 2), (32, 1, 1)]
    assert all(m.min() >= 0 for m in maps)
    net.set_return_prerelu(True)
    _, before = net(images(), returnt="full")
    for pre, post in zip(before, maps, strict=True):
        assert pre.min() < 0
        assert torch.allclose(pre.relu(), post)
    net.set_return_prerelu(False)
    assert torch.equal(net(images(), returnt="full")[1][0], maps[0])


def test_resnet_forward_equals_slow_definition():
    torch.manual_seed(3)
    net = SMALL["resnet18"]().eval()
    hidden = torch.relu(net.bn1(net.conv1(images())))
    for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
        for block in stage:
            assert isinstance(block, BasicBlock)
            inner = torch.relu(block.bn1(block.conv1(hidden)))
            hidden = torch.relu(block.bn2(block.conv2(inner)) + block.shortcut(hidden))
    expected = net.classifier(nn.functional.adaptive_avg_pool2d(hidden, 1).flatten(1))
    assert torch.allclose(net(images()), expected, atol=1e-6)
    assert isinstance(net, ResNet) and net.feature_dim == 32


def test_smallconv_equals_slow_definition():
    net = SMALL["smallconv"]().eval()
    hidden = images()
    _, maps = net(hidden, returnt="full")
    assert [tuple(m.shape[1:]) for m in maps] == [(4, 4, 4), (8, 2, 2), (16, 1, 1)]
    for (convolution, norm), shown in zip(net.layers, maps, strict=True):
        every = nn.functional.conv2d(hidden, convolution.weight, padding=1)  # stride 1
        hidden = torch.relu(norm(every[:, :, ::2, ::2]))
        torch.testing.assert_close(shown, hidden)
    expected = net.classifier(nn.functional.adaptive_avg_pool2d(hidden, 1).flatten(1))
    torch.testing.assert_close(net(images()), expected)


@pytest.mark.parametrize("size", [1, 5, 16, 32])
def test_smallconv_takes_images_of_any_size(size):
    net = SMALL["smallconv"]().eval()
    assert net(torch.rand(2, 3, size, size)).shape == (2, 7)


@pytest.mark.parametrize("factory", [reduced_resnet18, resnet32, smallconv])
def test_maps_have_channels_innermost_and_parameters_do_not(factory):
    net = factory(3)
    logits, maps = net(torch.randn(2, 3, 16, 16), returnt="full")
    assert all(m.is_contiguous(memory_format=torch.channels_last) for m in maps)
    logits.sum().backward()
    weights = [p for p in net.parameters() if p.requires_grad]
    assert all(w.is_contiguous() and w.grad.is_contiguous() for w in weights)


def test_order_in_memory_changes_neither_logits_nor_gradients(monkeypatch):
    torch.manual_seed(4)
    net = reduced_resnet18(3).eval()  # batch norm of few images would magnify rounding
    logits, gradients = [], []
    for safe_filters in (16, 1000):
        monkeypatch.setattr("backbone.ResNetBlock._SAFE_FILTERS", safe_filters)
        net.zero_grad()
        logits.append(net(images()))
        logits[-1].square().sum().backward()
        gradients.append(net.get_grads())
    assert torch.allclose(*logits, rtol=1e-4, atol=1e-5)
    assert torch.allclose(*gradients, rtol=1e-3, atol=1e-4 * gradients[0].abs().max().item())


def test_resnet32_refuses_impossible_depth():
    with pytest.raises(UsageError, match="6n"):
        resnet32(10, depth=30)


def test_params_round_trip_without_sharing_memory(net):
    vector = net.get_params().detach()
    changed = vector + 1
    net.set_params(changed)
    assert torch.equal(net.get_params(), changed)
    changed.zero_()
    assert torch.equal(net.get_params(), vector + 1)
    with pytest.raises(ValueError, match="new_params"):
        net.set_params(vector[:-1])


def test_grads_round_trip(net):
    with pytest.raises(RunError, match="backward"):
        net.get_grads()
    net.train()
    net(images()).square().sum().backward()
    grads = net.get_grads()
    assert grads.shape == net.get_params().shape
    slow = [p.grad.flatten() if p.grad is not None else torch.zeros(p.numel())
            for p in net.parameters()]
    assert torch.equal(grads, torch.cat(slow))
    assert grads.abs().sum() > 0
    net.zero_grad(set_to_none=True)
    net.set_grads(grads * 2)
    assert torch.equal(net.get_grads(), grads * 2)


def test_grads_error_names_the_parameter():
    net = SMALL["mnistmlp"]()
    net(images(), returnt="features").sum().backward()
    with pytest.raises(RunError, match="classifier.weight"):
        net.get_grads()


def test_get_params_is_differentiable(net):
    net.get_params().square().sum().backward()
    trainable = [p for p in net.parameters() if p.requires_grad]
    assert all(torch.allclose(p.grad, 2 * p) for p in trainable)


def test_same_seed_same_weights(net):
    torch.manual_seed(0)
    again = next(make for make in SMALL.values() if isinstance(net, type(make())))
    torch.manual_seed(0)
    assert torch.equal(again().get_params(), net.get_params())


def test_device_follows_the_parent_module():
    net = SMALL["mnistmlp"]()
    assert net.device == torch.device("cpu")
    nn.Sequential(net).to("meta")
    assert net.device == torch.device("meta")


def test_base_class_has_no_forward():
    with pytest.raises(NotImplementedError, match="MammothBackbone"):
        MammothBackbone()(torch.zeros(1))


def test_bn_track_stats_false_leaves_running_statistics():
    net = SMALL["resnet18"]().train()
    net.bn1.track_running_stats = False
    before = copy.deepcopy(net.state_dict())
    with bn_track_stats(net, False):
        net(images())
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    assert net.layer1[0].bn1.track_running_stats and not net.bn1.track_running_stats
    with bn_track_stats(net):
        net(images())
    assert not torch.equal(before["layer1.0.bn1.running_mean"], net.layer1[0].bn1.running_mean)


def test_bn_track_stats_restores_after_an_error():
    net = SMALL["resnet18"]()
    with pytest.raises(KeyError), bn_track_stats(net, False):
        raise KeyError
    assert net.bn1.track_running_stats
