"""Online EWC, SI and LwF against slow definitions, and whether they forget less than SGD."""
import pytest
import torch
from torch.nn import functional as F

import main
from models.lwf import distillation_loss
from utils.training import train

pytestmark = pytest.mark.long


def build(tmp_path, *words):
    """A method on a small benchmark, at the start of its first task."""
    args = main.parse_args(["--seed", "0", "--base_path", str(tmp_path), "--non_verbose", "1",
                            "--disable_log", "1", *map(str, words)])
    model, dataset, args = main.initialize(args)
    return model, dataset, args


def accuracy(tmp_path, setting, *words):
    """Final accuracy of a run with seeds 0, 1, 2."""
    found = []
    for seed in range(3):
        args = main.parse_args(["--seed", str(seed), "--base_path", str(tmp_path), "--non_verbose",
                                "1", "--disable_log", "1", *map(str, words)])
        model, dataset, args = main.initialize(args)
        found.append(train(model, dataset, args)["accuracy"][setting])
    return found


def batches(dataset, count):
    """The first batches of the next task as (inputs, labels, plain inputs)."""
    loader, _ = dataset.get_data_loaders()
    return [batch[:3] for _, batch in zip(range(count), loader, strict=False)]


def test_ewc_penalty_is_zero_in_the_first_task(tmp_path):
    model, dataset, _ = build(tmp_path, "--model", "ewc_on", "--dataset", "perm-digits")
    inputs, labels, plain = batches(dataset, 1)[0]
    plain_loss = F.cross_entropy(model.net(inputs), labels).item()
    model.meta_begin_task(dataset)
    assert model.meta_observe(inputs, labels, plain) == pytest.approx(plain_loss)
    assert model.penalty().item() == 0


def test_ewc_fisher_decays_by_gamma_and_accumulates(tmp_path):
    model, dataset, _ = build(tmp_path, "--model", "ewc_on", "--dataset", "perm-digits", "--gamma",
                              0.5, "--e_lambda", 3)
    dataset.get_data_loaders()
    model.end_task(dataset)
    first = model.fisher.clone()
    model.end_task(dataset)  # same data, same weights: the task's Fisher information is the same
    torch.testing.assert_close(model.fisher, 1.5 * first)
    torch.testing.assert_close(model.anchor, model.net.get_params().detach())
    with torch.no_grad():
        model.net.set_params(model.anchor + 0.1)
    expected = sum(f * 0.1 ** 2 for f in model.fisher.tolist())
    assert model.penalty().item() == pytest.approx(expected, rel=1e-3)


def test_ewc_step_follows_the_closed_form_gradient_of_its_penalty(tmp_path):
    model, dataset, args = build(tmp_path, "--model", "ewc_on", "--dataset", "perm-digits")
    (inputs, labels, plain), = batches(dataset, 1)
    model.fisher = torch.rand_like(model.fisher)
    model.anchor = torch.randn_like(model.anchor)
    start = model.net.get_params().detach()
    F.cross_entropy(model.net(inputs), labels).backward()
    pull = 2 * args.e_lambda * model.fisher * (start - model.anchor)
    expected = start - args.lr * (model.net.get_grads() + pull)
    model.observe(inputs, labels, plain)
    torch.testing.assert_close(model.net.get_params().detach(), expected)


