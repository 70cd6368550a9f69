"""SGD, ER, DER, DER++ and joint: each step against its equation, each run against a threshold."""
import copy

import pytest
import torch
from runs import experiment
from torch.nn import functional as F


def at_work(tmp_path, model, *words):
    """A model in its first task with a filled buffer."""
    run = experiment(tmp_path, "--model", model, "--dataset", "seq-digits", *words,
                     "--disable_log", 1)
    loader, _ = run.dataset.get_data_loaders()
    run.model.meta_begin_task(run.dataset)
    batches = iter(loader)
    for _ in range(3):
        run.model.meta_observe(*next(batches), epoch=0)
    return run.model, next(batches)


@pytest.mark.parametrize(("model", "words"), [
    ("er", ()), ("der", ("--alpha", "0.7")), ("derpp", ("--alpha", "0.7", "--beta", "0.4"))])
def test_step_follows_the_equation(tmp_path, model, words):
    method, (inputs, labels, plain) = at_work(tmp_path, model, "--buffer_size", 40, *words)
    net, buffer = copy.deepcopy(method.net), copy.deepcopy(method.buffer)
    method.meta_observe(inputs, labels, plain, epoch=0)

    size = method.args.minibatch_size
    logits = net(inputs)
    if model == "er":
        x, y = buffer.get_data(size)
        loss = F.cross_entropy(torch.cat([logits, net(x)]), torch.cat([labels, y]))
    elif model == "der":
        x, _, stored = buffer.get_data(size)
        loss = F.cross_entropy(logits, labels) + 0.7 * ((net(x) - stored) ** 2).mean()
    else:
        x2, y2, _ = buffer.get_data(size)
        x1, _, stored = buffer.get_data(size)
        loss = (F.cross_entropy(logits, labels) + 0.7 * ((net(x1) - stored) ** 2).mean()
                + 0.4 * F.cross_entropy(net(x2), y2))
    loss.backward()
    with torch.no_grad():
        for ours, p in zip(method.net.parameters(), net.parameters(), strict=True):
            assert torch.allclose(ours, p - method.args.lr * p.grad, atol=1e-6)


def test_der_stores_the_logits_that_the_step_saw(tmp_path):
    method, (inputs, labels, plain) = at_work(tmp_path, "der", "--buffer_size", 400)
    before = method.net(inputs).detach()
    filled = len(method.buffer)
    method.meta_observe(inputs, labels, plain, epoch=0)
    assert torch.allclose(method.buffer.logits[filled:filled + len(labels)], before)
    assert torch.equal(method.buffer.examples[filled:filled + len(labels)], plain)


def test_joint_training_reports_no_transfer(tmp_path):
    result = experiment(tmp_path, "--model", "joint", "--dataset", "seq-digits", "--n_epochs", 1,
                        "--enable_other_metrics", 1).run()
    assert result["transfer"] == {} and len(result["accuracy_matrix"]["class-il"]) == 5


def final(tmp_path, *words):
    return experiment(tmp_path, *words).run()["accuracy"]


@pytest.mark.parametrize("seed", [1, 2])
def test_methods_learn_and_sgd_forgets_on_seq_digits(tmp_path, seed):
    words = ("--dataset", "seq-digits", "--seed", seed)
    accuracy = {model: final(tmp_path, "--model", model, *words,
                             *(() if model in ("sgd", "joint") else ("--buffer_size", 200)))
                for model in ("sgd", "er", "der", "derpp", "joint")}
    assert accuracy["sgd"]["class-il"] < 25 and accuracy["sgd"]["task-il"] > 85
    assert accuracy["er"]["class-il"] > 75
    assert accuracy["der"]["class-il"] > 60
    assert accuracy["derpp"]["class-il"] > 78
    assert accuracy["joint"]["class-il"] > 88


def test_methods_learn_on_perm_digits(tmp_path):
    words = ("--dataset", "perm-digits", "--seed", 2)
    accuracy = {model: final(tmp_path, "--model", model, *words,
                             *(() if model == "sgd" else ("--buffer_size", 200)))["domain-il"]
                for model in ("sgd", "er", "der", "derpp")}
    assert all(accuracy[model] > accuracy["sgd"] + 15 for model in ("er", "der", "derpp"))


def test_er_learns_real_images(tmp_path, real_data):
    result = experiment(tmp_path, "--model", "er", "--dataset", "seq-mnist", "--buffer_size", 500,
                        "--disable_log", 1, "--batch_size", 64, "--minibatch_size", 64,
                        base_path=real_data).run()
    assert result["accuracy"]["class-il"] > 75


def test_buffers_of_a_method_follow_the_run_s_seed(tmp_path):
    first, _ = at_work(tmp_path, "er", "--buffer_size", 10, "--seed", 1)
    second, _ = at_work(tmp_path, "er", "--buffer_size", 10, "--seed", 1)
    other, _ = at_work(tmp_path, "er", "--buffer_size", 10, "--seed", 2)
    assert torch.equal(first.buffer.examples, second.buffer.examples)
    assert not torch.equal(first.buffer.examples, other.buffer.examples)
