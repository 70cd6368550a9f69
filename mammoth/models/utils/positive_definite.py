"""Solving with a Gram or covariance matrix, which is positive definite but for rounding."""
import torch

from engine.errors import RunError


def solve_positive(matrix: torch.Tensor, right: torch.Tensor, remedy: str) -> torch.Tensor:
    """The solution X of matrix @ X = right, by Cholesky.

    Args:
        matrix: (F, F), symmetric; only its lower triangle is read.
        right: (F, C).
        remedy: the argument that makes the matrix better conditioned.

    Raises:
        RunError: the matrix is singular to working precision.
    """
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if failed:
        raise RunError(f"The features are linearly dependent, so there is no unique solution; "
                       f"raise {remedy}.")
    return torch.cholesky_solve(right, factor)
