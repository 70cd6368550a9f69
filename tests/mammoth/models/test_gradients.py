"""Gradient vectors: batched computations against one backward pass a group or sample."""
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from backbone.MNISTMLP import BaseMNISTMLP
from models.utils.gradients import (
    batch_gradient,
    call_with,
    flat_gradient,
    gradient_cosines,
    group_gradients,
    write_gradient,
)
from models.utils.layer_trace import trace_layers


def small_mlp():
    return BaseMNISTMLP(12, 5, hidden_size=7)


def small_cnn():
    return nn.Sequential(nn.Conv2d(1, 4, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(4),
                         nn.ReLU(), nn.Conv2d(4, 3, 2), nn.Flatten(), nn.Linear(3, 5))


def with_layer_norm():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.LayerNorm(6), nn.Linear(6, 5))


def frozen_start():
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 5))
    net[1].requires_grad_(False)
    return net


def tied():
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 12),
                        nn.Linear(12, 5))
    net[3].weight = net[1].weight
    return net


NETWORKS = [small_mlp, small_cnn, with_layer_norm, frozen_start, tied]


def slow_gradient(net, inputs, labels, loss=F.cross_entropy):
    """Definition: backward of one batch's loss, parameters in order, zeros if unused."""
    net.zero_grad()
    loss(net(inputs), labels).backward()
    found = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten()
                       for p in net.parameters()])
    net.zero_grad()
    return found


def data(groups, size):
    return torch.rand(groups, size, 1, 3, 4), torch.randint(5, (groups, size))


@pytest.mark.parametrize("make", NETWORKS)
@pytest.mark.parametrize("loss", [F.cross_entropy, lambda x, y: F.cross_entropy(x, y) ** 2])
def test_group_gradients_are_those_of_separate_passes(make, loss):
    net = make().eval()
    inputs, labels = data(4, 3)
    expected = torch.stack([slow_gradient(net, x, y, loss)
                            for x, y in zip(inputs, labels, strict=True)])
    assert torch.allclose(group_gradients(net, loss, inputs, labels), expected, atol=1e-6)


def test_group_gradients_in_training_mode_normalise_each_group_by_itself():
    net = small_cnn().train()
    inputs, labels = data(3, 4)
    expected = torch.stack([slow_gradient(net, x, y)
                            for x, y in zip(inputs, labels, strict=True)])
    assert torch.allclose(group_gradients(net, F.cross_entropy, inputs, labels), expected,
                          atol=1e-6)


@pytest.mark.parametrize(("make", "batched"), [
    (small_mlp, True), (small_cnn, True), (with_layer_norm, False), (tied, False)])
def test_networks_are_traced_where_it_is_exact(make, batched):
    inputs, labels = data(2, 2)
    assert (trace_layers(make().eval(), F.cross_entropy, inputs, labels) is not None) == batched


@pytest.mark.parametrize("make", NETWORKS)
def test_cosines_are_those_of_per_sample_gradients(make):
    net = make().eval()
    (inputs, labels), new = data(9, 1), 5
    each = torch.stack([slow_gradient(net, x, y) for x, y in zip(inputs, labels, strict=True)])
    batch = slow_gradient(net, inputs[:new, 0], labels[:new, 0])
    of_mean, of_each = gradient_cosines(net, F.cross_entropy, inputs[:, 0], labels[:, 0], new)
    assert torch.allclose(of_mean, F.cosine_similarity(batch[None], each[new:]), atol=1e-4)
    expected = F.cosine_similarity(each[:new, None], each[None, new:], dim=2)
    assert torch.allclose(of_each, expected, atol=1e-4)


def test_cosines_of_vanishing_gradients_are_finite():
    net = small_mlp()
    with torch.no_grad():
        net.classifier.bias[2] = 1e4  # certain of class 2: the gradient is exactly zero
    cosines = gradient_cosines(net, F.cross_entropy, torch.rand(4, 1, 3, 4),
                               torch.tensor([2, 2, 2, 1]), 2)
    assert all(c.isfinite().all() for c in cosines)


def test_write_gradient_inverts_flat_gradient():
    net = small_mlp()
    parameters = list(net.parameters())
    expected = slow_gradient(net, *(x[0] for x in data(1, 3)))
    net(torch.rand(2, 12)).sum().backward()
    write_gradient(parameters, expected)
    assert torch.equal(flat_gradient(parameters), expected)


def test_batch_gradient_leaves_the_networks_own_gradient_alone():
    net = small_mlp()
    inputs, labels = (x[0] for x in data(1, 6))
    net(inputs).sum().backward()
    before = flat_gradient(net.parameters())
    assert not torch.equal(batch_gradient(net, F.cross_entropy, inputs, labels), before)
    assert torch.equal(flat_gradient(net.parameters()), before)


def test_call_with_puts_the_parameters_back():
    net = small_mlp()
    before = {name: p for name, p in net.named_parameters()}
    zeros = {name: torch.zeros_like(p) for name, p in before.items()}
    assert call_with(net, zeros, torch.rand(3, 12)).abs().max() == 0
    assert call_with(net, zeros, torch.rand(3, 12), returnt="features").shape == (3, 7)
    assert all(p is before[name] for name, p in net.named_parameters())
    assert net(torch.rand(3, 12)).requires_grad
