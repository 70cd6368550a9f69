"""The in-memory dataset, its wrapper and the fast loader."""
import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import utils.torchvision_compat  # noqa: F401
from datasets.transforms.permutation import Permutation
from datasets.utils.images import ImageDataset
from datasets.utils.loaders import TensorLoader
from datasets.utils.seeds import torch_generator
from datasets.utils.wrapper import MammothDatasetWrapper
from engine.errors import UsageError

from torchvision import transforms  # isort: skip
from torchvision.transforms import functional as TF  # isort: skip


def _wrapped(count=23, channels=None, transform=None, train=True, domain=None):
    shape = (count, 6, 6) if channels is None else (count, 6, 6, channels)
    generator = torch.Generator().manual_seed(0)
    data = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    dataset = ImageDataset(data, torch.arange(count), transform, train, domain)
    return MammothDatasetWrapper(dataset, train=train)


def _loader(dataset=None, seed=1, **options):
    options = {"batch_size": 5, "shuffle": True, **options}
    return TensorLoader(_wrapped() if dataset is None else dataset,
                        generator=torch_generator(seed), **options)


def _labels(batches):
    return [batch[1].tolist() for batch in batches]


@settings(max_examples=30)
@given(count=st.integers(1, 40), size=st.integers(1, 12), drop=st.booleans())
def test_each_pass_covers_every_sample_once(count, size, drop):
    loader = _loader(_wrapped(count), batch_size=size, drop_last=drop)
    batches = _labels(loader)
    seen = sum(batches, [])
    assert len(batches) == len(loader)
    assert len(set(seen)) == len(seen) == (count - count % size if drop else count)


def test_order_depends_on_seed_and_pass():
    one, same, other = _loader(), _loader(), _loader(seed=2)
    first = _labels(one)
    assert first == _labels(same) != _labels(other)
    assert _labels(one) != first
    assert _labels(_loader(shuffle=False)) == [list(range(i, min(i + 5, 23)))
                                               for i in range(0, 23, 5)]


def test_order_and_batches_leave_global_generators_alone():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    list(_loader())
    assert torch.equal(state, torch.get_rng_state())


def test_to_float_equals_to_tensor_for_every_byte():
    grey = torch.arange(256, dtype=torch.uint8).view(1, 16, 16)
    colour = torch.arange(192, dtype=torch.uint8).view(1, 8, 8, 3)
    for data in (grey, colour):
        image, label, plain = ImageDataset(data, [3], train=True)[0]
        assert torch.equal(image, TF.to_tensor(data[0].numpy())) and label == 3
        assert image.is_contiguous() and torch.equal(image, plain)
        pil = TF.to_pil_image(data[0].numpy())
        transform = ImageDataset(data, [3], train=True).not_aug_transform
        assert torch.equal(transform(pil), image) and torch.equal(transform(data[0]), image)


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("domain", [None, Permutation(36, np.random.default_rng(0))])
def test_batches_equal_plain_dataloader_over_the_same_wrapper(train, domain):
    dataset = _wrapped(train=train, domain=domain)
    for ours, theirs in zip(_loader(dataset, shuffle=False), DataLoader(dataset, batch_size=5),
                            strict=True):
        assert len(ours) == len(theirs) == (3 if train else 2)
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_without_transform_input_and_plain_image_are_one_object():
    batch = next(iter(_loader()))
    assert batch[0] is batch[2]


def test_transform_applies_to_first_field_only():
    normalise = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5] * 3,
                                                                                [0.2] * 3)])
    dataset = _wrapped(channels=3, transform=normalise)
    image, _, plain = next(iter(_loader(dataset)))
    assert torch.equal(image, TF.normalize(plain, [0.5] * 3, [0.2] * 3))
    dataset.transform = None
    image, _, plain = next(iter(_loader(dataset)))
    assert image is plain and dataset.dataset.transform is None


