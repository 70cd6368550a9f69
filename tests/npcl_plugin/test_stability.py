"""No term of the loss leaves the finite numbers at the settings' learning rates.

Each run learns a little of two tasks, so that every term takes part, with the warm-up of the
settings and, the hard case, without any. The harness ends a run whose loss is not finite, and a
method of the family leaves its weights alone then; both would show here.
"""
import pytest
import torch
from runs import experiment

SMALL = ["perm-mnist", "rot-mnist", "seq-mnist", "seq-fmnist"]
COLOUR = ["seq-cifar10", "seq-cifar100"]
RUNS = [(dataset, model, warmup, 300 if dataset in SMALL else 30)
        for dataset in SMALL + COLOUR for model in ("npcl", "npcl_plus") for warmup in (None, 1)]


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize(("dataset", "model", "warmup", "steps"), RUNS)
def test_training_stays_finite(tmp_path, real_data, dataset, model, warmup, steps):
    # Debug mode keeps an epoch, the memory's pass and the evaluation at six batches each;
    # the number of training steps is that of --n_iters all the same.
    run = experiment(tmp_path, "--model", model, "--dataset", dataset, "--buffer_size", 200,
                     "--stop_after", 2, "--fitting_mode", "iters", "--n_iters", steps,
                     "--debug_mode", 1, "--disable_log", 1,
                     *(() if warmup is None else ("--warmup", warmup)),
                     base_path=real_data)
    run.run()
    assert run.model.steps == 2 * steps
    state = run.model.net.state_dict()
    assert all(torch.isfinite(value).all() for value in state.values())
    assert run.model.net.memory.recorded.sum() == 2
