"""A run that is stopped inside a task and resumed ends in exactly the same state."""
import signal

import pytest
import torch

import npcl_plugin
from main import _find_checkpoint, initialize, parse_args
from utils.training import Experiment, Interrupted

MODELS = list(npcl_plugin.MODELS)


def words(folder, model, *more):
    return [str(word) for word in (
        "--model", model, "--dataset", "seq-digits", "--buffer_size", 40, "--n_epochs", 2,
        "--stop_after", 2, "--n_global", 3, "--n_global_eval", 3, "--seed", 5, "--non_verbose", 1,
        "--base_path", folder / "data", "--checkpoint_path", folder / "checkpoints", *more)]


def stop_after(run, steps):
    """Let a SIGTERM arrive during step number `steps`."""
    observe = run.model.observe

    def counting(*args, **kwargs):
        counting.steps += 1
        if counting.steps == steps:
            run.stop.number = signal.SIGTERM
        return observe(*args, **kwargs)

    counting.steps = 0
    run.model.meta_observe = lambda x, y, raw, epoch=None, **_: _count(run, counting(x, y, raw))


def _count(run, outcome):
    run.model.task_iteration += 1
    run.model.epoch_iteration += 1
    return outcome


def state_of(run):
    model = run.model
    return {**model.state_dict(), "context": model.context.examples,
            **{f"buffer {n}": getattr(model.buffer, n) for n in model.buffer.used_attributes}}


@pytest.mark.parametrize(("model", "more"), [
    *((model, ()) for model in MODELS), ("npcl_plus", ("--stream_recall", 1))])
def test_resumed_run_is_identical(tmp_path, model, more):
    calm = Experiment(*initialize(parse_args(words(tmp_path / "calm", model, *more))))
    calm.run()
    folder = tmp_path / "stopped"
    cut = Experiment(*initialize(parse_args(words(folder, model, *more, "--resume"))))
    stop_after(cut, 31)  # second task, second epoch
    with pytest.raises(Interrupted):
        cut.run()
    args = parse_args(words(folder, model, *more, "--resume"))
    _find_checkpoint(args)
    again = Experiment(*initialize(args))
    again.run()
    assert again.progress.resumed == 1
    assert again.logger.accs == calm.logger.accs
    expected, got = state_of(calm), state_of(again)
    assert set(got) == set(expected)
    for name, value in expected.items():
        assert torch.equal(got[name], value), name
