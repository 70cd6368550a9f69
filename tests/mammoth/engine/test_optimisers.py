"""Optimisers without torch's compiler compute what torch's own do."""
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from engine import optimisers

MAIN = Path(__file__).resolve().parents[3] / "mammoth"
KINDS = [("SGD", {}), ("SGD", {"weight_decay": 1e-4, "fused": True}), ("SGD", {"fused": True}),
         ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}),
         ("Adam", {"weight_decay": 1e-3}), ("AdamW", {})]


def trained(kind, steps, seed=0, state=None, **options):
    """Two parameters after some steps, and the optimiser."""
    rng = torch.Generator().manual_seed(seed)
    weights = [torch.nn.Parameter(torch.randn(size, generator=rng)) for size in ((30, 7), (5,))]
    optimiser = kind(weights, lr=0.03, **options)
    if state is not None:
        optimiser.load_state_dict(state)
    for _ in range(steps):
        optimiser.zero_grad()
        sum((w * torch.randn(w.shape, generator=rng)).sum() for w in weights).backward()
        optimiser.step()
    return weights, optimiser


@pytest.mark.parametrize("name, options", KINDS)
def test_steps_and_states_are_those_of_torch_to_the_last_bit(name, options):
    ours, mine = trained(getattr(optimisers, name), 20, **options)
    plain = {key: value for key, value in options.items() if key != "fused"}
    theirs, other = trained(getattr(torch.optim, name), 20, **plain)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert isinstance(mine, getattr(torch.optim, name)) and type(mine).__name__ == name
    # Either goes on from the other's state.
    ours, _ = trained(getattr(optimisers, name), 5, 1, other.state_dict(), **options)
    theirs, _ = trained(getattr(torch.optim, name), 5, 1, mine.state_dict(), **plain)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name, options", KINDS)
def test_steps_are_counted_as_writes_to_the_weights(name, options):
    weights, optimiser = trained(getattr(optimisers, name), 1, **options)
    before = [w._version for w in weights]
    optimiser.step()
    assert all(w._version > count for w, count in zip(weights, before, strict=True))


def test_a_run_does_not_import_what_takes_long(tmp_path):
    words = ["--model", "npcl", "--dataset", "seq-digits", "--buffer_size", "20", "--seed", "0",
             "--debug_mode", "1", "--stop_after", "1", "--non_verbose", "1",
             "--lr_scheduler", "cosine", "--base_path", str(tmp_path), "--uncertainty", "1"]
    script = ("import sys, main; print(main.cli(), "
              "[name for name in ('torch._dynamo', 'scipy.stats') if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", script, *words], cwd=MAIN, capture_output=True,
                          text=True)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr
