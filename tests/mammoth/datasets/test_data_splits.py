"""Validation, label noise, missing labels, class order, and datasets made by others."""
import math
from argparse import Namespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import utils.torchvision_compat  # noqa: F401
from datasets.seq_digits import SequentialDigits
from datasets.utils.class_order import fix_class_names_order
from datasets.utils.continual_dataset import ContinualDataset, store_masked_loaders
from datasets.utils.label_noise import build_noisy_labels, noisy_labels
from datasets.utils.validation import get_validation_indexes
from engine.errors import UsageError
from utils.conf import base_path

from torchvision import transforms  # isort: skip


def make(**changes):
    return SequentialDigits(Namespace(**{"dataset": "seq-digits", "seed": 0, "batch_size": 32,
                                         **changes}))


def all_tasks(dataset):
    return [dataset.get_data_loaders() for _ in range(dataset.N_TASKS)]


@pytest.mark.parametrize("validation, fraction", [(10, 0.1), (0.25, 0.25), (1, 0.01), (33, 0.33)])
def test_validation_takes_ceil_of_each_class_and_is_disjoint(validation, fraction):
    whole = Namespace(targets=SequentialDigits.load_split(None, True)[1])
    stay, held_out = get_validation_indexes(validation, whole, 0)
    assert sorted([*stay, *held_out]) == list(range(len(whole.targets)))
    for label in range(10):
        count = int((whole.targets == label).sum())
        assert (whole.targets[held_out] == label).sum() == math.ceil(count * fraction)
    assert not np.array_equal(held_out, get_validation_indexes(validation, whole, 1)[1])


@pytest.mark.parametrize("validation", [100, -1, 250])
def test_validation_out_of_range_is_refused(validation):
    with pytest.raises(UsageError, match="--validation"):
        make(validation=validation).get_data_loaders()


def test_validation_replaces_test_data_and_shrinks_training():
    plain, held = make(), make(validation=20)
    train, (less, val) = plain.get_data_loaders()[0], held.get_data_loaders()
    assert len(less.dataset) + len(val.dataset) == len(train.dataset)
    assert not set(less.dataset.indexes) & set(val.dataset.indexes)
    source = plain.load_split(True)[0]
    assert torch.equal(val.dataset.data, source[torch.from_numpy(val.dataset.indexes)])
    assert len(next(iter(val))) == 2 and len(next(iter(less))) == 3


def test_validation_mode_complete_includes_past_classes():
    dataset = make(validation=20, validation_mode="complete")
    tests = [test for _, test in all_tasks(dataset)]
    assert set(tests[2].dataset.targets.tolist()) == set(range(6))
    with pytest.raises(UsageError, match="validation_mode"):
        make(validation_mode="all").get_data_loaders()


def test_symmetric_noise_has_its_rate_in_each_class():
    targets = np.repeat(np.arange(5), 200)
    noisy = noisy_labels(targets, 0.3, np.random.default_rng(0))
    for label in range(5):
        assert (noisy[targets == label] != label).sum() == 60
    assert set(noisy) == set(range(5))


def test_noise_keeps_true_labels_beside_each_sample(tmp_path):
    before = base_path()
    base_path(str(tmp_path))
    try:
        dataset = make(noise_rate=0.4, noise_type="symmetric", disable_noisy_labels_cache=False)
        seen_true, seen_wrong = [], 0
        for train, test in all_tasks(dataset):
            assert train.dataset.extra_return_fields == ("true_labels",)
            for _, labels, _, true in train:
                seen_true += true.tolist()
                seen_wrong += int((labels != true).sum())
            assert len(next(iter(test))) == 2
        kept = list(tmp_path.rglob("*.npz"))
        again = make(noise_rate=0.4, disable_noisy_labels_cache=False)
        first = again.get_data_loaders()[0].dataset.targets
    finally:
        base_path(before)
    whole = dataset.load_split(True)[1]
    assert sorted(seen_true) == sorted(whole.tolist())
    assert abs(seen_wrong / len(whole) - 0.4) < 0.01
    assert kept[0].relative_to(tmp_path).parts[:-1] == ("noisy_labels", "seq-digits", "symmetric",
                                                        "0.4")
    assert torch.equal(first, make(noise_rate=0.4).get_data_loaders()[0].dataset.targets)


@pytest.fixture()
def cached_noise(tmp_path):
    """A function that builds noisy labels with the cache in a folder of its own."""
    before = base_path()
    base_path(str(tmp_path))

    def build(targets, class_order=None, **changes):
        args = Namespace(**{"dataset": "d", "noise_rate": 0.5, "seed": 0, "noise_type": "symmetric",
                            "disable_noisy_labels_cache": False, **changes})
        return build_noisy_labels(targets, args, class_order)

    yield build
    base_path(before)


