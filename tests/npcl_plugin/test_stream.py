"""The class means of the whole stream: closed forms, and what they do for a run."""
import numpy as np
import pytest
import torch
from runs import experiment, run_main

from npcl_plugin.stream import ClassMeans
from npcl_plugin.uncertainty import cost

CENTRES = 3 * np.random.default_rng(0).normal(size=(8, 12))


class Samples:
    """A task's training set in memory."""

    def __init__(self, x, labels):
        self.x, self.targets = x, labels

    def fetch(self, rows):
        return self.x[rows], self.targets[rows], self.x[rows]


def task_of(task):
    return lambda labels: torch.full_like(labels, task)


@pytest.fixture
def means():
    """Two tasks of two classes; class 1 has one sample without a label."""
    torch.manual_seed(0)
    found, x = ClassMeans(6, 3), torch.randn(40, 3)
    labels = torch.arange(40) % 4
    labels[1] = -1
    first = (labels == 0) | (labels == 1)
    found.add(Samples(x[first], labels[first]), task_of(0))
    found.add(Samples(x[~first], labels[~first]), task_of(1))
    return found, x, labels


def test_means_counts_and_tasks_are_those_of_the_labelled_samples(means):
    found, x, labels = means
    context = found.context()
    assert context.labels.tolist() == [0, 1, 2, 3] and context.tasks.tolist() == [0, 0, 1, 1]
    torch.testing.assert_close(context.x, torch.stack([x[labels == c].mean(0) for c in range(4)]))
    assert found.counts.tolist() == [10, 9, 10, 10, 0, 0]
    assert found.numbers() == 6 * (3 + 1 + 1)


def test_the_order_of_samples_and_tasks_changes_nothing(means):
    found, x, labels = means
    other, order = ClassMeans(6, 3), torch.randperm(40)
    for part in order.split(7):
        other.add(Samples(x[part], labels[part]), task_of(0))
    torch.testing.assert_close(other.context().x, found.context().x)


def test_moved_samples_keep_their_difference_from_the_mean(means):
    found, x, labels = means
    donors = labels >= 2
    x, labels = x[donors], labels[donors]
    past = found.rehearsal(x, labels, count=50, n_means=1, task=1)
    assert len(past.labels) == 51 and set(past.labels.tolist()) == {0, 1}
    assert (past.tasks == 0).all()
    torch.testing.assert_close(past.x[0], found.of(past.labels[:1])[0])
    source = torch.arange(50) % len(labels)
    torch.testing.assert_close(past.x[1:] - found.of(past.labels[1:]),
                               x[source] - found.of(labels[source]))


def test_every_past_task_is_among_the_means_and_the_first_task_has_no_past(means):
    found, x, labels = means
    known = labels >= 0
    past = found.rehearsal(x[known], labels[known], count=0, n_means=1, task=2)
    assert sorted(past.tasks.tolist()) == [0, 1]
    assert len(found.rehearsal(x[known], labels[known], count=5, n_means=1, task=0).labels) == 0


def test_odds_are_those_of_a_class_in_the_step(means):
    found = means[0]
    tasks = torch.tensor([1] * 12 + [0] * 4)  # 6 rows of each new class, 2 of each past one
    odds = found.log_odds(tasks, 1)
    assert odds.shape == (16, 6)
    torch.testing.assert_close(odds[0].exp(), torch.tensor([1.0, 1, 3, 3, 1, 1]))
    assert not found.log_odds(tasks, 0).any()


def test_the_scatter_is_that_of_all_samples_around_their_means(means):
    _, x, labels = means
    known = labels >= 0
    x, labels = x[known].double(), labels[known]
    found = ClassMeans(6, 3, shrinkage=0.25)
    for part in torch.randperm(len(labels)).split(7):
        found.add(Samples(x[part], labels[part]), task_of(0))
    around = x - torch.stack([x[labels == c].mean(0) for c in range(4)])[labels]
    scatter = around.T @ around / len(x)
    torch.testing.assert_close(found.scatter(), scatter)
    assert found.numbers() == 6 * (3 + 1 + 1) + 9
    weight = torch.nn.Parameter(torch.zeros(6, 3))
    weight.grad = gradient = torch.randn(6, 3)
    found.shape_step(weight)
    mixed = 0.75 * scatter / scatter.trace() * 3 + 0.25 * torch.eye(3)
    torch.testing.assert_close((weight.grad.double() @ mixed).float(), gradient)


def test_the_shape_of_steps_follows_later_tasks_and_is_none_without_a_scatter(means):
    plain, x, labels = means
    found, weight = ClassMeans(6, 3, shrinkage=0.25), torch.nn.Parameter(torch.zeros(6, 3))
    found.add(Samples(x[:20], labels[:20]), task_of(0))
    before = found.step_shape()
    assert found.step_shape() is before
    found.add(Samples(5 * x[20:], labels[20:]), task_of(1))
    assert not torch.allclose(found.step_shape(), before)
    weight.grad = gradient = torch.randn(6, 3)
    plain.shape_step(weight)
    assert weight.grad is gradient


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(1)
    arrays = {}
    for split, count in (("train", 60), ("test", 20)):
        labels = np.repeat(np.arange(8), count)
        arrays[f"{split}_y"] = labels
        arrays[f"{split}_x"] = (CENTRES[labels] + 2 * rng.normal(size=(len(labels), 12))
                                ).astype(np.float32)
    np.savez(tmp_path / "f.npz", **arrays)
    return ["--dataset", "features", "--features", tmp_path / "f.npz", "--classes_per_task", 2,
            "--buffer_size", 4, "--n_global", 3, "--n_epochs", 5, "--lr", 0.03, "--disable_log", 1]


@pytest.mark.parametrize("model", ["npcl", "cnp"])
def test_it_remembers_what_four_samples_do_not(tmp_path, file, model):
    accuracy = {count: experiment(tmp_path, "--model", model, *file, "--stream_context", count,
                                  "--stream_prior", 1).run()["accuracy"]["class-il"]
                for count in (0, 32)}
    assert accuracy[32] > accuracy[0] + 10


def test_shaped_steps_learn_what_plain_ones_do_not_reach(tmp_path):
    """Classes differ where samples hardly do, beside directions in which all differ a lot."""
    rng, scales = np.random.default_rng(2), np.r_[np.full(6, 8.0), np.full(6, 0.3)]
    centres, arrays = rng.normal(size=(8, 12)) * 0.6, {}
    for split, count in (("train", 60), ("test", 20)):
        labels = np.repeat(np.arange(8), count)
        arrays[f"{split}_y"] = labels
        arrays[f"{split}_x"] = (centres[labels] + scales * rng.normal(size=(len(labels), 12))
                                ).astype(np.float32)
    np.savez(tmp_path / "g.npz", **arrays)
    accuracy = {share: experiment(
        tmp_path, "--model", "npcl_plus", "--dataset", "features", "--features",
        tmp_path / "g.npz", "--classes_per_task", 2, "--buffer_size", 4, "--n_epochs", 3,
        "--disable_log", 1, "--stream_shrinkage", share).run()["accuracy"]["class-il"]
        for share in (0.1, 1)}
    assert accuracy[0.1] > accuracy[1] + 10


def test_answers_follow_the_means_and_the_storage_counts_them(tmp_path, file):
    run = experiment(tmp_path, "--model", "anp", *file, "--stream_context", 8, "--debug_mode", 1)
    run.run()
    model = run.model
    context = model.predictor.context()
    assert len(context.labels) == 8 + len(model.buffer)
    assert len(model.predictor.context(0).labels) == 8
    x = torch.randn(3, 12)
    before = model(x)
    model.class_means.sums.neg_()
    assert not torch.equal(model(x), before)
    stored = cost.storage(model, 4, 8)["stored"]
    assert stored == model.net.memory.numbers() + 4 + 8 * (12 + 2)


def test_a_checkpoint_keeps_them(tmp_path, file):
    run = experiment(tmp_path, "--model", "anp", *file, "--stream_context", 8, "--debug_mode", 1)
    run.run()
    again = experiment(tmp_path / "b", "--model", "anp", *file, "--stream_context", 8)
    again.model.load_state_dict(run.model.state_dict())
    assert torch.equal(again.model.class_means.context().x, run.model.class_means.context().x)


def test_it_is_refused_where_features_change(tmp_path):
    done = run_main("--model", "anp", "--dataset", "seq-digits", "--buffer_size", 40,
                    "--stream_context", 8, cwd=tmp_path)
    assert done.returncode == 2 and "of frozen features only" in done.stderr


def test_a_scatter_is_refused_where_the_layer_sees_something_else(tmp_path, file):
    done = run_main("--model", "anp", *file, "--stream_context", 8, "--stream_shrinkage", 0.5,
                    "--backbone", "mlp", cwd=tmp_path)
    assert done.returncode == 2 and "--backbone mlp has not" in done.stderr


def test_means_take_the_place_of_attention_but_not_of_the_tasks_own(tmp_path, file):
    run = experiment(tmp_path, "--model", "anp", *file, "--attention_heads", 0, "--debug_mode", 1)
    assert not run.model.net.plan.attention and run.run()["accuracy"]
    done = run_main("--model", "npcl", *file, "--attention_heads", 0, cwd=tmp_path)
    assert done.returncode == 2 and "task latents" in done.stderr
