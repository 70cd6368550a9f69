"""Calibration against hand-computed cases, naive loops and properties."""
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from npcl_plugin.import_hooks import mend_torchvision
from npcl_plugin.uncertainty import calibration as c


def random_case(seed, n=200, k=5):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(k) * 0.5, size=n)
    return probs, rng.integers(0, k, n)


def top(probs, labels):
    return probs.max(1), probs.argmax(1) == labels


def naive_ece(probs, labels, bins=15):
    total = 0.0
    for b in range(bins):
        low, high = b / bins, (b + 1) / bins
        inside = [i for i, row in enumerate(probs) if low < row.max() <= high]
        if inside:
            accuracy = sum(probs[i].argmax() == labels[i] for i in inside) / len(inside)
            confidence = sum(probs[i].max() for i in inside) / len(inside)
            total += len(inside) / len(probs) * abs(accuracy - confidence)
    return total


def naive_equal_mass(scores, hits, bins, weighted):
    order = sorted(range(len(scores)), key=lambda i: scores[i])
    gaps, weights = [], []
    for part in np.array_split(order, min(bins, len(order))):
        gaps.append(abs(np.mean([hits[i] for i in part]) - np.mean([scores[i] for i in part])))
        weights.append(len(part))
    return np.average(gaps, weights=weights) if weighted else np.mean(gaps)


def test_ece_by_hand():
    # Two samples at 0.9 (one right), two at 0.6 (both right): (|.5-.9| + |1-.6|) / 2.
    probs = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    labels = np.array([0, 1, 0, 0])
    assert c.ece(probs, labels) == pytest.approx(0.4)


@pytest.mark.parametrize("seed", range(3))
def test_ece_agrees_with_naive_bins(seed):
    probs, labels = random_case(seed)
    assert c.ece(probs, labels) == pytest.approx(naive_ece(probs, labels), abs=1e-6)


def test_ece_is_that_of_torchmetrics():
    mend_torchvision()
    from torchmetrics.functional.classification import multiclass_calibration_error

    probs, labels = random_case(3)
    theirs = multiclass_calibration_error(torch.from_numpy(probs), torch.from_numpy(labels),
                                          num_classes=probs.shape[1], n_bins=15, norm="l1")
    assert c.ece(probs, labels) == pytest.approx(float(theirs), abs=1e-6)


def test_ece_is_not_misled_by_a_sum_just_above_one():
    probs, labels = random_case(0)
    above = probs.copy()
    above[0] = [1 + 1e-7, 0, 0, 0, 0]
    probs[0] = [1, 0, 0, 0, 0]
    assert c.ece(above, labels) == pytest.approx(c.ece(probs, labels), abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [1, 7, 150])  # 150 = 10 samples in each of 15 bins
def test_equal_mass_errors_agree_with_naive_bins(seed, n):
    probs, labels = random_case(seed, n)
    confidence, correct = top(probs, labels)
    assert c.ace_top_equal_mass(confidence, correct) == pytest.approx(
        naive_equal_mass(confidence, correct, 15, weighted=True))
    classwise = np.mean([naive_equal_mass(probs[:, k], labels == k, 15, weighted=False)
                         for k in range(probs.shape[1])])
    assert c.ace_classwise(probs, labels) == pytest.approx(classwise)


def test_classwise_ace_by_hand():
    # Two classes, two bins a class. Class 0 sorted: .2 (miss), .4 (hit) | .6 (miss), .8 (hit):
    # |.5 - .3| and |.5 - .7|; class 1 mirrors it.
    probs = np.array([[0.2, 0.8], [0.4, 0.6], [0.6, 0.4], [0.8, 0.2]])
    labels = np.array([1, 0, 1, 0])
    assert c.ace_classwise(probs, labels, bins=2) == pytest.approx(0.2)


def test_the_three_definitions_differ_on_the_same_predictions():
    probs, labels = random_case(5, 600)
    modest = probs.max(1) < 0.7  # too modest below, too sure above: then the bins matter
    labels = np.where(modest, probs.argmax(1), labels)
    values = {round(v, 4) for v in (c.ece(probs, labels), c.ace_classwise(probs, labels),
                                    c.ace_top_equal_mass(*top(probs, labels)))}
    assert len(values) == 3


