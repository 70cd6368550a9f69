"""What each head of the NP family says about each task, and which one is believed."""
import numpy as np


def _mean_by_task(values: np.ndarray, tasks: np.ndarray, n_tasks: int) -> np.ndarray:
    """(n, H), (n,) -> (H, n_tasks); NaN for a task without samples."""
    owner = (tasks[:, None] == np.arange(n_tasks)).astype(np.float64)  # (n, n_tasks)
    count = owner.sum(0)
    sums = values.T.astype(np.float64) @ owner
    means: np.ndarray = np.divide(sums, count, out=np.full_like(sums, np.nan), where=count > 0)
    return means


def accuracy_map(head_predicted: np.ndarray, labels: np.ndarray, tasks: np.ndarray,
                 n_tasks: int) -> np.ndarray:
    """Share of right answers of every head on every task: (H, n_tasks)."""
    return _mean_by_task(head_predicted == labels[:, None], tasks, n_tasks)


def entropy_map(head_entropy: np.ndarray, tasks: np.ndarray, n_tasks: int) -> np.ndarray:
    """Mean entropy of every head on every task: (H, n_tasks)."""
    return _mean_by_task(head_entropy, tasks, n_tasks)


def confusion(tasks: np.ndarray, head: np.ndarray, n_tasks: int, n_heads: int) -> np.ndarray:
    """How often head h answered for a sample of task t: (n_tasks, H)."""
    cell = tasks.astype(np.int64) * n_heads + head
    return np.bincount(cell, minlength=n_tasks * n_heads).reshape(n_tasks, n_heads)


def inference_accuracy(tasks: np.ndarray, head: np.ndarray) -> float:
    """Share of samples that their own task's head answered."""
    return float(np.mean(tasks == head)) if len(tasks) else float("nan")


def lowest_entropy_head(entropies: np.ndarray) -> np.ndarray:
    """The head of least mean entropy for each task; -1 for a task without samples."""
    known = ~np.isnan(entropies).any(0)
    return np.where(known, np.argmin(np.nan_to_num(entropies, nan=np.inf), axis=0), -1)
