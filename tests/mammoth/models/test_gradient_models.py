"""GEM, A-GEM and A-GEM-R: projections against their definitions, runs against SGD."""
import builtins
import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import experiment
from scipy.optimize import nnls
from torch.nn import functional as F

from engine.errors import UsageError
from models import agem, gem

RIDGE = 1e-3


def by_nnls(gradient, past, margin):
    """GEM's dual as a non-negative least-squares problem in u = v - margin."""
    quadratic = past @ past.T + RIDGE * np.eye(len(past))
    low = np.linalg.cholesky(quadratic)
    target = np.linalg.solve(low, -past @ gradient - quadratic @ np.full(len(past), margin))
    return gradient + (nnls(low.T, target)[0] + margin) @ past


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32 - 1), tasks=st.integers(1, 20),
       margin=st.sampled_from([0.0, 0.5, 1.0]), towards=st.floats(-1, 1))
def test_gem_projection_agrees_with_nnls(seed, tasks, margin, towards):
    rng = np.random.default_rng(seed)
    past = rng.standard_normal((tasks, 60)) + towards * rng.standard_normal(60)
    gradient = rng.standard_normal(60)
    ours = gem.project(torch.from_numpy(gradient), torch.from_numpy(past), margin).numpy()
    violated = (past @ gradient < 0).any()
    expected = by_nnls(gradient, past, margin) if violated else gradient
    assert np.allclose(ours, expected, atol=1e-9)
    assert (past @ ours > -0.1 * np.abs(past @ gradient).max() - RIDGE).all()


def test_gem_projection_of_one_conflict_removes_the_conflicting_part():
    past = torch.tensor([[1.0, 0.0, 0.0]])
    ours = gem.project(torch.tensor([-2.0, 3.0, 0.0]), past, margin=0.0)
    assert torch.allclose(ours, torch.tensor([0.0, 3.0, 0.0]), atol=4e-3)


def test_gem_without_quadprog_says_what_to_install(tmp_path, monkeypatch):
    original = builtins.__import__

    def no_quadprog(name, *args, **kwargs):
        if name == "quadprog":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_quadprog)
    with pytest.raises(UsageError, match="pip install quadprog"):
        experiment(tmp_path, "--model", "gem", "--dataset", "seq-digits", "--buffer_size", 10,
                   "--lr", 0.1)


def test_agem_projection_is_orthogonal_to_the_memory():
    gradient, memory = torch.randn(50), torch.randn(50)
    projected = agem.project(gradient, memory)
    assert torch.dot(projected, memory).abs() < 1e-4
    difference = gradient - projected
    assert torch.allclose(difference, torch.dot(difference, memory) / memory.dot(memory) * memory,
                          atol=1e-5)


def test_upstreams_helpers_store_and_overwrite(tmp_path):
    net = torch.nn.Linear(3, 2)
    net(torch.rand(4, 3)).sum().backward()
    sizes = [p.numel() for p in net.parameters()]
    vector = torch.ones(sum(sizes))
    gem.store_grad(net.parameters, vector, sizes)
    assert torch.equal(vector, torch.cat([p.grad.flatten() for p in net.parameters()]))
    gem.overwrite_grad(net.parameters, 2 * vector, sizes)
    assert torch.equal(net.bias.grad, torch.full((2,), 8.0))


def second_task(tmp_path, model, *words):
    """A method two steps into its second task, the next batch, and its run."""
    run = experiment(tmp_path, "--model", model, "--dataset", "perm-digits", "--lr", 0.5,
                     "--disable_log", 1, *words)
    for task in range(2):
        loader, _ = run.dataset.get_data_loaders()
        run.model.meta_begin_task(run.dataset)
        batches = iter(loader)
        for _ in range(10 if task == 0 else 2):
            run.model.meta_observe(*next(batches), epoch=0)
        if task == 0:
            run.model.meta_end_task(run.dataset)
    return run.model, next(batches)


def gradient_of(net, inputs, labels):
    net.zero_grad()
    F.cross_entropy(net(inputs), labels).backward()
    return torch.cat([p.grad.flatten() for p in net.parameters()])


@pytest.mark.parametrize("model", ["gem", "agem", "agem_r"])
def test_step_is_the_projected_gradient(tmp_path, model):
    method, (inputs, labels, plain) = second_task(tmp_path, model, "--buffer_size", 50,
                                                  "--minibatch_size", 7)
    net, buffer = copy.deepcopy(method.net), copy.deepcopy(method.buffer)
    method.meta_observe(inputs, labels, plain, epoch=0)
    gradient = gradient_of(net, inputs, labels)
    memory = buffer.get_all_data() if model == "gem" else buffer.get_data(7)
    past = gradient_of(net, *memory[:2])
    if model == "gem":
        expected = gem.project(gradient, past[None], 0.5)
    else:
        expected = agem.project(gradient, past) if past.dot(gradient) < 0 else gradient
    step = net.get_params() - method.args.lr * expected
    assert torch.allclose(method.net.get_params(), step, atol=1e-5)


@pytest.mark.parametrize("model", ["gem", "agem"])
def test_memory_is_divided_evenly_among_the_tasks(tmp_path, model):
    run = experiment(tmp_path, "--model", model, "--dataset", "perm-digits", "--lr", 0.1,
                     "--buffer_size", 53, "--debug_mode", 1)
    run.run()
    assert len(run.model.buffer) == 50
    if model == "gem":
        assert run.model.buffer.task_labels[:50].bincount().tolist() == [10] * 5


def test_gem_constrains_tasks_with_unequal_parts(tmp_path):
    method, (inputs, labels, plain) = second_task(tmp_path, "gem", "--buffer_size", 50)
    method.buffer.add_data(examples=plain[:4], labels=labels[:4], task_labels=torch.ones(4).long())
    images, targets, _ = method.buffer.get_all_data()
    expected = torch.stack([gradient_of(method.net, images[:10], targets[:10]),
                            gradient_of(method.net, images[10:], targets[10:])])
    assert torch.allclose(method.past_gradients(), expected, atol=1e-6)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_they_remember_classes_that_sgd_forgets(tmp_path, seed):
    accuracy = {model: experiment(
        tmp_path, "--model", model, "--dataset", "seq-digits", "--seed", seed, "--disable_log", 1,
        *(() if model == "sgd" else ("--buffer_size", 200))).run()["accuracy"]["class-il"]
        for model in ("sgd", "gem", "agem", "agem_r")}
    assert accuracy["sgd"] < 25 and accuracy["gem"] > 80, accuracy
    assert min(accuracy["agem"], accuracy["agem_r"]) > 30, accuracy
