"""iCaRL: loss, exemplars and class means against the paper; evaluation, resumption, learning."""
import copy

import pytest
import torch
from runs import experiment
from torch.nn import functional as F

from models.utils.exemplar_means import FARTHEST, ExemplarMeans, class_means


def trained(tmp_path, tasks, *words):
    run = experiment(tmp_path, "--model", "icarl", "--dataset", "seq-digits", "--lr", 0.3,
                     "--buffer_size", 42, "--disable_log", 1, *words)
    for _ in range(tasks):
        loader, _ = run.dataset.get_data_loaders()
        run.model.meta_begin_task(run.dataset)
        for batch in list(loader)[:6]:
            run.model.meta_observe(*batch, epoch=0)
        run.model.meta_end_task(run.dataset)
    return run


def slow_means(features, labels, classes):
    means = []
    for label in range(classes):
        rows = [f / f.norm() for f, y in zip(features, labels, strict=True) if y == label]
        mean = torch.stack(rows).mean(0) if rows else torch.zeros(features.shape[1])
        means.append(mean / mean.norm() if rows else mean)
    return torch.stack(means)


def test_class_means_are_unit_means_of_unit_features():
    features, labels = torch.randn(30, 5), torch.randint(4, (30,))
    assert torch.allclose(class_means(features, labels, 5), slow_means(features, labels, 5),
                          atol=1e-6)


def test_scores_are_minus_the_squared_distance_to_the_means(tmp_path):
    run = trained(tmp_path, 2)
    x = torch.rand(7, 1, 8, 8)
    images, labels = run.model.buffer.get_all_data()
    features = run.model.net(images, returnt="features")
    means = slow_means(features, labels, 10)[:4]
    queries = run.model.net(x, returnt="features")
    queries = queries / queries.norm(dim=1, keepdim=True)
    scores = run.model(x)
    assert torch.allclose(scores[:, :4], -torch.cdist(queries, means) ** 2, atol=1e-4)
    assert (scores[:, 4:] == -FARTHEST).all() and scores[:, :4].min() > -FARTHEST


def test_mirror_images_are_exemplars_too_where_asked_for(tmp_path):
    model = trained(tmp_path, 1).model
    images, labels = model.buffer.get_all_data()
    flipped = ExemplarMeans(10, flip=True, batch_size=8).compute(
        model.net, model.buffer, None, torch.device("cpu"))
    features = model.net(torch.cat([images, images.flip(-1)]), returnt="features")
    assert torch.allclose(flipped, slow_means(features, labels.repeat(2), 10), atol=1e-5)


def test_means_are_computed_once_an_evaluation_and_anew_after_a_step(tmp_path, monkeypatch):
    run, calls = trained(tmp_path, 2), []
    compute = ExemplarMeans.compute
    monkeypatch.setattr(ExemplarMeans, "compute",
                        lambda *args: calls.append(1) or compute(*args))
    run.dataset.evaluate(run.model, run.dataset)
    assert len(calls) == 1
    run.dataset.evaluate(run.model, run.dataset)
    assert len(calls) == 1
    loader, _ = run.dataset.get_data_loaders()
    run.model.meta_begin_task(run.dataset)
    run.model.meta_observe(*next(iter(loader)), epoch=0)
    before = run.model.means.means
    run.dataset.evaluate(run.model, run.dataset)
    assert len(calls) == 2 and before is None


def test_old_classes_learn_from_the_old_network(tmp_path):
    run = trained(tmp_path, 1)
    loader, _ = run.dataset.get_data_loaders()
    run.model.meta_begin_task(run.dataset)
    inputs, labels, plain = next(iter(loader))
    net, old = copy.deepcopy(run.model.net), copy.deepcopy(run.model.old_net)
    with torch.no_grad():
        for p in run.model.old_net.parameters():
            p.mul_(0.7)
        for p in old.parameters():
            p.mul_(0.7)
    run.model.meta_observe(inputs, labels, plain, epoch=0)
    loss, probabilities = 0, net(inputs).sigmoid()
    for i, label in enumerate(labels.tolist()):
        for c in range(4):
            target = old(inputs[i:i + 1]).sigmoid()[0, c].detach() if c < 2 else float(c == label)
            loss = loss - target * probabilities[i, c].log() \
                - (1 - target) * (1 - probabilities[i, c]).log()
    loss = loss / (4 * len(labels)) + 1e-5 * sum((p ** 2).sum() for p in net.parameters())
    loss.backward()
    expected = net.get_params() - 0.3 * net.get_grads()
    assert torch.allclose(run.model.net.get_params(), expected, atol=1e-5)


def test_memory_has_equal_shares_and_joins_the_training_data(tmp_path):
    run = trained(tmp_path, 2)
    assert run.model.buffer.get_all_data()[1].bincount().tolist() == [10] * 4
    loader, _ = run.dataset.get_data_loaders()
    alone = len(loader.dataset)
    run.model.meta_begin_task(run.dataset)
    assert len(loader.dataset) == alone + 40
    assert set(torch.cat([y for _, y, _ in loader]).tolist()) == set(range(6))
    run.model.meta_end_task(run.dataset)
    assert len(loader.dataset) == alone


def test_theoretical_best_uses_all_samples_for_the_means(tmp_path):
    run = trained(tmp_path, 2, "--compute_theoretical_best", 1)
    samples = sum(len(loader.dataset) for loader in run.dataset.test_loaders)
    assert len(run.model.ncm_buffer) > samples
    assert run.model.buffer.get_all_data()[1].bincount().tolist() == [11] * 4
    assert run.model(torch.rand(3, 1, 8, 8)).shape == (3, 10)


def test_original_transform_shifts_and_mirrors(tmp_path):
    method = trained(tmp_path, 1, "--use_original_icarl_transform", 1).model
    images = torch.rand(200, 1, 8, 8)
    changed = method.original_augmentation(images)
    padded = F.pad(images, (4, 4, 4, 4))
    windows = padded.unfold(2, 8, 1).unfold(3, 8, 1).flatten(2, 3)  # (B, 1, 81, 8, 8)
    for mirror in (windows, windows.flip(-1)):
        found = (mirror == changed[:, :, None]).flatten(3).all(3).any(2).squeeze(1)
        assert 60 < found.sum() < 140


def test_run_resumed_inside_a_task_ends_in_the_same_numbers(tmp_path):
    words = ("--model", "icarl", "--dataset", "seq-digits", "--buffer_size", 50, "--lr", 0.3,
             "--n_epochs", 3, "--stop_after", 3, "--savecheck", "epoch")
    first = experiment(tmp_path, *words, "--disable_log", 1)
    whole = first.run()["accuracy"]
    inside = sorted((tmp_path / "checkpoints").glob("**/*_2e[12].pt"))
    assert inside, "expected a checkpoint within the last task"
    again = experiment(tmp_path, *words, "--resume", inside[0])
    result = again.run()
    assert result["accuracy"] == whole and result["resumed"] == 1
    assert torch.equal(again.model.net.get_params(), first.model.net.get_params())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_icarl_learns_what_sgd_forgets(tmp_path, seed):
    words = ("--dataset", "seq-digits", "--seed", seed, "--disable_log", 1)
    sgd = experiment(tmp_path, "--model", "sgd", *words).run()["accuracy"]["class-il"]
    icarl = experiment(tmp_path, "--model", "icarl", "--buffer_size", 200,
                       *words).run()["accuracy"]["class-il"]
    assert sgd < 25 and icarl > 70, (sgd, icarl)
