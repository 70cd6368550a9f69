"""What every method must do, whatever it is: a new one gets these tests by being registered.

Each method is run on a small real benchmark of each setting that it supports, with the settings of
its YAML file, a few batches per task: in one piece, and interrupted in the middle of a task.
"""
import io
import math
import signal
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

import main
from datasets import get_dataset
from engine.config import method_layers, model_config_path
from engine.interrupts import Interrupted
from engine.model_state import capture, restore
from engine.plugins import load_plugins
from engine.settings import Query, fold
from models import REGISTRY
from utils.args import ArgumentParser
from utils.evaluate import outputs_of
from utils.training import Experiment

BENCHMARKS = {"class-il": "seq-digits", "task-il": "seq-digits", "domain-il": "perm-digits",
              "general-continual": "mnist-360"}
BUFFER_SIZE = 40
INTERRUPTED_IN_TASK, INTERRUPTED_AT_BATCH = 2, 3  # counted from 0, of 4 batches per task


def supported() -> list[tuple[str, str]]:
    """(method, benchmark) for each registered method and each setting it says it supports.

    The methods of plugins are registered methods too.
    """
    load_plugins()
    pairs = []
    for name in REGISTRY.names():
        settings = REGISTRY.entry(name)["class"].COMPATIBILITY
        benchmarks = (BENCHMARKS[s] for s in settings if s in BENCHMARKS)
        pairs += [(name, benchmark) for benchmark in dict.fromkeys(benchmarks)]
    return pairs


def has_buffer(name: str) -> bool:
    """Whether a method takes --buffer_size."""
    parser = ArgumentParser(add_help=False)
    parser = REGISTRY.entry(name)["class"].get_parser(parser) or parser
    return any(action.dest == "buffer_size" for action in parser._actions)


@dataclass
class Trial:
    """A run and what was seen on the way."""

    model: Any
    dataset: Any
    args: Any
    result: dict[str, Any] | None = None
    losses: list[float] = field(default_factory=list)
    buffer_lengths: list[int] = field(default_factory=list)
    first_weights: dict[str, torch.Tensor] = field(default_factory=dict)


def command(name: str, benchmark: str, folder: Path, data: str) -> list[str]:
    words = ["--model", name, "--dataset", benchmark, "--seed", "5", "--debug_mode", "1",
             "--n_epochs", "1", "--non_verbose", "1", "--disable_log", "1", "--base_path", data,
             "--results_path", str(folder), "--checkpoint_path", str(folder)]
    if benchmark == "mnist-360":  # few methods have settings of their own there
        layers = method_layers(Query(name, "perm-digits", "domain-il", BUFFER_SIZE),
                               model_config_path(name))
        borrowed = {key: value for key, (value, _) in fold(layers, {}).items()}
        words += [word for key, value in borrowed.items() if key != "n_epochs"
                  for word in (f"--{key}", str(value))]
    else:
        words += ["--batch_size", "16"]
    return words + (["--buffer_size", str(BUFFER_SIZE)] if has_buffer(name) else [])


def trial(words: list[str], interrupt: tuple[int, int] | None = None,
          resume: Path | None = None) -> Trial:
    """Run a command in this process, noting losses and buffer lengths at every step."""
    args = main.parse_args(words)
    if resume is not None:
        args.resume = args.loadcheck = str(resume)
    model, dataset, args = main.initialize(args)
    seen = Trial(model, dataset, args)
    seen.first_weights = {k: v.clone() for k, v in model.state_dict().items()}
    experiment = Experiment(model, dataset, args)
    step = model.meta_observe

    def observed(*inputs, **extra):
        outcome = step(*inputs, **extra)
        seen.losses.append(outcome["loss"] if isinstance(outcome, dict) else outcome)
        seen.buffer_lengths.append(len(getattr(model, "buffer", ())))
        if (model.current_task, model.epoch_iteration) == interrupt:
            experiment.stop.number = signal.SIGTERM
        return outcome

    model.meta_observe = observed
    try:
        seen.result = experiment.run()
    except Interrupted:
        assert interrupt is not None
    finally:
        del model.meta_observe
    return seen


@pytest.fixture(scope="module", params=supported(), ids="-".join)
def words(request, tmp_path_factory) -> list[str]:
    """The command line of one method on one benchmark."""
    name, benchmark = request.param
    folder = tmp_path_factory.mktemp(name)
    data = request.getfixturevalue("real_data") if benchmark == "mnist-360" else str(folder)
    return command(name, benchmark, folder, data)


@pytest.fixture(scope="module")
def whole(words) -> Trial:
    """The run in one piece."""
    return trial(words)


@pytest.fixture(scope="module")
def half(words, whole) -> Trial:
    """The same run, interrupted within a task; it left a checkpoint.

    Tests may take its model further: none relies on where exactly within the task it stands.
    """
    task = min(INTERRUPTED_IN_TASK, whole.dataset.N_TASKS - 1)
    return trial(words, interrupt=(task, INTERRUPTED_AT_BATCH))


def checkpoint_of(seen: Trial) -> Path:
    files = list(Path(seen.args.checkpoint_path).glob(f"**/{seen.args.ckpt_name}_paused*.pt"))
    assert len(files) == 1, "an interrupted run leaves one checkpoint"
    return files[0]


