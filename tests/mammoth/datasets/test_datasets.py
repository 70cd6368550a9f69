"""The benchmarks: sizes, tasks, defaults, variants."""
from argparse import ArgumentParser, Namespace

import numpy as np
import pytest
import torch
from torch.nn import functional

import datasets
from datasets.mnist_360 import evaluation_stream, mix_sizes, training_stream
from datasets.utils import DEFAULT_ARGS, default_args, set_default_from_args
from datasets.utils.continual_dataset import ContinualDataset
from engine.config import dataset_settings
from engine.errors import UsageError
from utils.conf import base_path

DOMAIN_IL = ["perm-digits", "rot-digits"]

# name: (setting, tasks, classes per task, classes, size, batch, epochs, backbone)
FACTS = {
    "seq-mnist": ("class-il", 5, 2, 10, (28, 28), 64, 1, "mnistmlp"),
    "seq-fmnist": ("class-il", 5, 2, 10, (28, 28), 64, 1, "mnistmlp"),
    "perm-mnist": ("domain-il", 20, 10, 10, (28, 28), 128, 1, "mnistmlp"),
    "rot-mnist": ("domain-il", 20, 10, 10, (28, 28), 128, 1, "mnistmlp"),
    "mnist-360": ("general-continual", 1, 9, 9, (28, 28), 16, 1, "mnistmlp"),
    "seq-cifar10": ("class-il", 5, 2, 10, (32, 32), 32, 50, "resnet18"),
    "seq-cifar10-small": ("class-il", 5, 2, 10, (16, 16), 128, 15, "smallconv"),
    "seq-cifar100": ("class-il", 10, 10, 100, (32, 32), 32, 50, "resnet18"),
    "seq-tinyimg": ("class-il", 10, 20, 200, (64, 64), 32, 100, "resnet18"),
    "seq-digits": ("class-il", 5, 2, 10, (8, 8), 32, 5, "mnistmlp"),
    "perm-digits": ("domain-il", 5, 10, 10, (8, 8), 32, 5, "mnistmlp"),
    "rot-digits": ("domain-il", 5, 10, 10, (8, 8), 32, 5, "mnistmlp"),
}


def make(name, **changes):
    dataset_class = datasets.get_dataset_class(name)
    return dataset_class(Namespace(**{"dataset": name, "seed": 0, **default_args(dataset_class),
                                      **changes}))


@pytest.fixture
def data_folder(real_data):
    before = base_path()
    base_path(real_data)
    yield real_data
    base_path(before)


@pytest.mark.parametrize("name", FACTS)
def test_published_facts(name):
    dataset = make(name)
    fields = [getattr(dataset, field) for field in
              ("SETTING", "N_TASKS", "N_CLASSES_PER_TASK", "N_CLASSES", "SIZE")]
    batch, epochs, backbone = FACTS[name][5:]
    assert fields == list(FACTS[name][:5])
    assert dataset.get_batch_size() == batch and dataset.get_epochs() == epochs
    assert dataset.get_backbone() == backbone and dataset.get_minibatch_size() == batch
    assert dataset.get_loss() is functional.cross_entropy and dataset.get_iters() is None
    assert DEFAULT_ARGS[name]["n_epochs"] == epochs
    if name != "seq-tinyimg":
        assert len(dataset.get_class_names()) == FACTS[name][3]


def test_registry_lists_exactly_these_benchmarks():
    assert set(FACTS) <= set(datasets.get_dataset_names(names_only=True))


def test_cifar100_brings_its_schedule():
    defaults = default_args(datasets.get_dataset_class("seq-cifar100"))
    assert defaults["lr_scheduler"] == "multisteplr" and defaults["lr_milestones"] == [35, 45]
    assert defaults["sched_multistep_lr_gamma"] == 0.1


