"""Interval widths, votes and paired tests against scipy, loops and hand-made cases."""
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from npcl_plugin.uncertainty import confidence as c


def random_draws(seed, s=20, n=12, k=4):
    return np.random.default_rng(seed).dirichlet(np.ones(k), size=(s, n))


def test_interval_width_by_hand():
    draws = np.linspace(0, 1, 41)[:, None]  # percentiles 2.5 and 97.5 fall on draws 1 and 39
    assert c.interval_width(draws) == pytest.approx([0.95])
    assert c.interval_width(np.array([[0.3]])) == pytest.approx([0.0])


@given(st.integers(0, 200), st.integers(1, 9))
@settings(max_examples=30)
def test_votes_agree_with_a_count(seed, s):
    draws = random_draws(seed, s, 6, 3)
    first, second = c.votes(draws)
    for i in range(6):
        counts = Counter(int(draws[j, i].argmax()) for j in range(s))
        mean = draws[:, i].mean(0)
        ranked = sorted(range(3), key=lambda k: (-counts[k], -mean[k], k))
        assert (first[i], second[i]) == (ranked[0], ranked[1])


def test_votes_with_one_class():
    first, second = c.votes(np.ones((3, 2, 1)))
    assert first.tolist() == [0, 0] == second.tolist()


@pytest.mark.parametrize("s", [2, 5, 50])
def test_paired_p_is_scipys(s):
    draws = random_draws(3, s)
    expected = stats.ttest_rel(draws[..., 0], draws[..., 1], axis=0).pvalue
    assert c.paired_p(draws[..., 0] - draws[..., 1]) == pytest.approx(expected, rel=1e-9)


def test_paired_p_without_spread_and_with_one_draw():
    assert c.paired_p(np.array([[0.4, 0.0], [0.4, 0.0]])).tolist() == [0.0, 1.0]
    assert np.isnan(c.paired_p(np.array([[0.4, 0.0]]))).all()


def test_instance_values_of_a_hand_made_sample():
    draws = np.array([[[0.7, 0.2, 0.1]], [[0.5, 0.4, 0.1]], [[0.3, 0.6, 0.1]]])  # votes 2 : 1 : 0
    values = c.instance_values(draws, np.array([1]))
    assert values["vote"].tolist() == [0]
    assert values["differences"][:, 0] == pytest.approx([0.5, 0.1, -0.3])
    assert values["piw"][0] == pytest.approx(0.95 * 0.4)
    assert values["t_p"][0] == pytest.approx(stats.ttest_rel([.7, .5, .3], [.2, .4, .6]).pvalue)


def test_groups_by_hand():
    piw, vote = np.array([0.1, 0.3, 0.8, 0.6]), np.array([0, 1, 1, 0])
    found = c.grouped(piw, vote, np.array([0.01, 0.2, 0.001, np.nan]), np.array([0, 1, 0, 1]))
    assert found["piw_correct"] == pytest.approx(0.2)
    assert found["piw_incorrect"] == pytest.approx(0.7)
    assert (found["n_rejected"], found["n_not_rejected"]) == (2, 1)
    assert found["accuracy_rejected"] == 0.5 and found["accuracy_not_rejected"] == 1.0


@pytest.mark.parametrize("right", [True, False])
def test_all_correct_and_all_wrong_leave_one_group_empty(right):
    labels = np.zeros(3, int)
    found = c.grouped(np.full(3, 0.2), labels if right else labels + 1, np.zeros(3), labels)
    filled, empty = ("piw_correct", "piw_incorrect")[::1 if right else -1]
    assert found[filled] == pytest.approx(0.2) and math.isnan(found[empty])
    assert math.isnan(found["accuracy_not_rejected"])


def test_classes_partition_the_samples():
    rng = np.random.default_rng(1)
    labels, vote = rng.integers(0, 3, 40) * 2, rng.integers(0, 6, 40)
    columns = c.by_class(rng.random(40), vote, rng.random(40), labels)
    assert columns["label"] == [0, 2, 4]
    assert sum(columns["n_correct"]) == (labels == vote).sum()
    assert sum(columns["n_correct"]) + sum(columns["n_incorrect"]) == 40
    assert c.by_class(*(np.zeros(0),) * 4) == {"label": []}


def test_qq_of_normal_draws_is_a_line_and_of_constants_nothing():
    found = c.qq_points(stats.norm.ppf((np.arange(50) + 0.5) / 50))
    assert found["correlation"] > 0.999 and (np.diff(found["ordered"]) >= 0).all()
    skewed = np.exp(np.random.default_rng(0).normal(size=50) * 2)
    found = c.qq_points(skewed)
    (theoretical, ordered), (_, _, correlation) = stats.probplot(skewed)
    assert found["correlation"] == pytest.approx(correlation) and correlation < 0.9
    np.testing.assert_allclose([found["theoretical"], found["ordered"]], [theoretical, ordered])
    assert c.qq_points(np.ones(50))["ordered"] == []
