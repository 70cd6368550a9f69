"""The closed-form methods against batch solutions, whatever the order of the samples."""
import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

import main
from engine.errors import UsageError
from models.ranpac import RIDGES, best_ridge, validation_errors
from models.utils.closed_form import UNSEEN

METHODS = ["ncm", "slda", "ranpac"]


def build(method, *words, dataset="seq-digits"):
    args = main.parse_args(["--model", method, "--dataset", dataset, "--seed", "3",
                            "--non_verbose", "1", "--disable_log", "1", *words])
    return main.initialize(args)[:2]


def learn(model, batches):
    for images, labels in batches:
        model.meta_observe(images, labels, images, epoch=0)
    return model


def whole_stream(dataset):
    """All samples of all tasks: images (N, 1, 8, 8) and labels."""
    parts = [dataset.get_data_loaders()[0].dataset.fetch(slice(None))[:2]
             for _ in range(dataset.N_TASKS)]
    return tuple(torch.cat(part) for part in zip(*parts, strict=True))


@pytest.fixture(scope="module")
def stream():
    return whole_stream(build("ncm")[1])


def batches(images, labels, order, size):
    return [(images[rows], labels[rows]) for rows in torch.as_tensor(order).split(size)]


@pytest.mark.parametrize("method", METHODS)
def test_order_and_batches_do_not_matter(method, stream):
    images, labels = stream
    answers = []
    for order, size in ((torch.arange(len(labels)), 100), (torch.randperm(len(labels)), 7)):
        torch.manual_seed(3)
        model = learn(build(method)[0], batches(images, labels, order, size))
        answers.append(model(images[:200]))
    torch.testing.assert_close(*answers, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dataset", ["seq-digits", "perm-digits"])
def test_a_run_gives_the_batch_solution(method, dataset):
    model, benchmark = build(method, dataset=dataset)
    for _ in range(benchmark.N_TASKS):
        loader, _ = benchmark.get_data_loaders()
        model.meta_begin_task(benchmark)
        for images, labels, plain in loader:
            model.meta_observe(images, labels, plain, epoch=0)
        model.meta_end_task(benchmark)
    torch.manual_seed(3)
    batch_model, again = build(method, dataset=dataset)
    images, labels = whole_stream(again)
    learn(batch_model, [(images, labels)])
    torch.testing.assert_close(model(images[:300]), batch_model(images[:300]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_ncm_is_the_nearest_mean(distance, stream):
    images, labels = stream
    model = learn(build("ncm", "--ncm_distance", distance)[0], [stream])
    features = model.features(images)
    means = torch.stack([features[labels == c].mean(0) for c in range(10)])
    if distance == "cosine":
        features, means = (x / x.norm(dim=1, keepdim=True) for x in (features, means))
    nearest = torch.cdist(features, means).argmin(1)
    assert torch.equal(model(images).argmax(1), nearest)


def test_slda_is_linear_discriminant_analysis(stream):
    images, labels = stream
    model = learn(build("slda", "--shrinkage", "0.01")[0], batches(*stream, range(len(labels)), 50))
    features = model.features(images).numpy()
    centred = features - np.stack([features[labels == c].mean(0) for c in range(10)])[labels]
    covariance = 0.99 * centred.T @ centred / len(centred) + 0.01 * np.eye(features.shape[1])
    reference = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(10, 0.1),
                                           covariance_estimator=_Fixed(covariance))
    expected = reference.fit(features, labels.numpy()).predict_log_proba(features)
    np.testing.assert_allclose(model(images).double().log_softmax(1), expected, atol=2e-3)


class _Fixed:
    """A covariance estimator that knows the answer, for each class alike."""

    def __init__(self, covariance):
        self.covariance_ = covariance

    def fit(self, _):
        return self


def test_ranpac_is_ridge_regression(stream):
    images, labels = stream
    model = learn(build("ranpac", "--rp_size", "300", "--ridge", "7")[0],
                  batches(*stream, range(len(labels)), 50))
    hidden = model.project(model.features(images)).numpy()
    targets = np.eye(10)[labels]
    reference = Ridge(alpha=7, fit_intercept=False, solver="cholesky").fit(hidden, targets)
    np.testing.assert_allclose(model(images), reference.predict(hidden), atol=1e-5)


def test_ridge_is_chosen_by_generalised_cross_validation(stream):
    _, labels = stream
    hidden = torch.randn(len(labels), 40, dtype=torch.float64)
    targets = torch.eye(10, dtype=torch.float64)[labels]
    gram, moments, count = hidden.T @ hidden, hidden.T @ targets, torch.tensor(len(labels))
    found = validation_errors(gram, moments, count)
    for ridge in (0.1, 1000.0):
        hat = hidden @ torch.linalg.solve(gram + ridge * torch.eye(40), hidden.T)  # (N, N)
        residual = (targets - hat @ targets).square().sum()
        expected = count * residual / (count - hat.trace()) ** 2
        assert found[RIDGES.index(ridge)] == pytest.approx(float(expected))
    assert best_ridge(gram, moments, count) == RIDGES[int(np.argmin(found))]


@pytest.mark.parametrize("method", METHODS)
def test_classes_without_samples_come_last_and_are_finite(method, stream):
    images, labels = stream
    seen = labels < 4
    model = build(method)[0]
    assert model(images[:5]).isfinite().all()
    learn(model, [(images[seen], labels[seen])])
    scores = model(images)
    assert scores.isfinite().all()
    assert (scores[:, 4:] == UNSEEN).all()
    assert scores.argmax(1).max() < 4


@pytest.mark.parametrize("method", METHODS)
def test_samples_count_once_and_the_network_stays(method, stream):
    model = build(method)[0]
    before = {k: v.clone() for k, v in model.net.state_dict().items()}
    learn(model, [stream])
    first = model(stream[0][:50])
    model.meta_observe(stream[0], stream[1], stream[0], epoch=1)
    assert torch.equal(model(stream[0][:50]), first)
    assert model.counts.sum() == len(stream[1])
    assert all(torch.equal(v, before[k]) for k, v in model.net.state_dict().items())


@pytest.mark.parametrize("words", [["--lr", "0.1"], ["--n_epochs", "2"],
                                   ["--fitting_mode", "early_stopping", "--validation", "10"]])
def test_what_makes_no_sense_is_refused(words):
    with pytest.raises(UsageError, match="closed form"):
        main.parse_args(["--model", "slda", "--dataset", "seq-digits", *words])
