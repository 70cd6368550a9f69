"""The parts of summary.json that the NP family alone has: latents and attention."""
from typing import Any

import numpy as np

from npcl_plugin.uncertainty.latent_measures import ACTIVE, active_units, drift, sorted_log_kl

Arrays = dict[str, np.ndarray]
_EPOCHS_OF_EARLIER_TASKS = 10


def latents_section(epochs: dict[int, Arrays], contexts: list[Arrays]) -> dict[str, Any] | None:
    """Norms by epoch, units, drift; None where nothing was recorded."""
    if not contexts:
        return None
    last = contexts[-1]
    drifts = [drift(now["now_task"], now["stored_task"]) for now in contexts]
    moved = [drift(now["now_global"], before["stored_global"])
             for before, now in zip(contexts, contexts[1:], strict=False)]
    return {"epochs": _epochs(epochs),
            "units": {"global": _units(last["kl_global"]),
                      "tasks": [_units(row) for row in last["kl_task"]]},
            "active_global": [active_units(now["kl_global"]) for now in contexts],
            "active_tasks": active_units(last["kl_task"]), "n_units": last["kl_task"].shape[-1],
            "threshold": ACTIVE,
            "drift": {**{name: [row[name] for row in drifts] for name in ("kl", "w2")},
                      **{f"global_{name}": [float("nan"), *(row[name] for row in moved)]
                         for name in ("kl", "w2")}}}


def _units(kl: np.ndarray) -> np.ndarray:
    return np.zeros(0) if np.isnan(kl).any() else sorted_log_kl(kl)


def _epochs(files: dict[int, Arrays]) -> dict[str, list[Any]]:
    """Columns over epochs; earlier tasks are thinned."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("task", "epoch", "global_mean", "global_sd", "task_mean", "task_sd")}
    for task, arrays in files.items():
        count = len(arrays["epoch"])
        kept = count if task == max(files) else min(count, _EPOCHS_OF_EARLIER_TASKS)
        rows = np.linspace(0, count - 1, kept).round().astype(int)
        columns["task"] += [task] * kept
        for name in columns.keys() - {"task"}:
            columns[name] += list(arrays[name][rows])
    return columns


def attention_section(last: Arrays | None, known: Arrays) -> dict[str, Any] | None:
    """Chosen queries, mass on the own task, the map; None without attention."""
    if last is None or "query_top" not in last:
        return None
    context_tasks, tasks = last["context_tasks"], known["tasks"]
    queries = [{"task": int(tasks[row]), "label": int(known["labels"][row]),
                "predicted": int(known["predicted"][row]), "weights": weights,
                "tasks": context_tasks[top], "labels": last["context_labels"][top]}
               for row, top, weights in zip(last["query_rows"], last["query_top"],
                                            last["query_weight"], strict=True)]
    share, present = last["own_share"].astype(np.float64), range(int(tasks.max(initial=-1)) + 1)
    return {"n_context": len(context_tasks), "queries": queries,
            "own_share": [float(share[tasks == task].mean()) if (tasks == task).any()
                          else float("nan") for task in present],
            "own_share_by_chance": [float((context_tasks == task).mean()) for task in present],
            "self_attention": {"map": last["self_attention"], "tasks": last["self_tasks"]}
            if "self_attention" in last else None}
