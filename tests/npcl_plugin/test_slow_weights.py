"""Slow weights: a closed form of the average, and a network that is never trained."""
import pytest
import torch
from runs import experiment
from torch import nn

from npcl_plugin import terms
from npcl_plugin.slow_weights import SlowWeights


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(3, 2), nn.BatchNorm1d(2)
        self.memory = nn.BatchNorm1d(1)

    def forward(self, x):
        return self.norm(self.layer(x))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Network()


def change(net):
    """Other weights, statistics and counters."""
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn_like(parameter))
        net(torch.randn(5, 3))


def test_the_average_has_a_closed_form(net):
    slow = SlowWeights(net, 0.9, "memory")
    weights, statistics = [net.layer.weight.clone()], [net.norm.running_mean.clone()]
    for _ in range(100):
        change(net)
        slow.follow(net)
        weights.append(net.layer.weight.clone())
        statistics.append(net.norm.running_mean.clone())
    decays = torch.tensor([min(0.9, k / (k + 1)) for k in range(100)])
    share = torch.cat((torch.zeros(1), 1 - decays))
    share[0] = 1
    share[:-1] *= decays.flip(0).cumprod(0).flip(0)  # what later steps leave of it
    assert torch.isclose(share.sum(), torch.tensor(1.0))
    for got, seen in ((slow.copy.layer.weight, weights), (slow.copy.norm.running_mean, statistics)):
        assert torch.allclose(got, torch.tensordot(share, torch.stack(seen), 1), atol=1e-5)
    assert slow.copy.norm.num_batches_tracked == net.norm.num_batches_tracked == 100


def test_before_the_decay_it_is_the_plain_mean_of_the_weights_after_all_steps(net):
    slow, weights = SlowWeights(net, 0.999, "memory"), []
    for _ in range(50):
        change(net)
        slow.follow(net)
        weights.append(net.layer.weight.clone())
        if len(weights) == 1:
            assert torch.equal(slow.copy.layer.weight, net.layer.weight)
    assert torch.allclose(slow.copy.layer.weight, torch.stack(weights).mean(0), atol=1e-5)


def test_nobody_trains_it_and_the_shared_child_is_one(net):
    net.slow = SlowWeights(net, 0.9, "memory")
    net.train()
    assert not any(module.training for module in net.slow.copy.modules()
                   if module is not net.memory)
    assert not any(p.requires_grad for p in net.slow.copy.layer.parameters())
    assert net.slow.copy.memory is net.memory and net.memory.weight.requires_grad


def test_it_follows_a_network_that_was_moved_or_loaded(net):
    net.slow = SlowWeights(net, 0.5, "memory")
    net.slow.follow(net)
    net.double()
    net.load_state_dict({name: torch.randn_like(value) if value.is_floating_point() else value
                         for name, value in net.state_dict().items()})
    before = net.slow.copy.layer.weight.clone()
    net.slow.follow(net)
    assert torch.allclose(net.slow.copy.layer.weight, before.lerp(net.layer.weight, 1 - 1 / 2))


def build(tmp_path, *more):
    return experiment(tmp_path, "--model", "anp", "--dataset", "seq-digits", "--buffer_size", 40,
                      "--n_global", 3, "--n_global_eval", 3, *more)


def learn(run, steps=5):
    loader, _ = run.dataset.get_data_loaders()
    model = run.model
    model.net.train()
    model.meta_begin_task(run.dataset)
    for batch, _ in zip(loader, range(steps), strict=False):
        model.meta_observe(*batch[:3], epoch=0)
    model.meta_end_task(run.dataset)
    return model.eval()


def test_the_slow_weights_answer_and_answering_changes_nothing(tmp_path):
    model = learn(build(tmp_path, "--slow_decay", 0.9))
    images = model.buffer.examples[:6]
    assert model.predictor.net is model.net.slow.copy
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    first = model(images)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())
    with torch.no_grad():
        for parameter in model.net.decoder.parameters():
            parameter.add_(1.0)
    assert torch.equal(model(images), first)  # the network that learns does not answer
    model.net.slow.follow(model.net)
    assert not torch.equal(model(images), first)  # nor does a stale context


def test_slow_weights_are_no_parameters(tmp_path):
    plain, slow = build(tmp_path), build(tmp_path, "--slow_decay", 0.9)
    sizes = [[p.numel() for p in run.model.get_parameters()] for run in (plain, slow)]
    assert sizes[0] == sizes[1]
    assert slow.model.opt.param_groups[0]["params"] == list(slow.model.get_parameters())


def test_the_learning_rate_falls_from_task_to_task(tmp_path, monkeypatch):
    run = build(tmp_path, "--rate_decay", 0.5, "--warmup", 0)
    kind, rates = type(run.model.opt), []
    step = kind.step
    monkeypatch.setattr(kind, "step", lambda optimiser: (
        rates.append(optimiser.param_groups[0]["lr"]), step(optimiser))[1])
    for _ in range(3):
        learn(run, steps=1)
    lr = run.model.args.lr
    assert rates == pytest.approx([lr, lr / 2 ** 0.5, lr / 3 ** 0.5])
    assert run.model.opt.param_groups[0]["lr"] == lr  # a scheduler never sees the difference


def test_classes_compete_for_the_stream_by_their_samples(tmp_path):
    run = build(tmp_path, "--stream_prior", 2, "--context_per_class", 20)
    model, tasks = learn(run), torch.zeros(3, dtype=torch.long)
    counts = torch.ones(10)
    counts[:2] = 20
    odds = 2 * (counts / 20).log()
    torch.testing.assert_close(model.log_odds(tasks, 1), torch.stack((odds, odds, 0 * odds)))
    learn(run, steps=1)
    counts = model.buffer.labels.bincount(minlength=10).clamp(1, 20).float()
    counts[2:4] = 20
    torch.testing.assert_close(model.log_odds(tasks, 1)[0], 2 * (counts / 20).log())
    assert build(tmp_path / "even").model.log_odds(tasks, 1) is None


@pytest.mark.parametrize("likelihood", ["targets", "sets"])
def test_the_prior_is_in_the_likelihood_of_the_stream_only(tmp_path, likelihood):
    run = build(tmp_path, "--stream_prior", 2, "--likelihood", likelihood)
    seen = []
    objective, run.model.objective = run.model.objective, lambda step: (
        seen.append(step), objective(step))[1]
    learn(run)
    learn(run, steps=3)
    step = seen[-1]
    logits, labels = step.out.logits.all_draws() + step.targets.log_odds, step.targets.labels
    losses = nn.functional.cross_entropy(logits.mT, labels.expand(len(logits), -1),
                                         reduction="none")  # (S, B)
    first = len(labels) - step.targets.replayed
    expected = losses.mean() if likelihood == "targets" else \
        losses[:, :first].mean() + losses[:, first:].mean()
    torch.testing.assert_close(terms.cross_entropy(step), expected)
    assert step.targets.log_odds[0].min() < -1
    assert not step.targets.log_odds[-step.targets.replayed:].any()