def test_noise_cache_of_other_labels_is_not_used(tmp_path, cached_noise):
    targets = np.repeat(np.arange(4), 10)
    cached_noise(targets)
    other = cached_noise(targets[::-1].copy())
    assert (other != targets[::-1]).sum() == 20
    assert len(list(tmp_path.rglob("*.npz"))) == 2


@pytest.mark.parametrize(("left", "right"), [(0.28, 0.29), (0.56, 0.57), (0.301, 0.309)])
def test_near_noise_rates_do_not_share_a_file(cached_noise, left, right):
    targets = np.repeat(np.arange(4), 1000)
    for rate in (left, right):
        wrong = cached_noise(targets, noise_rate=rate) != targets
        assert wrong.sum() == 4 * round(rate * 1000)


def test_another_seed_or_class_order_is_another_file(tmp_path, cached_noise):
    targets = np.repeat(np.arange(10), 50)
    cached_noise(targets)
    cached_noise(targets, seed=1)
    cached_noise(targets, class_order=np.arange(10)[::-1])
    assert len(list(tmp_path.rglob("*.npz"))) == 3


@pytest.mark.parametrize("damage", [b"", b"rubbish", None])
def test_damaged_noise_cache_is_made_anew(tmp_path, cached_noise, damage):
    targets = np.repeat(np.arange(4), 10)
    first = cached_noise(targets)
    path = next(tmp_path.rglob("*.npz"))
    if damage is None:  # a file of the right form with other labels in it
        kept = dict(np.load(path))
        np.savez(path, **{**kept, "labels": kept["labels"][::-1]})
    else:
        path.write_bytes(damage)
    assert np.array_equal(cached_noise(targets), first)


def test_asymmetric_noise_makes_plausible_mistakes():
    targets = np.repeat(np.arange(10), 10)
    args = Namespace(dataset="seq-cifar10", noise_rate=0.5, noise_type="asymmetric", seed=0)
    noisy = build_noisy_labels(targets, args)
    changed = {(int(a), int(b)) for a, b in zip(targets, noisy, strict=True) if a != b}
    assert changed == {(9, 1), (2, 0), (4, 7), (3, 5), (5, 3)}
    order = np.roll(np.arange(10), 1)
    moved = build_noisy_labels(order[targets], args, order)
    changed = {(int(a), int(b)) for a, b in zip(order[targets], moved, strict=True) if a != b}
    assert changed == {(order[a], order[b]) for a, b in [(9, 1), (2, 0), (4, 7), (3, 5), (5, 3)]}
    args.dataset = "seq-cifar100"
    hundred = np.repeat(np.arange(100), 4)
    assert (build_noisy_labels(hundred, args) != hundred).sum() == 200


@pytest.mark.parametrize("change, text", [({"noise_rate": 1.5}, "between 0 and 1"), (
    {"noise_rate": 0.1, "noise_type": "asymmetric"}, "symmetric")])
def test_impossible_noise_is_refused(change, text):
    with pytest.raises(UsageError, match=text):
        make(**change).get_data_loaders()


