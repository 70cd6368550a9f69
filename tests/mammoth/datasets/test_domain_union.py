"""`--joint 1` in domain-IL: exactly the union of the tasks, without copies of the images."""
from argparse import Namespace

import pytest
import torch
from runs import experiment, result_of, run_main

import datasets
from datasets.transforms.permutation import FixedPermutation
from datasets.utils import default_args
from datasets.utils.digits import load_digits
from datasets.utils.domain_union import DomainUnion
from engine.errors import UsageError
from main import parse_args

DOMAINS = ["perm-digits", "rot-digits"]
VARIANTS = [{}, {"validation": 20}, {"label_perc": 0.5}, {"custom_task_order": "4,2,0,1,3"},
            {"noise_rate": 0.3, "noise_type": "symmetric", "disable_noisy_labels_cache": True}]


def make(name, **changes):
    kind = datasets.get_dataset_class(name)
    return kind(Namespace(**{"dataset": name, "seed": 3, **default_args(kind), **changes}))


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_the_joint_set_is_the_tasks_one_after_the_other(name, changes):
    alone, joint = make(name, **changes), make(name, joint=1, **changes)
    tasks = [alone.get_data_loaders()[0].dataset for _ in range(5)]
    union = joint.get_data_loaders()[0].dataset
    rows = [(task, i) for task, data in enumerate(tasks) for i in range(len(data))]
    assert len(union) == len(rows) and joint.N_TASKS == 1
    assert union.extra_return_fields == (*tasks[0].extra_return_fields, "task_ids")
    for row in range(0, len(rows), 97):  # item by item ...
        task, i = rows[row]
        expected = (*tasks[task][i], task)
        for got, wanted in zip(union[row], expected, strict=True):
            assert torch.equal(torch.as_tensor(got), torch.as_tensor(wanted))
    every = [torch.cat(parts) for parts in zip(
        *(data.fetch(slice(0, len(data))) for data in tasks), strict=True)]
    for got, wanted in zip(union.fetch(slice(0, len(rows))), every, strict=False):  # ... and all
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("validation", [None, 20])
def test_there_is_a_test_loader_for_each_task(name, validation):
    alone, joint = (make(name, joint=flag, validation=validation) for flag in (0, 1))
    for _ in range(5):
        alone.get_data_loaders()
    joint.get_data_loaders()
    assert len(joint.test_loaders) == 5
    for one, other in zip(alone.test_loaders, joint.test_loaders, strict=True):
        for batch, same in zip(one, other, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(batch, same, strict=True))


def test_an_epoch_mixes_the_tasks_and_brings_each_sample_once():
    loader, _ = make("perm-digits", joint=1).get_data_loaders()
    tasks = torch.cat([batch[3] for batch in loader])
    assert tasks.bincount().tolist() == [1438] * 5
    assert len(tasks[:32].unique()) > 2
    images = torch.cat([batch[0] for batch in loader]).flatten(1)
    whole = loader.dataset.fetch(slice(0, len(tasks)))[0].flatten(1)
    assert torch.equal(*(part[part.double().matmul(torch.rand(
        64, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).flatten()
        .argsort()] for part in (images, whole)))


def test_the_images_are_not_copied():
    union = make("rot-digits", joint=1).get_data_loaders()[0].dataset
    assert union.data.data_ptr() == load_digits(True)[0].data_ptr()
    assert union.data.dtype == torch.uint8 and len(union.data) * 5 == len(union)


def test_missing_labels_are_known_to_the_benchmark():
    joint = make("perm-digits", joint=1, label_perc=0.5)
    targets = joint.get_data_loaders()[0].dataset.targets
    assert joint.unlabeled_mask.tolist() == (targets == -1).nonzero().flatten().tolist()
    assert 0.4 < len(joint.unlabeled_mask) / len(targets) < 0.6


def test_a_seeded_permutation_is_fixed_by_the_size_of_the_images():
    images = torch.randint(0, 255, (3, 4, 4), dtype=torch.uint8)
    union = DomainUnion(images, torch.zeros(6).long(), [FixedPermutation(0), FixedPermutation(1)])
    got = union.fetch(torch.tensor([5, 0]))[0]
    for image, row, seed in zip(got, (2, 0), (1, 0), strict=True):
        torch.testing.assert_close(image, FixedPermutation(seed)(images[row:row + 1] / 255))


def test_a_stream_without_tasks_has_nothing_to_join():
    with pytest.raises(UsageError, match=r"mnist-360 \(general-continual\) cannot do that"):
        parse_args(["--model", "er", "--dataset", "mnist-360", "--joint", "1", "--buffer_size", "9",
                    "--lr", "0.1"])


@pytest.mark.parametrize("words", [("er", "--buffer_size", 50), ("joint",), ("sgd",)], ids=str)
def test_joint_domains_from_the_command_line(tmp_path, words):
    result = result_of(run_main(
        "--model", *words, "--dataset", "perm-digits", "--joint", 1, "--n_epochs", 3, "--lr", 0.1,
        "--seed", 0, "--base_path", tmp_path, "--non_verbose", 1))
    matrix = result["accuracy_matrix"]["domain-il"]
    assert [len(row) for row in matrix] == [5]
    assert min(matrix[0]) > 80
    assert result["accuracy"]["domain-il"] == pytest.approx(sum(matrix[0]) / 5)
    assert result["transfer"] in ({}, {"backward_transfer": {"domain-il": 0.0},
                                       "forgetting": {"domain-il": 0.0}})


def test_early_stopping_looks_at_all_domains(tmp_path, monkeypatch):
    from engine import early_stopping

    seen = []
    real = early_stopping.evaluate

    def spy(*args, **kwargs):
        accs = real(*args, **kwargs)
        seen.append(len(accs[0]))
        return accs

    monkeypatch.setattr(early_stopping, "evaluate", spy)
    run = experiment(tmp_path, "--model", "sgd", "--dataset", "rot-digits", "--joint", 1, "--lr",
                     0.1, "--validation", 20, "--fitting_mode", "early_stopping",
                     "--early_stopping_patience", 1, "--early_stopping_epsilon", 10)
    run.run()
    assert seen and set(seen) == {5}
