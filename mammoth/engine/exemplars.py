"""Exemplar memories: filled class by class after a task, trained on together with the next.

Used by methods that keep the same number of samples for every class (iCaRL, LUCIR, BiC, GEM).
"""
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from engine.errors import UsageError

if TYPE_CHECKING:
    from backbone.base import MammothBackbone
    from utils.buffer import Buffer

Rows = dict[str, torch.Tensor]


@torch.no_grad()
def fill_buffer(buffer: "Buffer", dataset: Any, t_idx: int, net: "MammothBackbone | None" = None,
                use_herding: bool = False, required_attributes: Sequence[str] | None = None,
                normalize_features: bool = False, extend_equalize_buffer: bool = False) -> None:
    """Divide the memory evenly among the classes seen up to and including task `t_idx`.

    Exemplars of earlier classes are cut to the new share, the first ones staying; the rest
    comes from the training data of the current task. Samples that `icarl_replay` mixed into
    that data are taken out again.

    Args:
        buffer: the memory; its size goes back to `dataset.args.buffer_size`.
        dataset: the benchmark, at task `t_idx`.
        t_idx: number of the task that ends.
        net: gives features for herding and, after a sigmoid, the `logits` to store.
        use_herding: choose by herding instead of at random.
        required_attributes: what to store; examples and labels by default.
        normalize_features: give features unit length before herding.
        extend_equalize_buffer: round the share up, even if the memory grows by that.

    Raises:
        UsageError: no share is left for each class, or something needed is not given.
    """
    names = list(required_attributes or ("examples", "labels"))
    _check_request(buffer, names, net, use_herding)
    start, groups = _classes(dataset, t_idx)
    _drop_past_classes(dataset.train_loader.dataset, start)
    size = dataset.args.buffer_size
    if not buffer.sample_selection_fn.bounded:
        share = buffer.buffer_size
    else:
        share = -(-size // groups) if extend_equalize_buffer else size // groups
    if share < 1:
        raise UsageError(f"Expected --buffer_size to be at least {groups}, one sample for each "
                         f"class seen so far, but got {size}.")
    old = _stored(buffer, names) if len(buffer) else None
    buffer.empty()
    buffer.buffer_size = max(size, groups * share) if extend_equalize_buffer else size
    if old is not None:
        for rows in _groups(old, by_task=dataset.SETTING == "domain-il"):
            _add_rows(buffer, old, rows[:share])
    new, features = _current_task(dataset, t_idx, net, names, use_herding, normalize_features)
    for rows in _groups(new, by_task=False):
        if use_herding:
            from models.utils.herding import herding_order
            best = herding_order(features[rows], share)
        else:
            best = torch.randperm(len(rows), generator=buffer.generator)[:share]
        _add_rows(buffer, new, rows[best])
    assert buffer.num_seen_examples <= buffer.buffer_size, "shares exceed the memory"


def _check_request(buffer: "Buffer", names: list[str], net: "MammothBackbone | None",
                   use_herding: bool) -> None:
    if net is None and (use_herding or "logits" in names):
        raise UsageError("Expected fill_buffer to get `net`, which herding and stored logits "
                         "come from, but got none; pass the network.")
    missing = [name for name in names if name not in buffer.used_attributes]
    if len(buffer) and missing:
        raise UsageError(f"Expected the buffer to hold {', '.join(names)} already, but it lacks "
                         f"{', '.join(missing)}; ask for them from the first task on.")


def _classes(dataset: Any, t_idx: int) -> tuple[int, int]:
    """First class of the current task, and among how many groups the memory is divided.

    Where classes come back in each task (domain-IL) a group is a class of one task.
    """
    start, end = dataset.get_offsets(t_idx)
    if dataset.SETTING == "domain-il":
        return 0, end * (t_idx + 1)
    return start, end


def _drop_past_classes(train_set: Any, start: int) -> None:
    """Remove samples of earlier tasks from the training data."""
    current = np.asarray(train_set.targets) >= start
    if not current.all():
        _select(train_set, current)


def _stored(buffer: "Buffer", names: list[str]) -> Rows:
    """The rows of the memory by attribute."""
    return {name: value for name, value in zip(buffer.used_attributes, buffer.get_all_data(),
                                               strict=True) if name in names}


def _add_rows(buffer: "Buffer", rows: Rows, chosen: torch.Tensor) -> None:
    """Put some of the rows into the memory."""
    batch: dict[str, Any] = {name: values[chosen] for name, values in rows.items()}
    buffer.add_data(**batch)


def _groups(rows: Rows, by_task: bool) -> list[torch.Tensor]:
    """Row numbers of each class (of each task), in memory order."""
    key = rows["labels"]
    if by_task:
        if "task_labels" not in rows:
            raise UsageError("Expected `task_labels` among required_attributes, since classes "
                             "come back in every task of this dataset; add them.")
        key = key + rows["task_labels"] * (int(key.max()) + 1)
    return [torch.nonzero(key == value).flatten() for value in key.unique()]


def _current_task(dataset: Any, t_idx: int, net: "MammothBackbone | None", names: list[str],
                  need_features: bool, normalize: bool) -> tuple[Rows, torch.Tensor]:
    """All samples of the current task with what is to be stored, and their features."""
    embed = _embedding(net, dataset, normalize) if net is not None else None
    parts: dict[str, list[torch.Tensor]] = {name: [] for name in names}
    features = []
    training = net.training if net is not None else False
    if net is not None:
        net.eval()
    for batch in dataset.train_loader:
        labels, images = batch[1].cpu(), batch[2].cpu()
        found = {"examples": images, "labels": labels, "true_labels": labels,
                 "task_labels": torch.full_like(labels, t_idx)}
        if embed is not None and (need_features or "logits" in names):
            hidden, found["logits"] = embed(images)
            features.append(hidden)
        for name in names:
            parts[name].append(found[name])
    if net is not None:
        net.train(training)
    rows = {name: torch.cat(values) for name, values in parts.items()}
    return rows, torch.cat(features) if features else torch.empty(0)


def _embedding(net: "MammothBackbone", dataset: Any, normalize: bool) \
        -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """A function from images (B, C, H, W) to features (B, F) and class probabilities (B, C)."""
    transform = dataset.get_normalization_transform()
    device = next(net.parameters()).device

    def embed(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        images = images.to(device)
        features = net(images if transform is None else transform(images), returnt="features")
        scores = net.classifier(features).sigmoid()
        if normalize:
            features = features / features.norm(dim=1, keepdim=True)
        return features.cpu(), scores.cpu()

    return embed


def icarl_replay(model: Any, dataset: Any, val_set_split: float = 0) -> None:
    """Add the memory to the training data of the task that begins.

    Args:
        model: has `current_task`, `buffer` and `args`; gets `val_dataset` and `val_loader`
            if a part is set aside.
        dataset: the benchmark; `train_loader.dataset` is changed in place.
        val_set_split: probability with which a stored sample is set aside for validation,
            together with as many samples of the new task.
    """
    if model.current_task == 0 or not len(model.buffer):
        return
    buffer, train_set = model.buffer, dataset.train_loader.dataset
    stored = _stored(buffer, buffer.used_attributes)
    held_out = torch.zeros(len(buffer), dtype=torch.bool)
    if val_set_split > 0:
        from utils.conf import create_seeded_dataloader
        held_out = torch.rand(len(buffer), generator=buffer.generator) < val_set_split
        order = torch.randperm(len(train_set.targets), generator=buffer.generator)
        in_val = np.zeros(len(order), dtype=bool)
        in_val[order[:int(held_out.sum())].numpy()] = True
        model.val_dataset = deepcopy(train_set)
        _select(model.val_dataset, in_val)
        _append(model.val_dataset, {name: v[held_out] for name, v in stored.items()})
        model.val_loader = create_seeded_dataloader(
            model.args, model.val_dataset, batch_size=model.args.batch_size, shuffle=True)
        _select(train_set, ~in_val)
    _append(train_set, {name: value[~held_out] for name, value in stored.items()})


def _aligned(train_set: Any) -> list[str]:
    """Fields with one entry per sample: data, targets and what items carry besides."""
    count = len(train_set.targets)
    names = ["data", "targets", "indexes", *getattr(train_set, "extra_return_fields", ())]
    return [name for name in dict.fromkeys(names)
            if hasattr(train_set, name) and len(getattr(train_set, name)) == count]


def _select(train_set: Any, keep: np.ndarray) -> None:
    """Keep the samples marked in `keep` (N,), in every field."""
    for name in _aligned(train_set):
        values = getattr(train_set, name)
        mask = torch.from_numpy(keep) if isinstance(values, torch.Tensor) else keep
        setattr(train_set, name, values[mask])


def _append(train_set: Any, rows: Rows) -> None:
    """Add stored samples to every field of the training data.

    A field that the memory does not hold gets -1, except `true_labels`: there the labels stand
    in.
    """
    count, labels = len(rows["labels"]), rows["labels"]
    known = {"data": _as_stored_images(rows["examples"], train_set.data), "targets": labels,
             "true_labels": rows.get("true_labels", labels)}
    for name in _aligned(train_set):
        values = getattr(train_set, name)
        more = known.get(name, torch.full((count,), -1)).cpu()
        if isinstance(values, torch.Tensor):
            merged: Any = torch.cat([values, more.to(values)])
        else:
            merged = np.concatenate([values, more.numpy().astype(np.asarray(values).dtype)])
        setattr(train_set, name, merged)


def _as_stored_images(examples: torch.Tensor, data: Any) -> torch.Tensor:
    """Undo the conversion to float images: (N, C, H, W) in [0, 1] to the layout of `data`."""
    row = tuple(data.shape[1:])
    images = examples
    if row != tuple(images.shape[1:]):
        images = images.squeeze(1) if len(row) == 2 else images.permute(0, 2, 3, 1)
    if tuple(images.shape[1:]) != row:
        raise UsageError(f"Expected stored images that fit the dataset's {row}, but they have "
                         f"shape {tuple(examples.shape[1:])}; empty the buffer first.")
    is_bytes = torch.as_tensor(data[:1]).dtype == torch.uint8
    return (images * 255).round().to(torch.uint8) if is_bytes else images