def test_si_omega_equals_the_sum_over_steps_of_gradient_times_movement(tmp_path):
    model, dataset, args = build(tmp_path, "--model", "si", "--dataset", "perm-digits", "--xi", 0.7)
    model.importance = torch.rand_like(model.importance)
    model.anchor = model.anchor + 0.1
    omega = torch.zeros_like(model.path)
    importance, anchor = model.importance.clone(), model.anchor.clone()
    weights = model.net.get_params().detach()
    for inputs, labels, plain in batches(dataset, 4):
        model.net.zero_grad()
        F.cross_entropy(model.net(inputs), labels).backward()
        gradient = model.net.get_grads() + 2 * args.c * importance * (weights - anchor)
        gradient = gradient.clamp(-1, 1)
        omega += args.lr * gradient ** 2  # plain SGD moves by -lr * gradient
        model.meta_observe(inputs, labels, plain)
        expected = weights - args.lr * gradient
        weights = model.net.get_params().detach()
        torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(model.path, omega, rtol=1e-2, atol=1e-5)
    model.end_task(dataset)
    expected = importance + omega / ((weights - anchor) ** 2 + 0.7)
    torch.testing.assert_close(model.importance, expected, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(model.anchor, weights)
    assert model.path.abs().max() == 0


def test_si_gradients_are_clipped_to_one(tmp_path):
    model, dataset, args = build(tmp_path, "--model", "si", "--dataset", "perm-digits")
    (inputs, labels, plain), = batches(dataset, 1)
    model.importance.fill_(1e6)
    model.anchor -= 1.0
    before = model.net.get_params().detach()
    model.observe(inputs, labels, plain)
    moved = before - model.net.get_params().detach()
    torch.testing.assert_close(moved, torch.full_like(moved, args.lr), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_distillation_equals_powered_and_renormalised_softmax(temperature):
    new, old = torch.randn(6, 4), torch.randn(6, 4)

    def softened(logits):
        powered = logits.softmax(dim=1) ** (1 / temperature)
        return powered / powered.sum(dim=1, keepdim=True)

    expected = 0.0
    for target, answer in zip(softened(old), softened(new), strict=True):
        expected -= sum(t * a.log() for t, a in zip(target, answer, strict=True)) / len(old)
    torch.testing.assert_close(distillation_loss(new, old, temperature), expected)


def test_lwf_warm_up_trains_only_the_new_classes(tmp_path):
    model, dataset, _ = build(tmp_path, "--model", "lwf", "--dataset", "seq-digits", "--n_epochs",
                              2)
    for _ in range(2):
        dataset.get_data_loaders()
    model.end_task(dataset)
    model._current_task = 1
    before = {key: value.clone() for key, value in model.net.state_dict().items()}
    model.meta_begin_task(dataset)
    after = model.net.state_dict()
    changed = {key for key in after if not torch.equal(after[key], before[key])}
    assert changed == {"classifier.weight", "classifier.bias", "net.1.weight", "net.1.bias"}
    rows = (after["classifier.weight"] != before["classifier.weight"]).any(dim=1)
    assert rows.nonzero().flatten().tolist() == [2, 3]
    assert model.net.training


def test_lwf_loss_keeps_what_the_frozen_copy_says(tmp_path):
    model, dataset, args = build(tmp_path, "--model", "lwf", "--dataset", "seq-digits",
                                 "--n_epochs", 1, "--alpha", 0.5)
    dataset.get_data_loaders()
    (inputs, labels, plain), = batches(dataset, 1)
    model.end_task(dataset)
    model._current_task = 1
    model.meta_begin_task(dataset)
    with torch.no_grad():
        new, old = model.net(inputs), model.old_net(inputs)
    expected = F.cross_entropy(new[:, :4], labels) + 0.5 * distillation_loss(
        new[:, :2], old[:, :2], args.softmax_temp)
    teacher = {key: value.clone() for key, value in model.old_net.state_dict().items()}
    assert model.meta_observe(inputs, labels, plain) == pytest.approx(expected.item(), rel=1e-5)
    assert all(torch.equal(value, teacher[key])
               for key, value in model.old_net.state_dict().items())


def test_lwf_mc_targets_are_labels_for_new_and_old_outputs_for_past_classes(tmp_path):
    model, dataset, _ = build(tmp_path, "--model", "lwf_mc", "--dataset", "seq-digits",
                              "--wd_reg", 0.01)
    dataset.get_data_loaders()
    (inputs, labels, plain), = batches(dataset, 1)
    model.end_task(dataset)
    model._current_task = 1
    model.meta_begin_task(dataset)
    with torch.no_grad():
        model.net.set_params(model.net.get_params() * 0.9)
        logits, old = model.net(inputs), model.old_net(inputs)
    terms = []
    for i, label in enumerate(labels):
        for column in range(4):
            target = old[i, column].sigmoid() if column < 2 else (label == column).float()
            p = logits[i, column].sigmoid()
            terms.append(-(target * p.log() + (1 - target) * (1 - p).log()))
    norm = 0.01 * sum(p.square().sum() for p in model.net.parameters())
    expected = torch.stack(terms).mean() + norm
    assert model.meta_observe(inputs, labels, plain) == pytest.approx(expected.item(), rel=1e-4)


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory):
    """SGD on perm-digits: at the penalties' learning rate, and at the one of its own settings."""
    folder, words = tmp_path_factory.mktemp("sgd"), ("--model", "sgd", "--dataset", "perm-digits")
    return (accuracy(folder, "domain-il", *words, "--lr", 0.3),
            accuracy(folder, "domain-il", *words))


@pytest.mark.parametrize("name", ["ewc_on", "si"])
def test_penalties_keep_perm_digits_which_sgd_forgets(tmp_path, forgetful, name):
    ours = accuracy(tmp_path, "domain-il", "--model", name, "--dataset", "perm-digits")
    for measured, *sgd in zip(ours, *forgetful, strict=True):
        assert measured > max(sgd) + 5, f"{name} {ours}, sgd {forgetful}"
    assert sum(ours) / 3 > 68 > 63 > max(map(sum, forgetful)) / 3


def test_lwf_keeps_tasks_that_sgd_forgets(tmp_path):
    steps = ("--dataset", "seq-digits", "--lr", 0.03, "--optim_mom", 0.9, "--batch_size", 10,
             "--n_epochs", 5)  # momentum 0.9: a step size at which fine-tuning destroys features
    lwf = accuracy(tmp_path, "task-il", "--model", "lwf", "--alpha", 1, *steps)
    sgd = accuracy(tmp_path, "task-il", "--model", "sgd", *steps)
    for measured, baseline in zip(lwf, sgd, strict=True):
        assert measured > baseline + 8, f"lwf {lwf}, sgd {sgd}"
    assert sum(lwf) / 3 > 74 > 68 > sum(sgd) / 3


@pytest.mark.slow
def test_lwf_default_settings_beat_sgd_at_the_same_steps(tmp_path):
    steps = ("--dataset", "seq-digits", "--lr", 0.1, "--batch_size", 10, "--n_epochs", 20)
    lwf = accuracy(tmp_path, "task-il", "--model", "lwf", "--dataset", "seq-digits")
    sgd = accuracy(tmp_path, "task-il", "--model", "sgd", *steps)
    assert min(lwf) > 97.5 and sum(lwf) / 3 > sum(sgd) / 3 + 0.7, f"lwf {lwf}, sgd {sgd}"


def test_lwf_mc_reaches_class_il_accuracy_that_sgd_does_not(tmp_path):
    ours = accuracy(tmp_path, "class-il", "--model", "lwf_mc", "--dataset", "seq-digits")
    sgd = accuracy(tmp_path, "class-il", "--model", "sgd", "--dataset", "seq-digits")
    assert min(ours) > 45 > 25 > max(sgd), f"lwf_mc {ours}, sgd {sgd}"
