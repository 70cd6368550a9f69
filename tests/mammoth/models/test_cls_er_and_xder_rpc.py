"""CLS-ER's two averages, X-DER's renewed logits, and what both learn."""
import pytest
import torch
from torch.nn import functional as F

import main
from models.xder_rpc import transplanted
from utils.training import train


def build(tmp_path, *words):
    return main.initialize(main.parse_args([
        "--dataset", "seq-digits", "--base_path", str(tmp_path), "--seed", "0", "--non_verbose",
        "1", "--disable_log", "1", "--buffer_size", "60", *map(str, words)]))


def steps(model, dataset, count):
    loader, _ = dataset.get_data_loaders()
    model.meta_begin_task(dataset)
    return [model.meta_observe(*batch[:3], epoch=0)
            for batch, _ in zip(loader, range(count), strict=False)]


def copies(module):
    return [p.clone() for p in module.parameters()]


def test_averages_follow_the_network(tmp_path):
    model, dataset, _ = build(
        tmp_path, "--model", "cls_er", "--plastic_model_update_freq", 1,
        "--stable_model_update_freq", 0, "--plastic_model_alpha", 0.6)
    first = copies(model.net)
    expected = first
    loader, _ = dataset.get_data_loaders()
    model.meta_begin_task(dataset)
    for step, batch in zip(range(1, 5), loader, strict=False):
        model.meta_observe(*batch[:3], epoch=0)
        past = min(1 - 1 / (step + 1), 0.6)
        expected = [past * old + (1 - past) * new
                    for old, new in zip(expected, model.net.parameters(), strict=True)]
    torch.testing.assert_close(copies(model.plastic), expected)
    assert all(map(torch.equal, copies(model.stable), first))


def test_replay_is_pulled_towards_the_surer_average(tmp_path):
    model, dataset, _ = build(tmp_path, "--model", "cls_er")
    inputs, labels, plain = next(iter(dataset.get_data_loaders()[0]))[:3]
    for average in (model.plastic, model.stable):
        torch.nn.init.normal_(average.classifier.weight)
    plastic, stable = model.plastic(inputs), model.stable(inputs)
    goal = model.surer_logits(inputs, labels)
    for row, label in enumerate(labels):
        surer = max(plastic[row], stable[row], key=lambda logits, y=label: logits.softmax(0)[y])
        assert torch.equal(goal[row], surer)
    assert len({torch.equal(goal[row], plastic[row]) for row in range(len(labels))}) == 2


def test_cls_er_loss(tmp_path):
    model, dataset, args = build(tmp_path, "--model", "cls_er", "--reg_weight", 0.7)
    steps(model, dataset, 3)
    inputs, labels, plain = next(iter(dataset.train_loader))[:3]
    torch.manual_seed(0)
    state = model.buffer.state_dict()
    replayed, replayed_labels = model.replay()[:2]
    model.buffer.load_state_dict(state)
    logits = model.net(torch.cat((inputs, replayed)))
    goal = model.surer_logits(replayed, replayed_labels)
    expected = F.cross_entropy(logits, torch.cat((labels, replayed_labels))) \
        + 0.7 * F.mse_loss(logits[len(labels):], goal)
    torch.manual_seed(0)
    assert model.meta_observe(inputs, labels, plain) == pytest.approx(expected.item(), rel=1e-5)


def test_the_stable_average_answers(tmp_path):
    model, dataset, _ = build(tmp_path, "--model", "cls_er")
    steps(model, dataset, 3)
    images = next(iter(dataset.train_loader))[0]
    assert torch.equal(model(images), model.stable(images))
    assert not torch.equal(model(images), model.net(images))


def test_transplanted_logits_stay_below_the_true_class():
    stored, fresh = torch.randn(50, 6), torch.randn(50, 6)
    labels = torch.randint(3, (50,))
    stored[torch.arange(50), labels] += 3
    fresh[:, 3:] += 3
    result = transplanted(stored, fresh, labels, slice(3, 6), gamma=0.85)
    assert torch.equal(result[:, :3], stored[:, :3])
    true = stored[torch.arange(50), labels]
    outshining = fresh[:, 3:].amax(1) > true
    assert outshining.any() and not outshining.all()
    torch.testing.assert_close(result[outshining, 3:].amax(1), 0.85 * true[outshining])
    assert torch.equal(result[~outshining, 3:], fresh[~outshining, 3:])


def test_margin_counts_what_rises_above_the_own_task(tmp_path):
    model, dataset, _ = build(tmp_path, "--model", "xder_rpc", "--constr_margin", 0.3)
    dataset.get_data_loaders()
    model._current_task = 1
    model.meta_begin_task(dataset)  # classes 2 and 3; 0 and 1 are past, 4 to 9 to come
    outputs = torch.zeros(3, 10)
    outputs[0, [2, 5]] = torch.tensor([1.0, 0.9])  # excess 0.2
    outputs[1, [0, 7]] = torch.tensor([2.0, 2.5])  # a replayed sample: excess 0.8
    outputs[2, [3, 2]] = torch.tensor([5.0, 1.0])  # none
    assert model.margin_loss(outputs, torch.tensor([2, 1, 3])).item() == pytest.approx(0.5)
    model.n_seen_classes = 10
    assert model.margin_loss(outputs, torch.tensor([2, 1, 3])) == 0


def test_buffer_is_shared_by_the_classes_and_old_logits_are_renewed(tmp_path):
    model, dataset, _ = build(tmp_path, "--model", "xder_rpc")
    steps(model, dataset, 8)
    model.meta_end_task(dataset)
    assert torch.bincount(model.buffer.get_all_data()[1]).tolist() == [30, 30]
    old = model.buffer.get_all_data()
    kept = torch.cat([(old[1] == label).nonzero().flatten()[:15] for label in (0, 1)])
    steps(model, dataset, 8)
    assert model.renewals.sum() > 0
    model.meta_end_task(dataset)
    _, labels, logits = model.buffer.get_all_data()
    assert torch.bincount(labels).tolist() == [15, 15, 15, 15]
    past = labels < 2
    assert torch.equal(logits[past][:, :2], old[2][kept][:, :2])
    assert not torch.equal(logits[past][:, 2:], old[2][kept][:, 2:])
    true = logits[past].gather(1, labels[past][:, None])
    positive = (true > 0).flatten()
    assert (logits[past][:, 2:].amax(1)[positive] <= true.flatten()[positive]).all()
    assert model.renewals.sum() == 0


@pytest.mark.parametrize(("method", "least"), [("cls_er", 75), ("xder_rpc", 60)])
def test_learning(tmp_path, method, least):
    assert train(*build(tmp_path, "--model", method))["accuracy"]["class-il"] > least
