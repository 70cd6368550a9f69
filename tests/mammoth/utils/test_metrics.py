"""Transfer and forgetting against hand-computed cases."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from utils.metrics import backward_transfer, forgetting, forward_transfer

MATRIX = [[90.0], [70.0, 80.0], [75.0, 60.0, 95.0]]


def test_backward_transfer_is_end_minus_when_learned():
    assert backward_transfer(MATRIX) == pytest.approx(((75 - 90) + (60 - 80)) / 2)


def test_forgetting_is_best_ever_minus_end():
    assert forgetting(MATRIX) == pytest.approx(((90 - 75) + (80 - 60)) / 2)
    assert forgetting([[50.0], [70.0, 1.0]]) == 0, "getting better is no forgetting"


def test_forgetting_counts_what_was_known_before_learning():
    assert forgetting([[90.0, 85.0], [70.0, 80.0], [75.0, 60.0, 95.0]]) == pytest.approx(
        ((90 - 75) + (85 - 60)) / 2)


def test_forward_transfer_compares_with_the_untrained_network():
    rows = [[90.0, 12.0], [70.0, 80.0, 14.0], [75.0, 60.0, 95.0]]
    assert forward_transfer(rows, [9.0, 10.0, 10.0]) == pytest.approx(((12 - 10) + (14 - 10)) / 2)


def test_single_task_has_nothing_to_transfer():
    assert (backward_transfer([[50.0]]), forgetting([[50.0]]), forward_transfer([[5.0]], [1.0])) \
        == (0, 0, 0)


@given(st.integers(2, 6).flatmap(lambda n: st.tuples(*(
    st.lists(st.floats(0, 100), min_size=i + 1, max_size=i + 1) for i in range(n)))))
def test_forgetting_is_never_negative_and_bounds_backward_transfer(rows):
    assert forgetting(rows) >= 0
    assert forgetting(rows) >= -backward_transfer(rows) - 1e-9