def test_colour_transforms_keep_the_contract():
    dataset = make("seq-cifar10")
    outer = dataset.get_transform().transforms
    assert [type(t).__name__ for t in outer] == ["ToPILImage", "Compose"]
    assert [type(t).__name__ for t in outer[1].transforms] == [
        "RandomCrop", "RandomHorizontalFlip", "ToTensor", "Normalize"]
    assert outer[1].transforms[0].padding == 4 and outer[1].transforms[1].p == 0.5
    images = torch.rand(2, 3, 32, 32)
    normal = dataset.get_normalization_transform()(images)
    assert torch.allclose(dataset.get_denormalization_transform()(normal), images, atol=1e-6)
    strong = datasets.get_dataset_class("seq-cifar10")(dataset.args, transform_type="strong")
    assert "ColorJitter" in [type(t).__name__ for t in strong.TRANSFORM.transforms]
    assert "ColorJitter" not in [type(t).__name__ for t in dataset.TRANSFORM.transforms]
    with pytest.raises(UsageError, match="weak or strong"):
        datasets.get_dataset_class("seq-cifar10")(dataset.args, transform_type="odd")


def test_grey_benchmarks_have_no_transforms():
    dataset = make("seq-digits")
    assert dataset.get_transform() is None and dataset.get_normalization_transform() is None
    assert dataset.get_denormalization_transform() is None


def test_seq_digits_tasks_partition_the_data():
    dataset = make("seq-digits")
    assert dataset.c_task == -1
    with pytest.raises(ValueError, match="first"):
        _ = dataset.current_task
    train_total = test_total = 0
    for task in range(5):
        train, test = dataset.get_data_loaders()
        assert set(train.dataset.targets.tolist()) == {2 * task, 2 * task + 1}
        assert set(test.dataset.targets.tolist()) == {2 * task, 2 * task + 1}
        assert dataset.get_offsets() == (2 * task, 2 * task + 2) == dataset.get_offsets(task)
        train_total += len(train.dataset)
        test_total += len(test.dataset)
    assert train_total + test_total == 1797 and abs(test_total / 1797 - 0.2) < 0.01
    assert dataset.current_task == len(dataset.test_loaders) == 5
    assert dataset.train_loader is train and dataset.test_loaders[4] is test


def test_digits_split_is_the_same_for_every_seed():
    one, other = make("seq-digits", seed=1), make("seq-digits", seed=2)
    first, second = (d.get_data_loaders()[0].dataset.data for d in (one, other))
    assert torch.equal(first, second) and first.dtype == torch.uint8 and first.max() == 255


@pytest.mark.parametrize("name", DOMAIN_IL)
def test_domain_tasks_depend_on_seed_and_task_only(name):
    def first_images(seed, disturb=False):
        dataset, found = make(name, seed=seed), []
        for _ in range(3):
            if disturb:
                np.random.rand(5)
                torch.rand(5)
            _, test = dataset.get_data_loaders()
            found.append(next(iter(test))[0])
        return found

    plain, disturbed, other = first_images(0), first_images(0, disturb=True), first_images(1)
    raw = make("seq-digits").load_split(False)[0][:32, None].float().div(255)
    for task in range(3):
        assert torch.equal(plain[task], disturbed[task])
        assert not torch.equal(plain[task], other[task])
        assert not torch.equal(plain[task], plain[task - 1])
        assert not torch.equal(plain[task], raw)


@pytest.mark.parametrize("name", DOMAIN_IL)
def test_train_and_test_share_the_task_and_validation_does_not_change_it(name):
    dataset, validated = make(name), make(name, validation=10)
    for _ in range(2):
        train, test = dataset.get_data_loaders()
        held_out, _ = validated.get_data_loaders()
        domains = [loader.dataset.domain for loader in (train, test, held_out)]
        image = torch.rand(1, 1, 8, 8)
        first, *rest = (domain.on_batch(image) for domain in domains)
        assert all(torch.equal(first, other) for other in rest)
    assert dataset.get_offsets() == (0, 10) and dataset.c_task == -1


@pytest.mark.parametrize("name", DOMAIN_IL)
def test_custom_task_order_reorders_domains(name):
    plain, reordered = make(name), make(name, custom_task_order="4,0,3,1,2")
    tests = [[d.get_data_loaders()[1] for _ in range(5)] for d in (plain, reordered)]
    for place, task in enumerate([4, 0, 3, 1, 2]):
        ours, theirs = next(iter(tests[0][task])), next(iter(tests[1][place]))
        assert torch.equal(ours[0], theirs[0])