@given(st.integers(0, 50), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_the_order_of_samples_does_not_matter_even_with_ties(seed, random):
    rng = np.random.default_rng(seed)
    probs = rng.integers(1, 4, (40, 3)) / 4.0
    probs /= probs.sum(1, keepdims=True)
    labels = rng.integers(0, 3, 40)
    order = list(range(40))
    random.shuffle(order)
    confidence, correct = top(probs, labels)
    for measure, parts in ((c.ace_classwise, (probs, labels)),
                           (c.ace_top_equal_mass, (confidence, correct)),
                           (c.rejection_area, (confidence, correct))):
        assert measure(*parts) == pytest.approx(measure(*(part[order] for part in parts)))


@given(arrays(np.float16, (12, 4), elements=st.floats(-100, 0, width=16)))
@settings(max_examples=50)
def test_stored_logarithms_become_probabilities(log_probs):
    probs = c.probabilities(log_probs)
    assert np.allclose(probs.sum(1), 1, atol=1e-12) and (probs >= 0).all()
    assert (c.entropy(probs) >= -1e-12).all() and (c.entropy(probs) <= math.log(4) + 1e-9).all()
    assert 0 <= c.brier(probs, np.zeros(12, int)) <= 2


def test_nll_and_brier_by_hand():
    probs = np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])
    labels = np.array([0, 1])
    assert c.nll(np.log(probs), labels) == pytest.approx(-(math.log(0.5) + math.log(0.2)) / 2)
    first = 0.5 ** 2 + 0.25 ** 2 + 0.25 ** 2
    second = 0.1 ** 2 + 0.8 ** 2 + 0.7 ** 2
    assert c.brier(probs, labels) == pytest.approx((first + second) / 2)


def test_uniform_probabilities_have_the_largest_entropy():
    assert c.entropy(np.full((1, 10), 0.1))[0] == pytest.approx(math.log(10))
    assert c.entropy(np.eye(3)) == pytest.approx(np.zeros(3))


def test_rejection_by_hand():
    confidence = np.array([0.9, 0.8, 0.7, 0.6])
    correct = np.array([True, True, False, True])
    # Kept 1, 2, 3, 4 samples: 1, 1, 2/3, 3/4.
    assert c.rejection_area(confidence, correct) == pytest.approx((1 + 1 + 2 / 3 + 3 / 4) / 4)
    curve = c.rejection(confidence, correct)
    assert curve["accuracy"][0] == pytest.approx(0.75) and curve["accuracy"][-1] == 1
    assert curve["best"][0] == pytest.approx(0.75) and curve["best"][20] == 1
    assert (curve["best"] >= curve["accuracy"] - 1e-12).all()


def test_rejection_with_ties_is_the_mean_over_orders():
    confidence, correct = np.full(3, 0.5), np.array([True, False, False])
    assert c.rejection_area(confidence, correct) == pytest.approx(1 / 3)


@pytest.mark.parametrize("right", [True, False])
def test_all_correct_and_all_wrong(right):
    probs = np.tile([0.75, 0.25], (30, 1))
    labels = np.full(30, 0 if right else 1)
    confidence, correct = top(probs, labels)
    gap = 0.25 if right else 0.75
    assert c.ece(probs, labels) == pytest.approx(gap)
    assert c.ace_top_equal_mass(confidence, correct) == pytest.approx(gap)
    assert c.ace_classwise(probs, labels) == pytest.approx(gap)
    assert c.rejection_area(confidence, correct) == float(right)
    for mass in (True, False):
        bins = c.reliability(confidence, correct, mass)
        assert np.nansum(bins["count"]) == 30
        assert np.nanmax(bins["accuracy"]) == np.nanmin(bins["accuracy"]) == float(right)


def test_one_class_only():
    probs, labels = np.ones((4, 1)), np.zeros(4, int)
    assert c.ece(probs, labels) == 0 == c.ace_classwise(probs, labels)
    assert c.nll(np.log(probs), labels) == 0 == c.brier(probs, labels)


def test_an_empty_task_is_undefined_and_not_an_error():
    probs, labels = np.zeros((0, 3)), np.zeros(0, int)
    none = np.zeros(0)
    for value in (c.ece(probs, labels), c.ace_classwise(probs, labels), c.nll(probs, labels),
                  c.brier(probs, labels), c.ace_top_equal_mass(none, none),
                  c.rejection_area(none, none)):
        assert math.isnan(value)
    assert np.isnan(c.rejection(none, none)["accuracy"]).all()
    assert len(c.reliability(none, none, True)["count"]) == 0
    assert c.reliability(none, none, False)["count"].sum() == 0
    assert c.probabilities(probs).shape == (0, 3)


def test_reliability_bins_reproduce_ece():
    probs, labels = random_case(8)
    bins = c.reliability(*top(probs, labels), equal_mass=False)
    taken = bins["count"] > 0
    gap = np.abs(bins["accuracy"] - bins["confidence"])[taken]
    assert np.average(gap, weights=bins["count"][taken]) == pytest.approx(
        c.ece(probs, labels), abs=1e-6)
    assert np.isnan(bins["accuracy"][~taken]).all()