@pytest.mark.parametrize("position", [0, 1, 3, 5])
def test_interrupted_pass_resumes_with_the_rest_of_its_order(position):
    loader = _loader()
    list(loader)
    running = iter(loader)
    whole_start = [next(running)[1].tolist() for _ in range(position)]
    state = copy.deepcopy(loader.state_dict())
    rest, following = _labels(running), _labels(loader)
    assert state["position"] == position

    resumed = _loader(seed=99)
    resumed.load_state_dict(state)
    resumed.skip_batches(position)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert _labels(resumed) == rest
    assert torch.equal(before, torch.get_rng_state())
    assert _labels(resumed) == following
    assert sorted(sum(whole_start + rest, [])) == list(range(23))


def test_state_between_passes_continues_with_the_next_order():
    loader = _loader()
    list(loader)
    next(iter(loader))  # a model that peeks leaves an abandoned pass behind
    state = loader.state_dict()
    assert state["pass_start"] is None
    expected = _labels(loader)
    resumed = _loader(seed=99)
    resumed.load_state_dict(state)
    assert _labels(resumed) == expected


def test_peeking_during_a_pass_does_not_disturb_resumption():
    loader = _loader()
    running = iter(loader)
    next(running)
    next(iter(loader))
    state = loader.state_dict()
    rest, following = _labels(running), _labels(loader)
    resumed = _loader(seed=99)
    resumed.load_state_dict(state)
    resumed.skip_batches(state["position"])
    assert _labels(resumed) == rest and _labels(resumed) == following


def test_explicit_batch_sizes_are_kept():
    loader = _loader(shuffle=False, batch_sizes=[3, 0, 20])
    assert [len(batch[1]) for batch in loader] == [3, 0, 20] and len(loader) == 3


def test_loader_answers_what_dataloader_users_ask():
    loader = _loader()
    assert loader.num_workers == 0 and loader.batch_size == 5 and not loader.drop_last
    assert sorted(loader.sampler) == list(range(23))
    assert list(_loader(shuffle=False).sampler) == list(range(23))


def test_wrapper_counts_passes_and_reads_through():
    dataset = _wrapped()
    loader = _loader(dataset)
    assert dataset.num_times_iterated == 0
    list(loader)
    next(iter(loader))
    assert dataset.num_times_iterated == 2
    dataset.targets = dataset.targets + 1
    assert dataset.dataset.targets[0] == 1
    assert len(copy.deepcopy(dataset)) == len(dataset) == len(list(dataset))
    with pytest.raises(AttributeError):
        _ = dataset.nothing_of_this_name


def test_extra_fields_of_both_lengths_follow_their_samples():
    dataset = _wrapped(10)
    dataset.add_extra_return_field("twice", torch.arange(10) * 2)
    rows = np.array([1, 4, 7])
    dataset.data, dataset.targets, dataset.indexes = (
        part[rows] for part in (dataset.data, dataset.targets, dataset.indexes))
    dataset.logits = torch.arange(3.)
    dataset.extra_return_fields += ("logits",)
    batch = next(iter(_loader(dataset, shuffle=False)))
    assert batch[3].tolist() == [2, 8, 14] and batch[4].tolist() == [0, 1, 2]
    assert dataset[2][3:] == (14, 2.0)


def test_model_may_replace_data_by_numpy_arrays():
    loader = _loader(shuffle=False)
    dataset = loader.dataset
    dataset.data = np.concatenate([dataset.data, dataset.data[:2]])
    dataset.targets = np.concatenate([dataset.targets, dataset.targets[:2]])
    labels = sum(_labels(loader), [])
    assert len(loader) == 5 and labels == [*range(23), 0, 1]


def test_wrapper_without_targets_names_what_is_missing():
    with pytest.raises(UsageError, match="lacks targets"):
        MammothDatasetWrapper(type("Bare", (), {"data": [1], "__len__": lambda self: 1})())


def test_index_beyond_the_end_raises_index_error():
    with pytest.raises(IndexError):
        _wrapped(3)[3]
    assert _wrapped(3)[-1][1] == 2
