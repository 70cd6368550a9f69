"""FDR: memory, loss and step against their definitions; learning against SGD."""
import copy

import pytest
import torch
from runs import experiment
from torch.nn import functional as F

from models.fdr import first_of_each, function_distance


def test_function_distance_is_the_mean_length_of_probability_differences():
    logits, stored = torch.randn(6, 4), torch.randn(6, 4)
    slow = sum(((F.softmax(a, 0) - F.softmax(b, 0)) ** 2).sum().sqrt()
               for a, b in zip(logits, stored, strict=True)) / 6
    assert torch.allclose(function_distance(logits, stored), slow)


def test_function_distance_has_a_gradient_where_nothing_has_changed():
    logits = torch.randn(3, 4, requires_grad=True)
    function_distance(logits, logits.detach()).backward()
    assert logits.grad.isfinite().all()


def test_first_of_each_keeps_the_oldest_rows_of_a_task():
    tasks = torch.tensor([1, 0, 1, 0, 0, 2, 1])
    assert first_of_each(tasks, 2).tolist() == [1, 3, 0, 2, 5]
    assert first_of_each(tasks, 9).tolist() == [1, 3, 4, 0, 2, 6, 5]


def trained(tmp_path, tasks, *words):
    run = experiment(tmp_path, "--model", "fdr", "--dataset", "perm-digits", "--lr", 0.1,
                     "--disable_log", 1, *words)
    for _ in range(tasks):
        loader, _ = run.dataset.get_data_loaders()
        run.model.meta_begin_task(run.dataset)
        for batch in list(loader)[:4]:
            run.model.meta_observe(*batch, epoch=0)
        run.model.meta_end_task(run.dataset)
    return run


@pytest.mark.parametrize(("tasks", "parts"), [(1, [50]), (2, [25, 25]), (3, [16, 16, 16])])
def test_tasks_share_the_memory_evenly(tmp_path, tasks, parts):
    buffer = trained(tmp_path, tasks, "--buffer_size", 50).model.buffer
    assert buffer.get_all_data()[2].bincount().tolist() == parts


def test_stored_outputs_are_those_at_the_end_of_the_task(tmp_path):
    run = trained(tmp_path, 1, "--buffer_size", 50)
    images, logits, _ = run.model.buffer.get_all_data()
    assert torch.allclose(run.model.net(images).detach(), logits, atol=1e-5)
    loader, _ = run.dataset.get_data_loaders()
    run.model.meta_begin_task(run.dataset)
    for batch in list(loader)[:4]:
        run.model.meta_observe(*batch, epoch=0)
    run.model.meta_end_task(run.dataset)
    again, kept, _ = run.model.buffer.get_all_data()
    assert torch.equal(again[:25], images[:25]) and torch.equal(kept[:25], logits[:25])


def test_step_on_the_stream_is_followed_by_one_on_the_memory(tmp_path):
    run = trained(tmp_path, 1, "--buffer_size", 50, "--alpha", 0.4, "--minibatch_size", 9)
    loader, _ = run.dataset.get_data_loaders()
    run.model.meta_begin_task(run.dataset)
    inputs, labels, plain = next(iter(loader))
    net, buffer = copy.deepcopy(run.model.net), copy.deepcopy(run.model.buffer)
    run.model.meta_observe(inputs, labels, plain, epoch=0)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    optimiser.zero_grad()
    F.cross_entropy(net(inputs), labels).backward()
    optimiser.step()
    x, stored, _ = buffer.get_data(9)
    optimiser.zero_grad()
    (0.4 * torch.norm(F.softmax(net(x), 1) - F.softmax(stored, 1), 2, 1).mean()).backward()
    optimiser.step()
    assert torch.allclose(net.get_params(), run.model.net.get_params(), atol=1e-6)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_fdr_learns_what_sgd_forgets(tmp_path, seed):
    words = ("--dataset", "seq-digits", "--seed", seed, "--disable_log", 1)
    sgd = experiment(tmp_path, "--model", "sgd", *words).run()["accuracy"]["class-il"]
    fdr = experiment(tmp_path, "--model", "fdr", "--buffer_size", 200,
                     *words).run()["accuracy"]["class-il"]
    assert sgd < 25 and fdr > 78, (sgd, fdr)
