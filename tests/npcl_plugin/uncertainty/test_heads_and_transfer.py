"""Per-head maps, head inference and backward transfer against loops and hand-made cases."""
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from npcl_plugin.uncertainty import heads, transfer
from npcl_plugin.uncertainty.measures import MEASURES


@given(st.integers(0, 1000), st.integers(1, 30), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=30)
def test_maps_and_confusion_agree_with_loops(seed, n, n_heads, n_tasks):
    rng = np.random.default_rng(seed)
    tasks, labels = rng.integers(0, n_tasks, n), rng.integers(0, 3, n)
    predicted, entropy = rng.integers(0, 3, (n, n_heads)), rng.random((n, n_heads))
    answered = rng.integers(0, n_heads, n)
    accuracies = heads.accuracy_map(predicted, labels, tasks, n_tasks)
    entropies = heads.entropy_map(entropy, tasks, n_tasks)
    table = heads.confusion(tasks, answered, n_tasks, n_heads)
    for h in range(n_heads):
        for t in range(n_tasks):
            inside = [i for i in range(n) if tasks[i] == t]
            assert table[t, h] == sum(answered[i] == h for i in inside)
            if inside:
                assert accuracies[h, t] == pytest.approx(
                    np.mean([predicted[i, h] == labels[i] for i in inside]))
                assert entropies[h, t] == pytest.approx(np.mean([entropy[i, h] for i in inside]))
            else:
                assert math.isnan(accuracies[h, t]) and math.isnan(entropies[h, t])


def test_the_head_of_least_entropy_and_a_task_without_samples():
    entropies = np.array([[0.1, 0.9, np.nan], [0.5, 0.2, np.nan]])
    assert heads.lowest_entropy_head(entropies).tolist() == [0, 1, -1]


def test_inference_accuracy():
    assert heads.inference_accuracy(np.array([0, 1, 1, 2]), np.array([0, 1, 0, 0])) == 0.5
    assert math.isnan(heads.inference_accuracy(np.zeros(0), np.zeros(0)))


def test_backward_transfer_by_hand():
    rows = [[0.9], [0.7, 0.8], [0.5, 0.9, 1.0]]
    assert transfer.backward_transfer(rows) == pytest.approx([-0.4, 0.1])


def test_backward_transfer_of_a_run_that_started_later():
    rows = [[0.9, 0.8], [0.5, 0.6, 0.7]]  # tasks 0 and 1 were first measured together
    assert transfer.backward_transfer(rows) == pytest.approx([-0.4, -0.2])


def test_one_evaluation_of_many_tasks_says_nothing_about_transfer():
    assert np.isnan(transfer.backward_transfer([[0.5, 0.7, 0.9]])).tolist() == [True, True]


def test_backward_transfer_of_one_task_or_none_is_empty():
    assert len(transfer.backward_transfer([[0.5]])) == 0 == len(transfer.backward_transfer([]))


def test_correlations_by_hand_and_undefined():
    found = transfer.correlations(np.array([-3.0, -2.0, -1.0]), np.array([6.0, 4.0, 2.0]))
    assert found["pearson"] == pytest.approx(-1) and found["spearman"] == pytest.approx(-1)
    for first, second in (([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, np.nan], [1, 2, 3])):
        found = transfer.correlations(np.array(first, float), np.array(second, float))
        assert all(math.isnan(value) for value in found.values())


@given(st.integers(0, 1000), st.integers(3, 12), st.integers(2, 9))
def test_correlations_are_those_of_scipy(seed, n, levels):
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, levels, n).astype(float), rng.integers(0, levels, n) / 7.0
    assume(np.ptp(first) and np.ptp(second))
    found = transfer.correlations(first, second)
    for name, expected in (("pearson", stats.pearsonr(first, second)),
                           ("spearman", stats.spearmanr(first, second))):
        assert found[name] == pytest.approx(expected.statistic, abs=1e-12)
        assert found[f"{name}_p"] == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-7)


def test_accuracies_of_the_true_and_of_other_heads():
    table = [[0.9, 0.3], [0.5, 0.8], [0.1, math.nan]]  # three heads, two tasks
    values = {m.name: m.of({"heads": {"accuracy": table}}) for m in MEASURES
              if m.name.endswith(("true_head_accuracy", "other_heads_accuracy"))}
    assert values == {"true_head_accuracy": pytest.approx(0.85),
                      "other_heads_accuracy": pytest.approx(0.3)}
