"""`--uncertainty 1`: what a run saves after each epoch, after each task and at its end.

Each file is made from the model's state alone and written whole, so a run that was killed and
resumed writes the same files again.
"""
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from npcl_plugin.contract import outputs_of, usage_error
from npcl_plugin.plan import Draws
from npcl_plugin.tasks import tasks_of
from npcl_plugin.uncertainty import attention, cost, predictions
from npcl_plugin.uncertainty.files import FOLDER, load_arrays, save_arrays, save_json
from npcl_plugin.uncertainty.latent_measures import l1_norms
from npcl_plugin.uncertainty.latent_records import distributions, stored, unit_kl
from npcl_plugin.uncertainty.novel_data import Novel, novel_for
from npcl_plugin.uncertainty.np_context import head_count
from npcl_plugin.uncertainty.predictions import evenly_spaced, is_np
from npcl_plugin.uncertainty.printing import table
from npcl_plugin.uncertainty.summary import write_summary

_COST_IMAGES = 500


class Recorder:
    """The extension of a run; see the harness's `engine.extensions`.

    Raises:
        an error of usage: there is no run folder to write into, or nothing to sample.
    """

    name = FOLDER

    def __init__(self, args: Namespace) -> None:
        if getattr(args, "disable_log", False):
            raise usage_error("--uncertainty 1 writes into the run's folder, but --disable_log 1 "
                              "asks for none; drop one of them.")
        if args.uncertainty_draws < 1 or args.uncertainty_samples < 0:
            raise usage_error("Expected --uncertainty_draws of at least 1 and "
                              "--uncertainty_samples of at least 0, but got "
                              f"{args.uncertainty_draws} and {args.uncertainty_samples}.")
        self.args = args

    def after_epoch(self, run: Any, task: int, epoch: int) -> None:
        """NP family: add the epoch to the norms of the task's latent distributions."""
        context = run.model.predictor.context() if is_np(run.model) else None
        if context is None:
            return
        path = _folder(run) / f"latents_{task:02d}.npz"
        row = {"epoch": np.int32(epoch), **l1_norms(distributions(run.model, context))}
        before = load_arrays(path) if epoch and path.exists() else None
        columns = {name: np.asarray(value)[None] for name, value in row.items()}
        if before is not None and before["task_mean"].shape[1] == columns["task_mean"].shape[1]:
            kept = before["epoch"] < epoch
            columns = {name: np.concatenate((before[name][kept], value))
                       for name, value in columns.items()}
        save_arrays(path, columns)

    def after_task(self, run: Any, task: int) -> None:
        """Ask the model about every task so far, and about novel data."""
        folder = _folder(run)
        arrays = self.known_arrays(run)
        novel = novel_for(self.args.novel_data, run.dataset)
        if novel.data is not None:
            save_arrays(folder / f"novel_{task:02d}.npz", self.novel_arrays(run, novel))
        if is_np(run.model) and (context := run.model.predictor.context()) is not None:
            save_arrays(folder / f"context_{task:02d}.npz",
                        self.context_arrays(run, context, arrays))
        save_json(folder / "run.json", describe_run(run, novel))
        save_arrays(folder / f"task_{task:02d}.npz", arrays)

    def finish(self, run: Any) -> dict[str, Any]:
        """Measure costs, then everything from the files; the part that tables show."""
        images, labels = self.cost_samples(run)
        model, n_seen = run.model, run.dataset.get_offsets()[1]
        last = len(run.dataset.test_loaders) - 1
        measured = cost.measure(model, images, labels, n_seen,
                                lambda x: outputs_of(model, x, last))
        measured["parameters"] = sum(p.numel() for p in model.get_parameters())
        rows = getattr(self.args, "buffer_size", None) or 0
        measured["storage"] = cost.storage(model, rows, run.dataset.N_CLASSES)
        save_json(_folder(run) / "cost.json", measured)
        self.run_folder = run.folder.path
        summary = write_summary(run.folder.path)
        return {"summary": f"{FOLDER}/summary.json", "headline": summary["headline"],
                "notes": summary["notes"]}

    def describe(self, values: dict[str, Any]) -> str:
        """A short table; the report and `python -m npcl_plugin.uncertainty` explain it."""
        return table(values, self.run_folder)

    def known_arrays(self, run: Any) -> dict[str, np.ndarray]:
        """What the model says about the tasks seen so far."""
        model, sets = run.model, self.known_sets(run)
        n_seen = run.dataset.get_offsets()[1]
        parts = [predictions.answers(model, data, rows, task, n_seen)
                 | {"tasks": np.full(len(rows), task)} for task, data, rows in sets]
        if is_np(model):
            for part, (_, data, rows) in zip(parts, sets, strict=True):
                heads = true_heads(model, part)
                if head_count(model) > 1:
                    part["tasks"] = heads.numpy()
                part |= predictions.head_arrays(model, data, rows, self.draws(model), n_seen, heads)
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        if is_np(model):
            predictions.choose_for_qq(joined)
        return predictions.compact(joined)

    def known_sets(self, run: Any) -> list[tuple[int, Any, torch.Tensor]]:
        """Task, test set and chosen rows; tasks without a test sample are left out."""
        loaders = enumerate(run.dataset.test_loaders)
        return [(task, loader.dataset,
                 evenly_spaced(len(loader.dataset), self.args.uncertainty_samples))
                for task, loader in loaders if len(loader.dataset)]

    def novel_arrays(self, run: Any, novel: Novel) -> dict[str, np.ndarray]:
        """What the model says about novel images."""
        model, n_seen = run.model, run.dataset.get_offsets()[1]
        rows = evenly_spaced(len(novel.data), self.args.uncertainty_samples)
        task = len(run.dataset.test_loaders) - 1
        arrays = predictions.answers(model, novel.data, rows, task, n_seen)
        del arrays["labels"]
        if is_np(model):
            arrays |= predictions.head_arrays(model, novel.data, rows, self.draws(model), n_seen)
        return predictions.compact(arrays)

    def context_arrays(self, run: Any, context: Any,
                       known: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Units, distributions now and stored, and attention."""
        model = run.model
        arrays = {**unit_kl(model, context), **distributions(model, context), **stored(model)}
        arrays |= {"context_tasks": context.tasks.cpu().numpy(),
                   "context_labels": context.labels.cpu().numpy()}
        if attention.has_attention(model):
            tasks = torch.from_numpy(known["tasks"].astype(np.int64))
            arrays |= attention.arrays(model, context, self.known_sets(run), tasks)
        return predictions.compact(arrays)

    def cost_samples(self, run: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """A few hundred test images of all tasks, and their labels."""
        each = max(_COST_IMAGES // len(run.dataset.test_loaders), 1)
        found = [part for _, data, _ in self.known_sets(run)
                 for part in predictions.batches(data, evenly_spaced(len(data), each))]
        return (torch.cat([images for images, _ in found]).to(run.model.device),
                torch.cat([labels for _, labels in found]))

    def draws(self, model: Any) -> Draws:
        """N as `--uncertainty_draws` says, M as in evaluation."""
        return Draws(self.args.uncertainty_draws, model.args.n_task)


def true_heads(model: Any, arrays: dict[str, np.ndarray]) -> torch.Tensor:
    """(n,) the head of each sample's task; 0 where there is one head only."""
    tasks = torch.from_numpy(arrays["tasks"])
    if head_count(model) == 1:
        return torch.zeros_like(tasks)
    if model.class_ends:
        return tasks_of(torch.from_numpy(arrays["labels"]), 0, model.class_ends)
    return tasks


def describe_run(run: Any, novel: Novel) -> dict[str, Any]:
    """What the arrays cannot tell: names, sizes, notes."""
    args, model, dataset = run.args, run.model, run.dataset
    about = {"model": model.NAME, "dataset": dataset.NAME, "setting": dataset.SETTING,
             "seed": args.seed, "buffer_size": getattr(args, "buffer_size", None),
             "n_classes": dataset.N_CLASSES, "class_names": _class_names(dataset),
             "samples_per_task": args.uncertainty_samples, "np_family": is_np(model),
             "draws": None, "head_inference": None, "regularisers": None}
    if is_np(model):
        about |= {"draws": {"answer": list(model.predictor.draws),
                            "uncertainty": [args.uncertainty_draws, model.args.n_task]},
                  "head_inference": model.predictor.mode,
                  "regularisers": {"gamma": model.args.gamma, "delta": model.args.delta}}
    notes = [f"Novel data: {novel.description}."] if novel.data is not None else []
    notes += [novel.why] if novel.why else []
    return {"run": about, "novel": {"data": novel.name, "description": novel.description},
            "notes": notes}


def _class_names(dataset: Any) -> list[str] | None:
    try:
        return list(dataset.get_class_names())
    except NotImplementedError:
        return None


def _folder(run: Any) -> Path:
    return Path(run.folder.path) / FOLDER
