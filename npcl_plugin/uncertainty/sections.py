"""The parts of summary.json that come from predictions: a function for each question."""
from typing import Any

import numpy as np

from npcl_plugin.uncertainty import calibration, confidence, heads, novelty, transfer

Arrays = dict[str, np.ndarray]


def pooled(arrays: Arrays) -> dict[str, float]:
    """Every measure of calibration, of all samples of a file together."""
    probs, labels, sure, right = _answers(arrays)
    return {**_short(arrays), "ace_classwise": calibration.ace_classwise(probs, labels),
            "ace_top_equal_mass": calibration.ace_top_equal_mass(sure, right),
            "rejection_area": calibration.rejection_area(sure, right)}


def by_task(arrays: Arrays) -> list[dict[str, float]]:
    """The measures that need few samples, for each task up to the newest in the file."""
    per_sample = ("log_probs", "labels", "predicted")
    return [_short({name: arrays[name][arrays["tasks"] == task] for name in per_sample})
            for task in range(int(arrays["tasks"].max(initial=-1)) + 1)]


def _answers(arrays: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, labels, probability of the predicted class, whether it is right."""
    probs = calibration.probabilities(arrays["log_probs"])
    labels, predicted = (arrays[name].astype(np.int64) for name in ("labels", "predicted"))
    return probs, labels, probs[np.arange(len(labels)), predicted], predicted == labels


def _short(arrays: Arrays) -> dict[str, float]:
    probs, labels, sure, right = _answers(arrays)
    if not len(labels):
        return dict.fromkeys(("accuracy", "confidence", "entropy", "ece", "nll", "brier"),
                             float("nan"))
    return {"accuracy": float(right.mean()), "confidence": float(sure.mean()),
            "entropy": float(calibration.entropy(probs).mean()),
            "ece": calibration.ece(probs, labels),
            "nll": calibration.nll(np.log(probs), labels),
            "brier": calibration.brier(probs, labels)}


def calibration_section(files: list[Arrays]) -> dict[str, Any]:
    """Over tasks, task by task, and the two diagrams of the end."""
    whole, parts = [pooled(arrays) for arrays in files], [by_task(arrays) for arrays in files]
    _, _, sure, right = _answers(files[-1])
    names = parts[-1][0] if parts[-1] else {}
    return {"after_task": {name: [row[name] for row in whole] for name in whole[0]},
            "by_task": {name: [[cell[name] for cell in row] for row in parts] for name in names},
            "reliability": {"equal_width": calibration.reliability(sure, right, False),
                            "equal_mass": calibration.reliability(sure, right, True)},
            "rejection": calibration.rejection(sure, right)}


def heads_section(files: list[Arrays]) -> dict[str, Any] | None:
    """Maps of heads against tasks; None where there is one head."""
    last = files[-1]
    if "head" not in last or last["head_entropy"].shape[1] < 2:
        return None
    tasks, labels = last["tasks"].astype(np.int64), last["labels"]
    n_heads = last["head_entropy"].shape[1]
    n_tasks = int(tasks.max(initial=-1)) + 1
    entropies = heads.entropy_map(last["head_entropy"], tasks, n_tasks)
    table = heads.confusion(tasks, last["head"], n_tasks, n_heads)
    lowest = heads.lowest_entropy_head(entropies)
    own = np.divide(np.diagonal(table), table.sum(1)[:n_heads],
                    out=np.full(min(table.shape), np.nan), where=table.sum(1)[:n_heads] > 0)
    known = lowest >= 0
    return {"accuracy": heads.accuracy_map(last["head_predicted"], labels, tasks, n_tasks),
            "entropy": entropies, "confusion": table,
            "inference_accuracy": [heads.inference_accuracy(f["tasks"], f["head"]) for f in files],
            "inference_accuracy_by_task": own, "lowest_entropy_head": lowest,
            "true_head_lowest": float((lowest == np.arange(n_tasks))[known].mean())}


def transfer_section(by_task_values: dict[str, list[Any]]) -> dict[str, Any]:
    """Backward transfer of accuracy and entropy and how they go together."""
    moved = {name: transfer.backward_transfer(by_task_values.get(name, []))
             for name in ("accuracy", "entropy")}
    means = {f"mean_{name}": float(np.nanmean(values)) if np.isfinite(values).any()
             else float("nan") for name, values in moved.items()}
    return {"tasks": list(range(len(moved["accuracy"]))), **moved, **means,
            **transfer.correlations(moved["accuracy"], moved["entropy"])}


def novelty_section(pairs: list[tuple[Arrays, Arrays]], about: dict[str, Any]) \
        -> dict[str, Any] | None:
    """Known against novel after each task: (known, novel) files; None without any."""
    if not pairs:
        return None
    scores = [(novelty.scores_of(known), novelty.scores_of(novel)) for known, novel in pairs]
    names = list(scores[-1][0])

    def over_tasks(function: Any) -> dict[str, list[Any]]:
        return {name: [function(known[name], novel[name]) for known, novel in scores]
                for name in names}

    inside, outside = scores[-1]
    return {**about, "n_id": len(pairs[-1][0]["predicted"]),
            "n_ood": len(pairs[-1][1]["predicted"]), "scores": names,
            "auroc": over_tasks(novelty.auroc), "fpr95": over_tasks(novelty.fpr_at_95),
            "mean_id": over_tasks(lambda known, novel: float(known.mean())),
            "mean_ood": over_tasks(lambda known, novel: float(novel.mean())),
            "histogram": {name: novelty.histogram(inside[name], outside[name])
                          for name in names}}


def confidence_section(last: Arrays) -> dict[str, Any] | None:
    """Widths and tests at the end, under the true and the answering head; None without draws."""
    if "piw" not in last:
        return None
    found: dict[str, Any] = {"n_draws": last["qq_differences"].shape[1],
                             "significance": confidence.SIGNIFICANCE}
    for column, name in enumerate(("true_head", "answering_head")):
        values = (*(last[part][:, column] for part in ("piw", "vote", "t_p")), last["labels"])
        found[name] = {**confidence.grouped(*values), "by_class": confidence.by_class(*values)}
    found["qq"] = [{"task": int(last["tasks"][row]), "label": int(last["labels"][row]),
                    **confidence.qq_points(differences)}
                   for row, differences in zip(last["qq_rows"], last["qq_differences"],
                                               strict=True)]
    return found
