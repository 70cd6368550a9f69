"""How images look: closed forms, novel ones, and that no answer changes."""
import json
import math

import pytest
import torch
from runs import experiment

from npcl_plugin.contract import usage_error_type
from npcl_plugin.looks import Looks, statistics
from npcl_plugin.uncertainty.novelty import auroc


def test_statistics_are_mean_deviation_and_differences_of_neighbours():
    image = torch.tensor([[[[0.0, 2.0], [4.0, 4.0]]]])
    found = statistics(torch.cat((image, 2 * image), 1))
    one = [2.5, math.sqrt(2.75), 1.0, 3.0]
    expected = torch.tensor([value * k for value in one for k in (1, 2)])
    torch.testing.assert_close(found[0], expected)


def slow_unlikeness(images, labels, asked):
    found = statistics(images).double()
    means = {int(c): found[labels == c].mean(0) for c in labels.unique()}
    rest = torch.stack([row - means[int(c)] for row, c in zip(found, labels, strict=True)])
    spread = rest.square().mean(0).sqrt()
    correlation = (rest / spread).t() @ (rest / spread) / len(rest)
    correlation = 0.95 * correlation + 0.05 * torch.eye(len(spread)).double()
    precision = torch.linalg.inv(correlation)
    said = []
    for row in statistics(asked).double():
        distances = [(row - mean) / spread @ precision @ ((row - mean) / spread) / len(spread)
                     for mean in means.values()]
        said.append(min(distances) / (1 + min(distances)))
    return torch.stack(said).float()


@pytest.fixture
def images():
    torch.manual_seed(0)
    labels = torch.arange(60) % 3
    return torch.randn(60, 2, 5, 5) * 0.3 + labels.view(-1, 1, 1, 1), labels


def test_unlikeness_is_the_distance_to_the_nearest_class(images):
    x, labels = images
    asked = torch.cat((x[:5], torch.randn(5, 2, 5, 5) * 2))
    torch.testing.assert_close(Looks.of(x, labels).unlikeness(asked),
                               slow_unlikeness(x, labels, asked), rtol=1e-4, atol=1e-5)


def test_images_that_never_differ_leave_everything_finite():
    looks = Looks.of(torch.zeros(8, 1, 4, 4), torch.zeros(8, dtype=torch.long))
    said = looks.unlikeness(torch.stack((torch.zeros(1, 4, 4), torch.ones(1, 4, 4))))
    assert said[0] == 0 and said.isfinite().all() and said[1] > 0.9


def test_looks_tell_novel_images_and_change_no_answer(tmp_path):
    runs = []
    for by in ("features", "looks"):
        runs.append(experiment(tmp_path / by, "--model", "npcl_plus", "--dataset", "seq-digits",
                               "--buffer_size", 40, "--n_epochs", 1, "--novelty_by", by,
                               "--input_memory", 0, "--disable_log", 1))
        assert runs[-1].model.predictor.prepared().looks is None  # nothing is known yet
        runs[-1].run()
    states = [run.model.net.state_dict().values() for run in runs]
    assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))
    images = runs[1].dataset.test_loaders[0].dataset.dataset.fetch(torch.arange(50))[0]
    plain, said = (run.model.eval().predict(images) for run in runs)
    assert torch.equal(plain.probs, said.probs)
    model = runs[1].model
    looks = Looks.of(model.normalise(model.buffer.examples), model.buffer.labels)
    entropy = -(said.probs * said.probs.log()).sum(1) / math.log(10)
    torch.testing.assert_close(said.distance, looks.unlikeness(images) * entropy)
    novel = model.predict(torch.rand_like(images)).distance
    assert auroc(said.distance.numpy(), novel.numpy()) > 0.95
    assert ((novel >= 0) & (novel <= 1)).all()


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_a_small_context_or_none_leaves_everything_finite(tmp_path, size):
    run = experiment(tmp_path, "--model", "npcl_plus", "--dataset", "seq-digits", "--buffer_size",
                     20, "--n_epochs", 1, "--stop_after", 1, "--novelty_by", "looks",
                     "--input_memory", 0, "--disable_log", 1)
    run.run()
    run.model.predictor.context_size = size
    images = run.model.buffer.examples[:3]
    said = run.model.eval().predict(images).distance
    assert said is None if size == 0 else said.isfinite().all()


def test_a_run_with_looks_is_recorded_to_its_end(tmp_path):
    run = experiment(tmp_path, "--model", "npcl_plus", "--dataset", "seq-digits", "--buffer_size",
                     20, "--n_epochs", 1, "--stop_after", 2, "--novelty_by", "looks",
                     "--uncertainty", 1, "--uncertainty_samples", 50)
    run.run()
    (summary,) = tmp_path.glob("**/uncertainty/summary.json")
    found = json.loads(summary.read_text())
    assert len(found["novelty"]["auroc"]["distance"]) == 2 and found["cost"]["context"]


def test_vectors_have_no_looks(tmp_path):
    run = experiment(tmp_path, "--model", "npcl_plus", "--dataset", "seq-digits", "--buffer_size",
                     40)
    run.dataset.SIZE = (64,)
    run.args.novelty_by = "looks"
    with pytest.raises(usage_error_type(), match="is about images"):
        type(run.model)(run.model.net.backbone, None, run.args, None, run.dataset)
