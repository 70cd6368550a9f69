"""Novelty scores, AUROC and FPR at 95 % against their definitions."""
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from npcl_plugin.uncertainty import novelty as n

GRID = st.integers(0, 6).map(float)  # few values, many ties


@given(arrays(float, st.integers(1, 25), elements=GRID),
       arrays(float, st.integers(1, 25), elements=GRID))
@settings(max_examples=60)
def test_auroc_counts_pairs_and_fpr_walks_thresholds(inside, outside):
    wins = np.mean([(o > i) + 0.5 * (o == i) for i in inside for o in outside])
    assert n.auroc(inside, outside) == pytest.approx(wins)
    assert n.auroc(outside, inside) == pytest.approx(1 - wins)
    threshold = min(t for t in inside if (inside <= t).mean() >= 0.95 - 1e-12)
    assert n.fpr_at_95(inside, outside) == pytest.approx((outside <= threshold).mean())


def test_perfect_separation_and_none():
    assert n.auroc(np.arange(5), np.arange(5) + 10) == 1
    assert n.fpr_at_95(np.arange(5), np.arange(5) + 10) == 0
    assert n.auroc(np.ones(4), np.ones(3)) == 0.5
    assert n.fpr_at_95(np.ones(4), np.ones(3)) == 1
    assert math.isnan(n.auroc(np.zeros(0), np.ones(3)))
    assert math.isnan(n.fpr_at_95(np.ones(3), np.zeros(0)))


def test_five_percent_of_twenty_samples_may_be_lost():
    inside = np.r_[np.zeros(19), 9.0]  # 95 % of them are at 0: the outlier does not count
    assert n.fpr_at_95(inside, np.array([0.5, 10.0])) == 0


def test_variances_over_draws_agree_with_loops():
    rng = np.random.default_rng(0)
    draws = rng.dirichlet(np.ones(4), size=(6, 5))  # (S, n, K)
    of_probs, of_entropies = n.variances(draws)
    for i in range(5):
        assert of_probs[i] == pytest.approx(
            np.mean([np.var([draws[s, i, k] for s in range(6)]) for k in range(4)]))
        entropies = [-sum(p * math.log(p) for p in draws[s, i]) for s in range(6)]
        assert of_entropies[i] == pytest.approx(np.var(entropies))


def test_one_draw_and_zero_probabilities_have_no_variance():
    draws = np.array([[[1.0, 0.0], [0.5, 0.5]]])
    of_probs, of_entropies = n.variances(draws)
    assert (of_probs == 0).all() and (of_entropies == 0).all()


def test_scores_grow_with_doubt():
    log_probs = np.log(np.array([[0.98, 0.01, 0.01], [0.4, 0.3, 0.3]])).astype(np.float16)
    scores = n.scores_of({"log_probs": log_probs, "energy": np.array([-5.0, -1.0], np.float32)})
    assert set(scores) == {"max_softmax", "entropy", "energy"}
    assert all(values[1] > values[0] for values in scores.values())
    assert scores["max_softmax"] == pytest.approx([0.02, 0.6], abs=1e-3)


@given(arrays(float, st.integers(1, 30), elements=st.floats(-5, 5)),
       arrays(float, st.integers(1, 30), elements=st.floats(-5, 5)))
@settings(max_examples=30)
def test_histograms_lose_nothing(inside, outside):
    found = n.histogram(inside, outside)
    assert found["id"].sum() == pytest.approx(1) and found["ood"].sum() == pytest.approx(1)
    assert len(found["edges"]) == 21 and (np.diff(found["edges"]) > 0).all()
