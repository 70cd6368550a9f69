"""Small result folders for the report's tests: runs as main.py leaves them."""
import json
import math
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "utils" / "report.py"
SCORES = ["max_softmax", "entropy", "energy", "variance_softmax", "variance_entropy"]


def triangle(tasks, top, step):
    """R[i][j] that falls with every task since j."""
    return [[top - step * (i - j) - 0.3 * j for j in range(i + 1)] for i in range(tasks)]


def write_run(folder, model="er", dataset="perm-digits", seed=0, buffer=200, tasks=3, top=95.0,
              measures=None, setting="domain-il", name=None, **arguments):
    """One finished run; returns its folder."""
    path = folder / "runs" / dataset / model.replace("/", "-") / (name or f"run-{buffer}-{seed}")
    path.mkdir(parents=True)
    matrix = triangle(tasks, top + seed, 4.0)
    accuracy = {setting: sum(matrix[-1]) / tasks}
    matrices = {setting: matrix}
    if setting == "class-il":
        matrices["task-il"] = triangle(tasks, 99.0, 0.5)
        accuracy["task-il"] = sum(matrices["task-il"][-1]) / tasks
    result = {"model": model, "dataset": dataset, "setting": setting, "seed": seed,
              "buffer_size": buffer, "accuracy": accuracy, "accuracy_matrix": matrices,
              "transfer": {"backward_transfer": {k: -6.0 - seed for k in matrices},
                           "forgetting": {k: 6.5 for k in matrices}},
              "seconds": 12.5 + seed, "n_parameters": 1234, "peak_memory_mb": 300.5}
    args = {"model": model, "dataset": dataset, "seed": seed, "buffer_size": buffer, **arguments}
    command = f"python mammoth/main.py --model {model} --dataset {dataset} --seed {seed}"
    (path / "result.json").write_text(json.dumps(result))
    (path / "args.json").write_text(json.dumps({"args": args, "command": command}))
    (path / "metrics.jsonl").write_text('{"event": "task", "task": 0}\n')
    if measures:
        (path / "uncertainty").mkdir()
        (path / "uncertainty" / "summary.json").write_text(json.dumps(measures))
    return path


def wave(count, low, high):
    """Numbers between two bounds that are not all alike."""
    return [low + (high - low) * (0.5 + 0.5 * math.sin(1.7 * i)) for i in range(count)]


def _calibration(tasks):
    names = ("accuracy", "confidence", "entropy", "ece", "ace_classwise", "ace_top_equal_mass",
             "nll", "brier", "rejection_area")
    edges = [i / 15 for i in range(16)]
    bins = {"low": edges[:-1], "high": edges[1:], "count": [0] + [40] * 14,
            "confidence": [None] + [e + 0.03 for e in edges[1:-1]],
            "accuracy": [None] + [e for e in edges[1:-1]]}
    shares = [i / 50 for i in range(50)] + [0.99]
    return {"after_task": {name: wave(tasks, 0.1, 0.4) for name in names},
            "by_task": {name: triangle(tasks, 0.9, 0.01) for name in names[:4]},
            "reliability": {"equal_width": bins, "equal_mass": bins},
            "rejection": {"rejected": shares, "accuracy": [0.7 + 0.3 * s for s in shares],
                          "best": [min(1, 0.7 / max(1 - s, 0.01)) for s in shares]}}


def _confidence(classes):
    names = ("accuracy", "piw_correct", "piw_incorrect", "accuracy_rejected",
             "accuracy_not_rejected", "n_correct", "n_incorrect", "n_rejected", "n_not_rejected")
    part = {name: (100 if name.startswith("n_") else 0.3) for name in names}
    part["by_class"] = {"label": list(range(classes)),
                        **{name: [part[name]] * classes for name in names}}
    part["by_class"]["piw_incorrect"] = [None] * classes
    draws = wave(50, 0.1, 0.5)
    return {"n_draws": 50, "significance": 0.05, "true_head": part, "answering_head": part,
            "qq": [{"task": 0, "label": i, "theoretical": wave(50, -2, 2), "ordered": sorted(draws),
                    "correlation": 0.98} for i in range(16)]}


