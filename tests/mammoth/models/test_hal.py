"""HAL: anchors and the look-ahead step against the paper's equations, written out slowly."""
import copy

import pytest
import torch
from runs import experiment
from torch.nn import functional as F


def after_first_task(tmp_path, *words):
    run = experiment(tmp_path, "--model", "hal", "--dataset", "seq-digits", "--buffer_size", 50,
                     "--lr", 0.1, "--disable_log", 1, *words)
    loader, _ = run.dataset.get_data_loaders()
    run.model.meta_begin_task(run.dataset)
    for batch in list(loader)[:6]:
        run.model.meta_observe(*batch, epoch=0)
    return run


def test_running_mean_of_features_starts_from_zero(tmp_path):
    run = experiment(tmp_path, "--model", "hal", "--dataset", "seq-digits", "--buffer_size", 50,
                     "--lr", 0.1, "--beta", 0.3, "--disable_log", 1)
    loader, _ = run.dataset.get_data_loaders()
    run.model.meta_begin_task(run.dataset)
    expected = torch.zeros(100)
    for batch in list(loader)[:3]:
        run.model.meta_observe(*batch, epoch=0)
        features = run.model.net(batch[0], returnt="features").detach()
        expected = 0.3 * expected + 0.7 * features.mean(0)
    assert torch.allclose(run.model.phi, expected, atol=1e-6)


def slow_anchor(method, tuned, start, label, steps):
    """One anchor by itself: descent on -loss(tuned) + loss(now) + gamma |features - phi|^2."""
    anchor, label = start.clone(), torch.tensor([label])
    for _ in range(steps):
        anchor.requires_grad_(True)
        loss = (F.cross_entropy(method.net(anchor[None]), label)
                - F.cross_entropy(tuned(anchor[None]), label)
                + method.args.gamma * (method.net(anchor[None], returnt="features")
                                       - method.phi).pow(2).sum())
        gradient, = torch.autograd.grad(loss, anchor)
        anchor = anchor.detach() - method.args.lr * gradient
    return anchor


def test_anchors_of_all_classes_are_those_learned_one_by_one(tmp_path):
    method = after_first_task(tmp_path, "--gamma", 0.2).model
    state = method.buffer.generator.get_state()
    inputs, labels = method.buffer.get_data(method.args.batch_size)
    method.buffer.generator.set_state(state)
    tuned = copy.deepcopy(method.net)
    tuned.zero_grad()
    F.cross_entropy(tuned(inputs), labels).backward()
    torch.optim.SGD(tuned.parameters(), lr=0.1).step()
    torch.manual_seed(5)
    anchors = method.learn_anchors(torch.tensor([0, 1]))
    torch.manual_seed(5)
    starts = torch.rand(2, *inputs.shape[1:])
    for label in (0, 1):
        expected = slow_anchor(method, tuned, starts[label], label, 100)
        assert torch.allclose(anchors[label], expected, atol=1e-4)
    assert not anchors.requires_grad


def test_step_bends_the_ordinary_one_by_what_it_does_to_the_anchors(tmp_path):
    run = after_first_task(tmp_path, "--hal_lambda", 0.8)
    method = run.model
    method.meta_end_task(run.dataset)
    loader, _ = run.dataset.get_data_loaders()
    method.meta_begin_task(run.dataset)
    inputs, labels, plain = next(iter(loader))
    old, ahead = copy.deepcopy(method.net), copy.deepcopy(method.net)
    buffer = copy.deepcopy(method.buffer)
    method.meta_observe(inputs, labels, plain, epoch=0)

    x, y = buffer.get_data(method.args.minibatch_size)
    old.zero_grad()
    F.cross_entropy(old(torch.cat([inputs, x])), torch.cat([labels, y])).backward()
    ahead.set_params(old.get_params() - 0.1 * old.get_grads())
    penalty = 0.8 * (ahead(method.anchors).detach() - old(method.anchors)).pow(2).mean()
    assert penalty > 0
    penalty.backward()  # on top of the gradient of the step
    expected = old.get_params() - 0.1 * old.get_grads()
    assert torch.allclose(method.net.get_params(), expected, atol=1e-6)


def test_frozen_layers_stay_as_they_are(tmp_path):
    run = after_first_task(tmp_path)
    run.model.net.fc1.requires_grad_(False)
    before = run.model.net.fc1.weight.clone()
    run.model.meta_end_task(run.dataset)
    loader, _ = run.dataset.get_data_loaders()
    run.model.meta_begin_task(run.dataset)
    run.model.meta_observe(*next(iter(loader)), epoch=0)
    assert torch.equal(run.model.net.fc1.weight, before) and len(run.model.anchors) == 2


def test_each_task_leaves_one_anchor_a_class(tmp_path):
    run = experiment(tmp_path, "--model", "hal", "--dataset", "seq-digits", "--buffer_size", 50,
                     "--lr", 0.1, "--debug_mode", 1)
    run.run()
    assert run.model.anchors.shape == (10, 1, 8, 8)
    assert run.model.anchors.isfinite().all()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_hal_learns_what_sgd_forgets(tmp_path, seed):
    words = ("--dataset", "seq-digits", "--seed", seed, "--disable_log", 1)
    sgd = experiment(tmp_path, "--model", "sgd", *words).run()["accuracy"]["class-il"]
    hal = experiment(tmp_path, "--model", "hal", "--buffer_size", 200,
                     *words).run()["accuracy"]["class-il"]
    assert sgd < 25 and hal > 55, (sgd, hal)
