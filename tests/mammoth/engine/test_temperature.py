"""`--calibrate N`: samples kept apart, the temperature they give, and what it must not change."""
import math
from argparse import Namespace

import numpy as np
import pytest
import torch
from runs import experiment
from scipy.optimize import brentq

from asking import load_model
from datasets.seq_digits import SequentialDigits
from datasets.utils.digits import load_digits
from engine.calibration import PRIOR_SD, calibrate, fit_temperature
from engine.errors import UsageError
from engine.identity import run_key
from utils.evaluate import evaluate


def test_two_equal_scores_have_a_closed_form():
    """Scores (s, 0), right k times of n: without a prior sigmoid(s / T) = k / n."""
    n, right, score = 40_000, 30_000, 4.0
    outputs = torch.tensor([[score, 0.0]]).expand(n, 2)
    labels = (torch.arange(n) >= right).long()
    wanted = score / math.log(right / (n - right))
    assert fit_temperature(outputs, labels) == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("count, scale", [(20, 3.0), (50, 0.3), (5, 10.0)])
def test_temperature_is_where_the_posterior_is_level(count, scale):
    """Against the root of the derivative, by numpy."""
    outputs = scale * torch.randn(count, 4)
    labels = torch.where(torch.rand(count) < 0.7, outputs.argmax(1), torch.randint(4, (count,)))
    scores, rows = outputs.double().numpy(), np.arange(count)

    def slope(log_t):
        tempered = scores / math.exp(log_t)
        probs = np.exp(tempered - tempered.max(1, keepdims=True))
        probs /= probs.sum(1, keepdims=True)
        gap = tempered[rows, labels.numpy()] - (probs * tempered).sum(1)  # of log T, each sample
        return gap.sum() + log_t / PRIOR_SD ** 2

    assert math.log(fit_temperature(outputs, labels)) == pytest.approx(brentq(slope, -3, 3),
                                                                       abs=1e-4)


def test_a_few_right_answers_do_not_make_it_certain():
    outputs = 5 * torch.eye(3)
    assert 0.3 < fit_temperature(outputs, torch.arange(3)) < 1


def test_samples_kept_apart_are_never_trained_on_and_give_way():
    args = Namespace(dataset="seq-digits", seed=0, batch_size=32, calibrate=12)
    dataset, whole = SequentialDigits(args), SequentialDigits(Namespace(**vars(args) | {
        "calibrate": None}))
    for task in range(dataset.N_TASKS):
        dataset.get_data_loaders()
        whole.get_data_loaders()
        stream, everything = (set(d.train_loader.dataset.indexes.tolist())
                              for d in (dataset, whole))
        newest = dataset.kept_apart[-1].dataset
        assert stream <= everything and len(everything - stream) == 12
        assert set(newest.indexes.tolist()) <= everything - stream
        assert [len(loader.dataset.targets) for loader in dataset.kept_apart] \
            == [12 // (task + 1)] * (task + 1)
        images, labels = next(iter(dataset.kept_apart[-1]))
        rows = torch.from_numpy(newest.indexes)
        raw, truth = load_digits(True)
        assert torch.equal(labels, truth[rows])
        assert torch.equal(images[:, 0], raw[rows].float() / 255)


@pytest.mark.parametrize("model, more", [("er", ("--buffer_size", 60)), ("sgd", ()),
                                         ("npcl_plus", ("--buffer_size", 60, "--n_global", 2))])
def test_accuracies_stay_and_answers_are_tempered(tmp_path, model, more):
    run = experiment(tmp_path, "--model", model, "--dataset", "seq-digits", "--n_epochs", 1,
                     "--lr", 0.1, "--stop_after", 2, "--savecheck", "last", "--calibrate", 20,
                     *more)
    run.run()
    images = load_digits(False)[0][:100]
    found = run.model.temperature
    loaded = load_model(next((tmp_path / "checkpoints").glob("*_last.pt")))
    warm, accuracies = loaded.ask(images), evaluate(run.model, run.dataset)
    run.model.temperature = loaded.model.temperature = 1.0
    plain = loaded.ask(images)
    assert evaluate(run.model, run.dataset) == accuracies
    assert found != 1
    assert (warm.label == plain.label).all()
    tempered = plain.probabilities ** (1 / found)
    assert warm.probabilities == pytest.approx(tempered / tempered.sum(1, keepdims=True), abs=1e-5)
    if plain.interval is not None:
        assert not np.allclose(warm.interval, plain.interval)
    calibrate(run.model, run.dataset)
    assert run.model.temperature == pytest.approx(found)


def test_a_fixed_temperature_divides_outputs_and_gives_way_to_a_fitted_one(tmp_path):
    common = ("--model", "er", "--dataset", "seq-digits", "--n_epochs", 1, "--lr", 0.1,
              "--stop_after", 1, "--buffer_size", 20)
    plain, warm, fitted = (experiment(tmp_path / name, *common, *more) for name, more in (
        ("plain", ()), ("warm", ("--temperature", 2)),
        ("fitted", ("--temperature", 2, "--calibrate", 20))))
    for run in (plain, warm, fitted):
        run.run()
    images = load_digits(False)[0][:20].unsqueeze(1).float() / 255
    assert torch.equal(warm.model(images), plain.model(images) / 2)
    assert fitted.model.temperature not in (1, 2)


def test_it_makes_another_run():
    plain = {"model": "er", "dataset": "seq-digits", "lr": 0.1}
    assert run_key({**plain, "calibrate": None}) == run_key(plain) != run_key(
        {**plain, "calibrate": 20}) != run_key({**plain, "temperature": 2.0})


def test_nothing_left_or_nothing_kept_is_said():
    dataset = SequentialDigits(Namespace(dataset="seq-digits", seed=0, batch_size=32,
                                         calibrate=10_000))
    with pytest.raises(UsageError, match="leaves nothing to train on: task 1"):
        dataset.get_data_loaders()
    with pytest.raises(UsageError, match="store_masked_loaders"):
        calibrate(Namespace(), dataset)
