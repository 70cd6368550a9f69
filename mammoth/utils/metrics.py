"""Transfer and forgetting from the accuracy matrix.

R[i][j] is the accuracy on task j after learning task i; row i holds tasks 0..i and, when
forward transfer was measured, task i + 1.
"""
from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def backward_transfer(results: Matrix) -> float:
    """Mean over the old tasks of (accuracy at the end - accuracy when just learned)."""
    last = len(results) - 1
    return _mean([results[last][i] - results[i][i] for i in range(last)])


def forward_transfer(results: Matrix, random_results: Sequence[float]) -> float:
    """Mean over tasks of (accuracy just before learning it - accuracy of the untrained net)."""
    return _mean([results[i - 1][i] - random_results[i] for i in range(1, len(results))])


def forgetting(results: Matrix) -> float:
    """Mean over the old tasks of (best accuracy ever - accuracy at the end)."""
    last = len(results) - 1
    return _mean([max(row[i] for row in results if i < len(row)) - results[last][i]
                  for i in range(last)])


def _mean(values: list[float]) -> float:
    """The mean, 0 for the single-task run that has nothing to transfer."""
    return float(sum(values) / len(values)) if values else 0.0