def test_label_percentages_leave_the_right_number_of_labels():
    by_class = make(label_perc_by_class=0.25).get_data_loaders()[0].dataset.targets
    plain = make().get_data_loaders()[0].dataset.targets
    for label in (0, 1):
        assert (by_class == label).sum() == int(0.25 * int((plain == label).sum()))
    by_task = make(label_perc=0.1).get_data_loaders()[0].dataset.targets
    assert [(by_task == label).sum().item() for label in (0, 1)] == [int(0.1 * (288 // 2))] * 2
    assert (by_task == -1).sum() == 288 - 28 and (plain == -1).sum() == 0


def test_permuted_classes_are_private_seeded_and_consistent():
    before = np.random.get_state()[1].copy()
    dataset = make(permute_classes=True)
    order = dataset.args.class_order
    assert np.array_equal(before, np.random.get_state()[1])
    assert np.array_equal(order, make(permute_classes=True).args.class_order)
    assert sorted(order) == list(range(10)) and not np.array_equal(
        order, make(permute_classes=True, seed=1).args.class_order)
    names = dataset.get_class_names()
    originals = dataset.load_split(True)[1]
    for train, _ in all_tasks(dataset):
        labels, indexes = train.dataset.targets, train.dataset.indexes
        assert [int(names[label]) for label in labels] == originals[indexes].tolist()


def test_custom_class_order_lists_originals_in_order_of_learning():
    dataset = make(custom_class_order="3,1,0,2,9,8,7,6,4,5")
    originals = dataset.load_split(True)[1]
    train, _ = dataset.get_data_loaders()
    learned = originals[train.dataset.indexes]
    assert set(learned.tolist()) == {3, 1}
    assert dataset.class_order[[3, 1, 0, 2]].tolist() == [0, 1, 2, 3]
    assert torch.equal(train.dataset.targets == 0, learned == 3)
    assert dataset.get_class_names()[:4] == ["3", "1", "0", "2"]


def test_custom_task_order_lists_original_tasks_in_order_of_learning():
    dataset = make(custom_task_order="4,0,3,1,2")
    originals = dataset.load_split(True)[1]
    first = [sorted(set(originals[train.dataset.indexes].tolist()))
             for train, _ in all_tasks(dataset)]
    assert first == [[8, 9], [0, 1], [6, 7], [2, 3], [4, 5]]


@pytest.mark.parametrize("change", [
    {"custom_class_order": "0,1,2"}, {"custom_class_order": "0,1,2,3,4,5,6,7,8,8"},
    {"custom_task_order": "0,1,2,3,x"}, {"custom_task_order": "5,4,3,2,1"},
    {"custom_task_order": "0,1,2,3,4", "custom_class_order": "0,1,2,3,4,5,6,7,8,9"}])
def test_wrong_orders_are_refused_in_one_sentence(change):
    with pytest.raises(UsageError, match="custom_"):
        make(**change)


def test_class_names_without_reordering_stay():
    assert fix_class_names_order(["a", "b"], Namespace()) == ["a", "b"]


class _Pictures(Dataset):
    """What a torchvision user writes: PIL images, a list of targets, per-sample transforms."""

    def __init__(self, train):
        rng = np.random.default_rng(int(train))
        self.data = rng.integers(0, 256, (40, 12, 12, 3), dtype=np.uint8)
        self.targets = (np.arange(40) % 4).tolist()
        self.train = train
        self.flip = transforms.Compose([transforms.ToPILImage(), transforms.RandomCrop(12, 2),
                                        transforms.ToTensor()])

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        image, target = self.data[index], self.targets[index]
        plain = transforms.functional.to_tensor(image)
        return (self.flip(image), target, plain) if self.train else (plain, target)


class _ThirdParty(ContinualDataset):
    NAME = "test-third-party"
    SETTING = "class-il"
    N_TASKS = 2
    N_CLASSES_PER_TASK = 2
    SIZE = (12, 12)

    def get_data_loaders(self):
        return store_masked_loaders(_Pictures(True), _Pictures(False), self)


def _third_party(**changes):
    return _ThirdParty(Namespace(**{"seed": 0, "batch_size": 8, "num_workers": 0, **changes}))


def test_torchvision_like_dataset_goes_through_a_dataloader():
    dataset = _third_party(noise_rate=0.2)
    assert dataset.N_CLASSES == 4
    dataset.get_data_loaders()
    train, test = dataset.get_data_loaders()
    assert isinstance(train, DataLoader) and len(test.dataset) == 20
    image, label, plain, true = next(iter(train))
    assert image.shape == plain.shape == (8, 3, 12, 12) and label.dtype == torch.int64
    assert true.shape == (8,) and len(next(iter(test))) == 2 and set(label.tolist()) <= {2, 3}
    assert set(test.dataset.targets.tolist()) == {2, 3}


def test_task_ids_replace_class_ranges():
    dataset = _third_party(validation=10)
    ids = [0] * 10 + [1] * 30
    parts = [_Pictures(True), _Pictures(False)]
    for part in parts:
        part.task_ids = list(ids)
    train, test = store_masked_loaders(*parts, dataset)
    assert len(train.dataset) + len(test.dataset) == 10
    assert max(train.dataset.indexes) < 10 and set(np.asarray(train.dataset.task_ids)) == {0}


def test_unequal_tasks_follow_a_custom_order():
    class Unequal(_ThirdParty):
        NAME = "test-unequal"
        N_CLASSES_PER_TASK = [1, 3]

    dataset = Unequal(Namespace(seed=0, batch_size=8, num_workers=0, custom_task_order="1,0"))
    sizes = [len(dataset.get_data_loaders()[0].dataset) for _ in range(2)]
    assert sizes == [30, 10] and dataset.get_offsets(0) == (0, 3)


def test_incomplete_dataset_class_names_its_missing_fields():
    class Incomplete(ContinualDataset):
        SETTING = "class-il"
        N_CLASSES_PER_TASK = 2
        N_TASKS = 2

    with pytest.raises(UsageError, match="SIZE"):
        Incomplete(Namespace(seed=0))