def test_unseeded_run_keeps_its_tasks_through_the_arguments():
    dataset = make("perm-digits", seed=None)
    torch.manual_seed(5)
    again = datasets.get_dataset_class("perm-digits")(dataset.args)
    first, second = (next(iter(d.get_data_loaders()[1]))[0] for d in (dataset, again))
    assert torch.equal(first, second)


def test_training_order_is_seeded_and_differs_between_tasks():
    def orders(seed):
        dataset = make("perm-digits", seed=seed)
        return [next(iter(dataset.get_data_loaders()[0]))[1].tolist() for _ in range(2)]

    assert orders(0) == orders(0) != orders(1)
    assert orders(0)[0] != orders(0)[1]


def test_joint_is_one_task():
    dataset = make("seq-digits", joint=1)
    assert dataset.N_TASKS == 1 and dataset.N_CLASSES_PER_TASK == 10
    train, _ = dataset.get_data_loaders()
    assert len(train.dataset) == 1438


def test_default_decorator_inheritance_and_duplicates():
    class Parent(ContinualDataset):
        NAME = "test-parent"

        @set_default_from_args("n_epochs")
        def get_epochs():
            return 3

        @set_default_from_args("batch_size")
        def get_batch_size(self):
            return 7

        @set_default_from_args("lr")
        def needs_self(self):
            return self.something

    class Child(Parent):
        NAME = "test-child"

        @set_default_from_args("n_epochs")
        def get_epochs(self):
            return 4

    assert DEFAULT_ARGS["test-parent"] == {"n_epochs": 3, "batch_size": 7}
    assert DEFAULT_ARGS["test-child"] == {"n_epochs": 4, "batch_size": 7}
    assert Parent.get_epochs() == 3 and Child.get_batch_size() == 7
    with pytest.raises(ValueError, match="n_epochs"):
        class Twice(ContinualDataset):
            NAME = "test-twice"

            @set_default_from_args("n_epochs")
            def get_epochs():
                return 3

            @set_default_from_args("n_epochs")
            def get_more_epochs():
                return 4


def test_variants_set_fields_and_defaults_and_can_be_undone():
    dataset_class = datasets.get_dataset_class("seq-cifar10")
    mean, transform = dataset_class.MEAN, dataset_class.TRANSFORM
    parser = ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=1)
    config, _ = dataset_settings("seq-cifar10", "er_ace")
    rest = dataset_class.set_default_from_config(config, parser)
    assert rest == {"backbone": "reduced-resnet18", "batch_size": 10, "n_epochs": 1}
    assert dataset_class.MEAN == (0.5, 0.5, 0.5) and dataset_class.STD == (2, 2, 2)
    assert [type(t).__name__ for t in dataset_class.TRANSFORM.transforms] == ["ToTensor",
                                                                              "Normalize"]
    assert parser.parse_args([]).batch_size == 10
    dataset_class.set_default_from_config({}, parser)
    assert dataset_class.MEAN is mean and dataset_class.TRANSFORM is transform
    assert not hasattr(dataset_class, "batch_size")


def test_variant_transforms_cover_the_forms_of_the_contract():
    dataset_class = datasets.get_dataset_class("seq-cifar10")
    described = ["RandomHorizontalFlip", {"RandomCrop": {"size": 32, "padding": 4}}, {"Resize": 8},
                 {"RandomApply": {"p": 0.3, "transform": {"ColorJitter": {"hue": 0.1}}}}]
    try:
        dataset_class.set_default_from_config({"transform": described}, ArgumentParser())
        steps = dataset_class.TRANSFORM.transforms
        assert [type(t).__name__ for t in steps] == ["RandomHorizontalFlip", "RandomCrop",
                                                     "Resize", "RandomApply"]
        assert steps[2].size == 8 and steps[3].p == 0.3
        with pytest.raises(UsageError, match="RandomNonsense"):
            dataset_class.set_default_from_config({"TRANSFORM": ["RandomNonsense"]},
                                                  ArgumentParser())
    finally:
        dataset_class.set_default_from_config({}, ArgumentParser())


