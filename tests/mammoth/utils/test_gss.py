"""GSS: scores and the greedy replacement against their slow definitions."""
from types import SimpleNamespace

import pytest
import torch
from runs import experiment
from torch import nn
from torch.nn import functional as F

from utils.gss_buffer import Buffer


def a_model():
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    return SimpleNamespace(net=net, loss=F.cross_entropy)


def a_batch(size):
    return torch.rand(size, 1, 2, 3), torch.randint(3, (size,))


def a_buffer(size=12, minibatch=5, rows=12):
    torch.manual_seed(3)
    buffer = Buffer(size, "cpu", minibatch, a_model())
    if rows:
        buffer.add_data(*a_batch(rows))
    return buffer


def slow_gradient(model, inputs, labels):
    model.net.zero_grad()
    model.loss(model.net(inputs), labels).backward()
    gradient = torch.cat([p.grad.flatten() for p in model.net.parameters()])
    model.net.zero_grad()
    return gradient


def slow_score(model, inputs, labels, stored):
    """Definition: the largest cosine to a stored sample's gradient, plus one."""
    gradient = slow_gradient(model, inputs, labels)
    return 1 + max(float(F.cosine_similarity(
        gradient, slow_gradient(model, x[None], y[None]), dim=0)) for x, y in zip(*stored,
                                                                              strict=True))


def test_similarity_is_the_slow_definition():
    buffer, (images, labels) = a_buffer(), a_batch(7)
    state = buffer.generator.get_state()
    stored = buffer.get_data(5, random=True)
    buffer.generator.set_state(state)
    score, own = buffer.similarity(images, labels)
    assert score == pytest.approx(slow_score(buffer.model, images, labels, stored), abs=1e-5)
    slow = [slow_score(buffer.model, x[None], y[None], stored)
            for x, y in zip(images, labels, strict=True)]
    assert torch.allclose(own, torch.tensor(slow), atol=1e-5)


def test_similarity_leaves_the_network_as_it_is():
    buffer = a_buffer()
    buffer.model.net.train()
    before = {k: v.clone() for k, v in buffer.model.net.state_dict().items()}
    buffer.similarity(*a_batch(4))
    assert buffer.model.net.training
    assert all(p.grad is None for p in buffer.model.net.parameters())
    assert all(torch.equal(before[k], v) for k, v in buffer.model.net.state_dict().items())


def test_free_rows_are_filled_in_order_with_the_batchs_score():
    buffer, (images, labels) = a_buffer(rows=0), a_batch(5)
    buffer.add_data(images, labels)
    assert len(buffer) == 5 and torch.equal(buffer.examples[:5], images)
    assert torch.allclose(buffer.scores[:5], torch.tensor(0.1))
    buffer.similarity = lambda *_: (1.5, torch.full((9,), 0.2))
    more, more_labels = a_batch(9)
    buffer.add_data(more, more_labels)
    assert len(buffer) == 12 and torch.equal(buffer.examples[5:], more[:7])
    assert torch.allclose(buffer.scores[5:], torch.tensor(1.5))


def test_batch_that_is_like_the_memory_replaces_nothing():
    buffer = a_buffer()
    before = buffer.examples.clone()
    buffer.similarity = lambda x, y: (1.0, torch.zeros(len(y)))
    buffer.add_data(*a_batch(30))
    assert torch.equal(buffer.examples, before) and buffer.num_seen_examples == 42


def slow_replacement(scores, own_scores, draws):
    """One sample after the other, rows found by walking along the scores."""
    scores, slots = scores.double().clone(), []
    for own, (place, chance) in zip(own_scores.tolist(), draws.tolist(), strict=True):
        left, row = place * float(scores.sum()), 0
        while row < len(scores) - 1 and left > float(scores[row]):
            left -= float(scores[row])
            row += 1
        enters = chance < float(scores[row]) / (float(scores[row]) + own)
        slots.append(row if enters else -1)
        if enters:
            scores[row] = own
    return slots, scores.float()


def test_replacement_is_the_sequential_definition():
    buffer = a_buffer()
    buffer.scores = torch.rand(12) * 2
    own = torch.rand(40)
    state = buffer.generator.get_state()
    draws = torch.rand(40, 2, generator=buffer.generator, dtype=torch.float64)
    buffer.generator.set_state(state)
    slots, scores = slow_replacement(buffer.scores, own, draws)
    assert buffer._replaced(own) == slots
    assert torch.allclose(buffer.scores, scores) and -1 in slots and max(slots) > 0


def test_rows_with_high_scores_are_replaced_most():
    buffer, hits = a_buffer(), torch.zeros(12)
    for _ in range(300):
        buffer.scores = torch.tensor([0.1] * 6 + [1.9] * 6)
        for row in buffer._replaced(torch.full((2,), 0.5)):
            hits[row] += row >= 0
    assert hits[6:].sum() > 20 * hits[:6].sum()


def test_zero_scores_are_no_problem():
    buffer = a_buffer()
    buffer.scores = torch.zeros(12)
    slots = buffer._replaced(torch.zeros(50))
    assert len(set(slots)) > 5 and buffer.scores.isfinite().all()


def test_pass_over_the_rows_repeats_none_before_all_were_given():
    buffer = a_buffer()
    buffer.reset_fathom()
    rows = torch.cat([buffer.get_data(5, give_index=True)[2] for _ in range(3)])
    assert sorted(rows.tolist()) == list(range(12))
    again = buffer.get_data(5, give_index=True)[2]
    assert torch.equal(again, rows[:5])


def test_state_round_trip_continues_alike():
    buffer, copy = a_buffer(), a_buffer(rows=0)
    buffer.scores = torch.rand(12)
    buffer.reset_fathom()
    buffer.get_data(5)
    copy.load_state_dict(buffer.state_dict())
    batch = a_batch(20)
    for one in (buffer, copy):
        one.similarity = lambda x, y: (0.5, torch.full((len(y),), 0.3))
        one.add_data(*batch)
    assert torch.equal(buffer.examples, copy.examples)
    assert torch.equal(buffer.scores, copy.scores)
    assert torch.equal(buffer.get_data(4)[0], copy.get_data(4)[0])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gss_learns_what_sgd_forgets(tmp_path, seed):
    words = ("--dataset", "seq-digits", "--seed", seed, "--disable_log", 1)
    sgd = experiment(tmp_path, "--model", "sgd", *words).run()["accuracy"]["class-il"]
    run = experiment(tmp_path, "--model", "gss", "--buffer_size", 200, *words)
    gss = run.run()["accuracy"]["class-il"]
    assert sgd < 25 and gss > 60, (sgd, gss)
    assert len(run.model.buffer) == 200


def test_several_steps_a_batch(tmp_path):
    run = experiment(tmp_path, "--model", "gss", "--buffer_size", 60, "--batch_num", 3,
                     "--gss_minibatch_size", 4, "--dataset", "seq-digits", "--lr", 0.03,
                     "--debug_mode", 1)
    assert run.run()["accuracy"]["task-il"] > 40