def assert_same(left: Any, right: Any, where: str = "state") -> None:
    """Two nested states are equal to the last bit."""
    if torch.is_tensor(left):
        assert torch.is_tensor(right) and left.dtype == right.dtype, where
        assert torch.equal(left, right) or (left.isnan() == right.isnan()).all() and torch.equal(
            left.nan_to_num(), right.nan_to_num()), where
    elif isinstance(left, dict):
        assert left.keys() == right.keys(), where
        for key in left:
            assert_same(left[key], right[key], f"{where}.{key}")
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right), where
        for i, pair in enumerate(zip(left, right, strict=True)):
            assert_same(*pair, f"{where}[{i}]")
    else:
        assert left == right, where


def test_model_trains_on_each_setting_it_supports(whole):
    assert whole.losses and all(math.isfinite(loss) for loss in whole.losses)
    after = whole.model.state_dict()
    assert all(value.isfinite().all() for value in after.values())
    changed = [k for k, v in whole.first_weights.items() if not torch.equal(v, after[k])]
    assert any(key.startswith("net.") or not whole.model.TRAINS_BY_GRADIENT for key in changed)
    accuracies = whole.result["accuracy_matrix"]
    assert all(len(rows) == whole.dataset.N_TASKS for rows in accuracies.values())


def test_same_seed_gives_same_weights_and_losses(words, whole):
    again = trial(words)
    assert again.losses == whole.losses
    assert_same(again.model.state_dict(), whole.model.state_dict())


def test_killed_run_resumes_to_the_same_end(words, whole, half):
    assert half.result is None
    resumed = trial(words, resume=checkpoint_of(half))
    assert half.losses + resumed.losses == whole.losses
    assert_same(resumed.model.state_dict(), whole.model.state_dict())
    assert resumed.result["accuracy_matrix"] == whole.result["accuracy_matrix"]
    assert_same(capture(resumed.model), capture(whole.model))


def test_state_round_trip_gives_equal_outputs_and_equal_next_step(words, half):
    stored = io.BytesIO()
    torch.save(capture(half.model), stored)
    stored.seek(0)
    fresh, dataset, _ = main.initialize(main.parse_args(words))
    for _ in half.dataset.test_loaders:
        dataset.get_data_loaders()
    restore(fresh, torch.load(stored, weights_only=True))
    fresh.opt = fresh.get_optimizer()
    fresh.opt.load_state_dict(half.model.opt.state_dict())
    assert_same(capture(fresh), capture(half.model))
    batch = next(iter(half.dataset.train_loader))[:3]
    losses, outputs = [], []
    for model in (half.model, fresh):
        torch.manual_seed(1)
        model.net.train()
        with torch.no_grad():
            outputs.append(outputs_of(model, batch[0], 0))
        losses.append(model.meta_observe(*batch, epoch=0))
    assert_same(*outputs)
    assert_same(*losses)
    assert_same(capture(fresh), capture(half.model))


def test_unlabelled_samples_are_never_learned_from(words):
    if "mnist-360" in words:
        pytest.skip("this benchmark is fully labelled")
    seen = trial([*words, "--label_perc", "0.5"])
    untouched = get_dataset(seen.args)  # a method may take what has no label out of its own
    targets = untouched.get_data_loaders()[0].dataset.targets
    assert (torch.as_tensor(targets) == -1).any()
    assert seen.losses and all(math.isfinite(loss) for loss in seen.losses)
    assert all(value.isfinite().all() for value in seen.model.state_dict().values())
    labels = getattr(getattr(seen.model, "buffer", None), "labels", torch.zeros(1))
    assert (labels >= 0).all()


def test_buffer_never_exceeds_its_size(words, whole):
    if "--buffer_size" not in words:
        pytest.skip("this method has no buffer")
    lengths = [*whole.buffer_lengths, len(whole.model.buffer)]  # some fill it after a task
    assert 0 < max(lengths) <= BUFFER_SIZE
    assert len(whole.model.buffer.examples) <= BUFFER_SIZE


def test_method_that_says_so_keeps_nothing_besides_its_buffer(whole):
    if not whole.model.KEEPS_ONLY_BUFFER:
        pytest.skip("this method does not say so")
    state = capture(whole.model)
    assert state["stateful"].keys() <= {"buffer"}
    kept = [name for part in ("weights", "plain") for name, value in state[part].items()
            if torch.is_tensor(value) and value.is_floating_point()]
    assert all(name.startswith("net.") for name in kept)


def test_evaluation_leaves_the_model_unchanged(half):
    before = deepcopy(capture(half.model))  # captured weights are the live tensors
    flags = [module.training for module in half.model.modules()]
    gradients = [p.requires_grad for p in half.model.parameters()]
    first = half.dataset.evaluate(half.model, half.dataset)
    # What an evaluation computes for itself may be kept, but nothing that was there changes.
    after = capture(half.model)
    derived = {name for name, value in before["plain"].items() if value is None}
    for kept in (before["plain"], after["plain"]):
        for name in derived:
            kept.pop(name, None)
    for name, state in before["stateful"].items():
        for part in [key for key, value in state.items() if value == {}]:
            del state[part], after["stateful"][name][part]
    assert_same(after, before)
    assert [module.training for module in half.model.modules()] == flags
    assert [p.requires_grad for p in half.model.parameters()] == gradients
    assert half.dataset.evaluate(half.model, half.dataset) == first
