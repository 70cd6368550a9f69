"""The Fisher diagonal against its definition, one sample at a time."""
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from backbone.MNISTMLP import BaseMNISTMLP
from models.utils import fisher
from models.utils.fisher import diagonal_fisher, squared_gradients


def _reference_squared_gradients(net, inputs, labels):
    """Sum of p(y|x) (d log p(y|x) / d theta)^2, one backward pass a sample."""
    total = [torch.zeros_like(p) for p in net.parameters()]
    for image, label in zip(inputs, labels, strict=True):
        log_prob = F.log_softmax(net(image[None]), dim=1)[0, label]
        gradients = torch.autograd.grad(log_prob, [p for p in net.parameters() if p.requires_grad])
        gradients = iter(gradients)
        for part, parameter in zip(total, net.parameters(), strict=True):
            if parameter.requires_grad:
                part += log_prob.detach().exp() * next(gradients) ** 2
    return torch.cat([part.flatten() for part in total])


class Convolutional(nn.Module):
    """A layer of each kind that a linear layer's short cut does not cover, and one it does."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.shared = nn.Linear(3, 3)
        self.classifier = nn.Linear(3, 4)

    def forward(self, x):
        h = F.relu(self.norm(self.conv(x))).mean(dim=(2, 3))
        return self.classifier(torch.tanh(self.shared(torch.tanh(self.shared(h)))))


def _batch(size=9, classes=4):
    return torch.rand(size, 1, 8, 8), torch.randint(0, classes, (size,))


@pytest.mark.parametrize("make", [lambda: BaseMNISTMLP(64, 4, 7), Convolutional])
def test_squared_gradients_equal_the_slow_definition(make):
    net = make().eval()
    inputs, labels = _batch()
    expected = _reference_squared_gradients(net, inputs, labels)
    torch.testing.assert_close(squared_gradients(net, inputs, labels), expected)
    assert expected.max() > 0


def test_squared_gradients_do_not_depend_on_the_chunk(monkeypatch):
    net = Convolutional().eval()
    inputs, labels = _batch()
    expected = squared_gradients(net, inputs, labels)
    monkeypatch.setattr(fisher, "_CHUNK_ELEMENTS", 1)
    torch.testing.assert_close(squared_gradients(net, inputs, labels), expected)


def test_squared_gradients_are_zero_for_frozen_parameters():
    net = BaseMNISTMLP(64, 4, 7)
    net.fc1.requires_grad_(False)
    net.fc2.bias.requires_grad_(False)
    inputs, labels = _batch()
    found = squared_gradients(net, inputs, labels)
    torch.testing.assert_close(found, _reference_squared_gradients(net, inputs, labels))
    assert found[:64 * 7 + 7].eq(0).all() and found.max() > 0


def test_diagonal_fisher_is_a_mean_and_leaves_the_network_alone():
    net = Convolutional().train()
    parameters = list(net.parameters())
    before = {key: value.clone() for key, value in net.state_dict().items()}
    batches = [_batch(5), _batch(2)]
    found = diagonal_fisher(net, batches, torch.device("cpu"))
    assert net.training and all(new is old for new, old in zip(net.parameters(), parameters,
                                                               strict=True))
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(p.grad is None for p in parameters)
    net.eval()
    expected = sum(_reference_squared_gradients(net, *batch) for batch in batches) / 7
    torch.testing.assert_close(found, expected)
