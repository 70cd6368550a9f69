"""Recall: a closed form, what is kept and when, and that training follows it."""
import pytest
import torch
from runs import experiment

from npcl_plugin.objective import RECALL_TEMPERATURE, stream_recall
from npcl_plugin.uncertainty import cost


def test_the_term_is_the_divergence_among_past_classes():
    torch.manual_seed(0)
    logits, past = torch.randn(6, 5), torch.randn(6, 3)
    recalled = torch.full((6, 5), -torch.inf)
    recalled[:, :3] = (past / RECALL_TEMPERATURE).log_softmax(1)
    then, now = ((x / RECALL_TEMPERATURE).double().softmax(1) for x in (past, logits[:, :3]))
    expected = (then * (then / now).log()).sum(1).mean() * RECALL_TEMPERATURE ** 2
    logits.requires_grad_()
    found = stream_recall(logits, recalled)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    found.backward()
    assert logits.grad.isfinite().all() and (logits.grad[:, 3:] == 0).all()
    same = torch.cat((past + 7, torch.randn(6, 2)), 1)
    assert stream_recall(same, recalled).item() == pytest.approx(0, abs=1e-6)


def build(folder, *more):
    return experiment(folder, "--model", "npcl_plus", "--dataset", "seq-digits", "--buffer_size",
                      40, "--n_global", 3, "--n_global_eval", 3, *more)


def learn(run, steps=15):
    """A task; the terms of its steps."""
    loader, _ = run.dataset.get_data_loaders()
    run.model.meta_begin_task(run.dataset)
    run.model.net.train()
    seen = [run.model.meta_observe(*batch[:3], epoch=0)
            for batch, _ in zip(loader, range(steps), strict=False)]
    run.model.meta_end_task(run.dataset)
    return seen


def test_the_first_task_has_nothing_to_recall(tmp_path):
    plain = build(tmp_path / "plain")
    expected = learn(plain)
    run = build(tmp_path / "recall", "--stream_recall", 1)
    assert learn(run) == expected and plain.model.recall is None
    assert run.model.recall.log_probs(run.model.buffer.examples) is None
    assert run.model.recall.state_dict() == {}


def test_what_answered_when_the_task_began_is_recalled(tmp_path):
    run = build(tmp_path, "--stream_recall", 1)
    learn(run)
    model = run.model
    images = model.buffer.examples[:7].clone()
    said = model.eval()(images)
    seen = learn(run)
    assert all(found["stream_recall"] >= 0 for found in seen) and seen[-1]["stream_recall"] > 0
    recalled = model.recall.log_probs(images)
    assert (recalled[:, 2:] == -torch.inf).all()
    torch.testing.assert_close(recalled[:, :2],
                               (said[:, :2] / RECALL_TEMPERATURE).log_softmax(1))
    assert not torch.equal(model.eval()(images), said)
    other = build(tmp_path / "other", "--stream_recall", 1).model.recall
    other.load_state_dict(model.recall.state_dict())
    assert torch.equal(other.log_probs(images), recalled)
    names = dict(model.named_parameters())
    assert not any(name.startswith("recall") for name in names)
    features = cost.storage(model, 40, 10)["stored"] - cost.storage(
        build(tmp_path / "fresh").model, 40, 10)["stored"]
    assert features >= model.recall.numbers() == 40 * 100


def test_new_samples_stay_like_the_past_classes_that_they_were_like(tmp_path):
    apart = []
    for weight in (1e-9, 1):
        run = build(tmp_path / str(weight), "--stream_recall", weight)
        learn(run)
        loader, _ = run.dataset.get_data_loaders()
        run.model.meta_begin_task(run.dataset)
        run.model.net.train()
        seen = [run.model.meta_observe(*batch[:3], epoch=epoch)["stream_recall"]
                for epoch in range(10) for batch in loader]
        apart.append(sum(seen[-20:]))
    assert apart[1] < 0.5 * apart[0]
