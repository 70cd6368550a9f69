"""What the deterministic path looks at: context points of a query, context among itself.

Appendix H of the paper. Weights are those of the softmax, averaged over the attention's heads.
"""
from typing import Any

import numpy as np
import torch

from npcl_plugin.context import Context
from npcl_plugin.layers.attention import attention_weights
from npcl_plugin.layers.feedforward import FeedForwardPath
from npcl_plugin.uncertainty.predictions import batches, evenly_spaced

TOP = 15
QUERIES = 4
BLOCKS = 40


def has_attention(model: Any) -> bool:
    """Whether the model attends at all (`np` takes the mean)."""
    return bool(model.predictor.net.plan.attention)


@torch.no_grad()
def query_weights(model: Any, features: torch.Tensor, context: Context) -> torch.Tensor:
    """Cross-attention of targets' features (n, F) to the context: (n, m)."""
    path = model.predictor.net.deterministic
    found: torch.Tensor = path.weights(path.summarise(context.x, context.labels), features)
    return found


@torch.no_grad()
def self_weights(model: Any, context: Context) -> torch.Tensor | None:
    """Self-attention of the context: (m, m); None where it has none."""
    path = model.predictor.net.deterministic
    if isinstance(path, FeedForwardPath):
        return None
    rows = path.encoder(context.x, context.labels)
    query, key, _ = path.self_attention.project(rows).chunk(3, dim=-1)
    return attention_weights(query, key, path.self_attention.n_attention_heads)


def own_share(attention: torch.Tensor, tasks: torch.Tensor,
              context_tasks: torch.Tensor) -> torch.Tensor:
    """Mass (n,) of attention (n, m) on context of the query's own task."""
    return (attention * (tasks.unsqueeze(1) == context_tasks)).sum(1)


def top_rows(attention: np.ndarray, count: int = TOP) -> tuple[np.ndarray, np.ndarray]:
    """The most attended context rows and their weights: (q, m) -> (q, <= count) twice."""
    order = np.argsort(-attention, axis=1, kind="stable")[:, :count]
    return order, np.take_along_axis(attention, order, axis=1)


def sorted_map(attention: np.ndarray, context_x: np.ndarray, context_tasks: np.ndarray,
               blocks: int = BLOCKS) -> tuple[np.ndarray, np.ndarray]:
    """Self-attention over the context sorted by mean feature value, averaged into blocks.

    Args:
        attention: (m, m).
        context_x: (m, F).
        context_tasks: (m,).

    Returns:
        The map (k, k) and the most frequent task (k,) of each block; k <= `blocks`.
    """
    order = np.argsort(context_x.mean(1), kind="stable")
    k = min(blocks, len(order))
    edges = np.linspace(0, len(order), k + 1).round().astype(int)
    count = np.diff(edges)
    ordered = attention[np.ix_(order, order)].astype(np.float64)
    sums = np.add.reduceat(np.add.reduceat(ordered, edges[:-1], axis=0), edges[:-1], axis=1)
    tasks = [int(np.bincount(context_tasks[order[a:b]]).argmax())
             for a, b in zip(edges[:-1], edges[1:], strict=True)]
    return sums / np.outer(count, count), np.asarray(tasks)


def arrays(model: Any, context: Context, sets: list[tuple[int, Any, torch.Tensor]],
           tasks: torch.Tensor) -> dict[str, np.ndarray]:
    """What context_XX.npz keeps of the attention.

    Args:
        sets: task, test set and rows of the samples asked about.
        tasks: (n,) of those samples, in order.
    """
    tasks = tasks.to(context.tasks.device)
    chosen = evenly_spaced(len(tasks), QUERIES).to(tasks.device)
    shares, kept, done = [], [], 0
    for _, data, rows in sets:
        for images, _ in batches(data, rows):
            x = model.predictor.net.features(images.to(model.device))
            now = query_weights(model, x, context)
            at = slice(done, done + len(now))
            shares.append(own_share(now, tasks[at], context.tasks))
            kept.append(now[chosen[(chosen >= at.start) & (chosen < at.stop)] - done])
            done = at.stop
    top, weight = top_rows(torch.cat(kept).cpu().numpy())
    found: dict[str, np.ndarray] = {
        "own_share": torch.cat(shares).cpu().numpy().astype(np.float16),
        "query_rows": chosen.cpu().numpy().astype(np.int32), "query_top": top,
        "query_weight": weight}
    among = self_weights(model, context)
    if among is not None:
        found["self_attention"], found["self_tasks"] = sorted_map(
            among.cpu().numpy(), context.x.cpu().numpy(), context.tasks.cpu().numpy())
    return found
