"""What inputs look like: closed forms, novel inputs, checkpoints."""
import numpy as np
import pytest
import torch
from runs import experiment

from npcl_plugin.input_memory import InputMemory
from npcl_plugin.uncertainty import cost
from npcl_plugin.uncertainty.novelty import auroc


@pytest.fixture
def memory():
    """Three groups, the last one without samples."""
    torch.manual_seed(0)
    groups = torch.arange(60) % 2
    scale = torch.tensor([[1.0, 2, 3], [0.1, 1, 1]])
    x = torch.randn(60, 1, 2, 3) * scale + groups.view(-1, 1, 1, 1)
    found = InputMemory(3)
    for part in torch.arange(60).split(7):
        found.add(x[part], groups[part])
    return found, x, groups


def slow_unlikeness(x, groups, inputs):
    found = []
    for image in inputs.flatten(1).double():
        distances = []
        for group in groups.unique():
            own = x[groups == group].flatten(1).double()
            variance = own.var(0, unbiased=False)
            variance = variance + 0.01 * variance.mean()
            distances.append(((image - own.mean(0)) ** 2 / variance).mean())
        found.append(min(distances) / (1 + min(distances)))
    return torch.stack(found).float()


def test_batches_add_up_to_means_and_variances_of_each_group(memory):
    found, x, groups = memory
    inputs = torch.cat((x[:5], torch.randn(5, 1, 2, 3) * 4))
    torch.testing.assert_close(found.unlikeness(inputs), slow_unlikeness(x, groups, inputs))
    assert found.counts.tolist() == [30, 30, 0] and found.numbers() == 3 * (2 * 6 + 1)


def test_a_memory_without_samples_says_nothing():
    assert InputMemory(4).unlikeness(torch.randn(2, 3)) is None


def test_numbers_that_never_changed_leave_everything_finite():
    memory = InputMemory(1)
    memory.add(torch.zeros(8, 5), torch.zeros(8, dtype=torch.long))
    said = memory.unlikeness(torch.tensor([[0.0] * 5, [1.0] + [0.0] * 4]))
    assert said[0] == 0 and said.isfinite().all() and said[1] > 0.9


def test_state_goes_from_one_memory_to_another(memory):
    found, x, _ = memory
    other = InputMemory(3)
    other.load_state_dict(found.state_dict())
    assert torch.equal(other.unlikeness(x), found.unlikeness(x))


@pytest.mark.parametrize("dataset", ["seq-digits", "rot-digits"])
def test_inputs_tell_novel_images_and_change_no_answer(tmp_path, dataset):
    runs = {}
    for kept in (0, 1):
        runs[kept] = experiment(
            tmp_path / str(kept), "--model", "npcl_plus", "--dataset", dataset, "--buffer_size",
            20, "--n_epochs", 1, "--input_memory", kept, "--disable_log", 1)
        runs[kept].run()
    answers = [run.model.net.state_dict() for run in runs.values()]
    assert all(torch.equal(a, b) for a, b in zip(*(s.values() for s in answers), strict=True))
    model = runs[1].model.eval()
    images = runs[1].dataset.test_loaders[0].dataset.dataset.fetch(torch.arange(50))[0]
    novel = 1 - images  # bright and dark exchanged

    def said(run, x):
        return run.model.eval().predict(x).distance.numpy()

    assert auroc(said(runs[1], images), said(runs[1], novel)) > 0.99
    np.testing.assert_allclose(
        said(runs[1], images),
        said(runs[0], images) ** 0.5 * model.input_memory.unlikeness(images).numpy(), rtol=1e-5)
    groups = runs[1].dataset.N_TASKS if dataset == "rot-digits" else 10
    extra = cost.storage(model, 20, 10)["stored"] - cost.storage(runs[0].model, 20, 10)["stored"]
    assert extra == groups * (2 * 64 + 1)