@pytest.mark.parametrize("name, variant, tasks", [
    ("perm-mnist", "10tasks", 10), ("seq-cifar100", "20tasks", 20), ("seq-cifar100", "5tasks", 5)])
def test_task_number_variants(name, variant, tasks):
    dataset_class = datasets.get_dataset_class(name)
    try:
        config, _ = dataset_settings(name, variant)
        dataset_class.set_default_from_config(config, ArgumentParser())
        dataset = make(name)
        assert len(dataset.task_order) == tasks
        assert dataset.SETTING == "domain-il" or tasks * dataset.N_CLASSES_PER_TASK == 100
    finally:
        dataset_class.set_default_from_config({}, ArgumentParser())


@pytest.mark.parametrize("first, second, size", [(10, 7, 4), (0, 5, 3), (1, 100, 16), (5, 5, 1)])
def test_mix_sizes_uses_everything_in_full_batches(first, second, size):
    sizes = mix_sizes(first, second, size)
    assert sum(a for a, _ in sizes) == first and sum(b for _, b in sizes) == second
    assert all(a + b == size for a, b in sizes[:-1]) and 0 < sum(sizes[-1]) <= size


def test_mnist_360_stream_pairs_angles_and_coverage():
    labels = np.random.default_rng(0).integers(0, 9, 900)
    order, angles, sizes = training_stream(labels, 8, np.random.default_rng(1))
    assert sorted(order) == list(range(900)) and sum(sizes) == 900
    shown = labels[order]
    for digit in range(9):
        count = (labels == digit).sum()
        expected = ((digit - 1) * 60 + np.arange(count) * 360 / count) % 360
        assert np.allclose(angles[shown == digit], expected)
    pairs = [tuple(sorted(set(part))) for part in np.split(shown, np.cumsum(sizes)[:-1])]
    changes = [pair for i, pair in enumerate(pairs) if len(pair) == 2 and pair != pairs[i - 1]]
    around = [(d, d + 1) for d in range(8)] + [(0, 8)]
    assert list(dict.fromkeys(changes)) == around and len(changes) == 27
    test_order, test_angles, test_sizes = evaluation_stream(labels, 8)
    assert list(labels[test_order]) == sorted(labels) and sum(test_sizes) == 900
    assert test_angles[0] == 0 and test_angles.max() < 360


def test_mnist_360_refuses_epochs_and_partial_labels():
    with pytest.raises(UsageError, match="n_epochs 1"):
        make("mnist-360", n_epochs=2)
    with pytest.raises(UsageError, match="label_perc"):
        make("mnist-360", label_perc=0.5)


@pytest.mark.parametrize("name, train, test", [
    ("seq-mnist", 12665, 2115), ("seq-fmnist", 12000, 2000), ("perm-mnist", 60000, 10000),
    ("rot-mnist", 60000, 10000), ("mnist-360", 54051, 8991), ("seq-cifar10", 10000, 2000),
    ("seq-cifar100", 5000, 1000)])
def test_real_sizes_of_the_first_task(data_folder, name, train, test):
    dataset = make(name)
    train_loader, test_loader = dataset.get_data_loaders()
    assert (len(train_loader.dataset), len(test_loader.dataset)) == (train, test)
    batch = next(iter(train_loader))
    channels = 3 if "cifar" in name else 1
    assert batch[0].shape == batch[2].shape == (dataset.get_batch_size(), channels, *dataset.SIZE)
    assert batch[2].min() >= 0 and batch[2].max() <= 1 and batch[1].dtype == torch.int64
    assert (batch[0] is batch[2]) == (channels == 1)


def test_mnist_360_is_the_same_stream_for_the_same_seed(data_folder):
    one, same, other = (iter(make("mnist-360", seed=s).get_data_loaders()[0]) for s in (0, 0, 1))
    first, second, third = next(one), next(same), next(other)
    assert torch.equal(first[0], second[0]) and not torch.equal(first[0], third[0])
    assert set(first[1].tolist()) == {0, 1}