def _latents(tasks):
    rows = [wave(i + 1, 1, 3) for i in range(tasks)]
    return {"epochs": {"task": list(range(tasks)), "epoch": [0] * tasks,
                       "global_mean": wave(tasks, 2, 5), "global_sd": wave(tasks, 4, 6),
                       "task_mean": rows, "task_sd": rows},
            "units": {"global": wave(32, -3, 0), "tasks": [wave(32, -3, 0)] * tasks},
            "active_global": [9] * tasks, "active_tasks": [8] * tasks, "n_units": 32,
            "threshold": 0.01, "drift": {"kl": rows, "w2": rows, "global_kl": [None] * tasks,
                                         "global_w2": [None, *wave(tasks - 1, 0, 1)]}}


def summary(tasks=3, classes=10, np_family=True):
    """An uncertainty summary with every section of docs/uncertainty-format.md."""
    scores = SCORES if np_family else SCORES[:3]
    histogram = {"edges": [i / 20 for i in range(21)], "id": [0.05] * 20, "ood": wave(20, 0, 0.1)}
    lines = {score: wave(tasks, 0.5, 0.9) for score in scores}
    square = [[0.9 if i == j else 0.2 for j in range(tasks)] for i in range(tasks)]
    found = {
        "format": 1, "run": {"model": "npcl", "n_tasks": tasks, "class_names": None,
                             "regularisers": {"gamma": 0.1, "delta": 0.0},
                             "head_inference": "entropy", "samples_per_task": 100},
        "definitions": {"ece": "15 bins of equal width.", "ace_classwise": "Nixon et al."},
        "notes": ["Novel data is inverted."],
        "headline": {"accuracy": 0.8, "ece": 0.1234, "ace_classwise": 0.0456, "nll": 0.9,
                     "head_inference_accuracy": 0.61 if np_family else None},
        "calibration": _calibration(tasks),
        "transfer": {"tasks": list(range(tasks - 1)), "accuracy": wave(tasks - 1, -0.3, 0),
                     "entropy": wave(tasks - 1, 0, 0.4), "mean_accuracy": -0.1,
                     "mean_entropy": 0.2, "pearson": None, "pearson_p": None, "spearman": -0.9,
                     "spearman_p": 0.01},
        "novelty": {"data": "inverted", "description": "", "n_id": 300, "n_ood": 100,
                    "scores": scores, "auroc": lines, "fpr95": lines, "mean_id": lines,
                    "mean_ood": lines, "histogram": dict.fromkeys(scores, histogram)},
        "heads": None, "confidence": None, "latents": None, "attention": None,
        "cost": {"parameters": 1, "storage": {"stored": 5, "der": 10, "gain_percent": 50.0},
                 "answer": {"images": 100, "seconds": 0.5}, "context": None, "draws": None}}
    if np_family:
        found |= {
            "heads": {"accuracy": square, "entropy": square, "true_head_lowest": 1.0,
                      "confusion": [[50] * tasks for _ in range(tasks)],
                      "inference_accuracy": wave(tasks, 0.5, 1)},
            "confidence": _confidence(classes), "latents": _latents(tasks),
            "attention": {"n_context": 200, "own_share": wave(tasks, 0, 0.5),
                          "own_share_by_chance": [1 / tasks] * tasks,
                          "queries": [{"task": 0, "label": 1, "predicted": 1, "tasks": [0] * 15,
                                       "labels": [1] * 15, "weights": wave(15, 0, 0.1)}] * 4,
                          "self_attention": {"map": [wave(40, 0, 0.1)] * 40, "tasks": [0] * 40}}}
        found["cost"] |= {
            "context": {"size": [0, 10, 200], "accuracy": [0.2, 0.5, 0.6],
                        "entropy": [1.0, 0.5, 0.4], "seconds": [0.1, 0.2, 0.4]},
            "draws": {"N": [1, 10], "M": [1, 5], "accuracy": [[0.5, 0.6], [0.7, 0.8]],
                      "seconds": [[0.1, 0.5], [1.0, 5.0]]}}
    return found
