"""The rehearsal memory: what it returns, what it refuses, how it is saved."""
import copy
import io
import random
from argparse import Namespace

import numpy as np
import pytest
import torch

from engine.errors import RunError, UsageError
from utils.buffer import Buffer
from utils.ring_buffer import RingBuffer

STRATEGIES = ["reservoir", "ring", "balancoir", "unlimited"]


def batch(first, count, classes=5):
    """Samples whose value is their number in the stream."""
    number = torch.arange(first, first + count)
    return {"examples": number.float().view(-1, 1, 1, 1).expand(-1, 1, 2, 2),
            "labels": number % classes}


def numbers(buffer):
    return buffer.get_all_data()[0][:, 0, 0, 0].long().tolist()


def filled(strategy="reservoir", size=8, count=30, **extra):
    buffer = Buffer(size, sample_selection_strategy=strategy, seed=3)
    buffer.add_data(**batch(0, count), **extra)
    return buffer


def test_first_call_decides_types_shapes_and_order():
    buffer = Buffer(10)
    assert buffer.is_empty() and not hasattr(buffer, "examples")
    logits = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    buffer.add_data(torch.ones(4, 1, 2, 2, dtype=torch.uint8), labels=torch.ones(4),
                    logits=logits, task_labels=torch.ones(4) * 2,
                    true_labels=torch.zeros(4, dtype=torch.int32))
    assert buffer.used_attributes == ["examples", "labels", "logits", "task_labels",
                                      "true_labels"]
    assert [getattr(buffer, n).dtype for n in buffer.used_attributes] == [
        torch.float32, torch.int64, torch.float32, torch.int64, torch.int64]
    assert buffer.examples.shape == (10, 1, 2, 2) and not buffer.logits.requires_grad
    x, y, stored, t, true = buffer.get_all_data()
    assert x.shape == (4, 1, 2, 2) and t.tolist() == [2] * 4 and true.tolist() == [0] * 4
    assert torch.equal(stored, logits.detach().float()) and y.tolist() == [1] * 4
    assert len(buffer) == 4 and not buffer.is_full() and not buffer.is_empty()


@pytest.mark.parametrize("given, words", [
    ({"logits": torch.zeros(2, 3)}, "logits"), ({"labels": None}, "examples, labels"),
    ({"labels": torch.zeros(3)}, "shape"), ({"examples": torch.zeros(2, 1, 3, 3)}, "shape"),
    ({"sample_selection_scores": torch.zeros(2)}, "sample_selection_scores")])
def test_batches_that_do_not_fit_are_refused_whole(given, words):
    buffer = filled()
    before = buffer.state_dict()
    with pytest.raises(UsageError, match=words):
        buffer.add_data(**{**batch(0, 2), **given})
    assert buffer.num_seen_examples == before["num_seen_examples"]
    assert torch.equal(buffer.examples[:len(buffer)], before["tensors"]["examples"])


@pytest.mark.parametrize("size", [0, -1])
def test_size_below_one_is_refused(size):
    with pytest.raises(UsageError, match="buffer_size"):
        Buffer(size)
    buffer = Buffer(3)
    with pytest.raises(UsageError, match="buffer_size"):
        buffer.buffer_size = size


def test_unknown_strategy_names_those_that_exist():
    with pytest.raises(UsageError, match="reservoir, ring, balancoir, unlimited.*`lars`"):
        Buffer(3, sample_selection_strategy="lars")
    with pytest.raises(UsageError, match="labels"):
        Buffer(3, sample_selection_strategy="balancoir").add_data(torch.zeros(1, 1))


def test_empty_buffer_cannot_be_read():
    buffer = Buffer(3)
    for read in (lambda: buffer.get_data(1), buffer.get_all_data,
                 lambda: buffer.get_balanced_data(1)):
        with pytest.raises(RunError, match="is_empty"):
            read()
    assert list(buffer) == [] and buffer.serialize() == {}
    buffer.add_data(**batch(0, 0))
    assert buffer.is_empty()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_get_data_draws_without_replacement(strategy):
    buffer = filled(strategy)
    present = set(numbers(buffer))
    x, y = buffer.get_data(5)
    drawn = x[:, 0, 0, 0].long()
    assert len(set(drawn.tolist())) == 5 and set(drawn.tolist()) <= present
    assert torch.equal(drawn % 5, y)
    assert len(buffer.get_data(10**6)[0]) == len(present)


def test_get_data_draws_every_row_equally_often():
    buffer, counts = filled(size=10, count=10), torch.zeros(10)
    for _ in range(2000):
        counts[buffer.get_data(3)[0][:, 0, 0, 0].long()] += 1
    deviation = (counts - 600).square().sum() / (600 * 0.7) * 9 / 10
    assert deviation < 27.9  # 99.9 % of chi-square with 9 degrees of freedom


def test_get_data_index_not_aug_and_transform():
    buffer = filled()
    index, plain, x, y = buffer.get_data(6, transform=lambda t: t + 100, return_index=True,
                                         return_not_aug=True)
    assert torch.equal(buffer.examples[index], plain) and torch.equal(x, plain + 100)
    assert torch.equal(buffer.labels[index], y)
    other = buffer.get_data(2, return_not_aug=True, not_aug_transform=lambda t: t * 0)
    assert other[0].abs().sum() == 0 and len(other) == 3
    forced = buffer.get_data(1, force_indexes=[5, 2])
    assert torch.equal(forced[0], buffer.examples[[5, 2]])


@pytest.mark.parametrize("with_task_labels", [False, True])
def test_task_masks_ignore_rows_never_written(with_task_labels):
    buffer = Buffer(50)
    data = batch(1, 12, classes=6)
    tasks = data["labels"] // 2
    extra, cpt = ({"task_labels": tasks}, None) if with_task_labels else ({}, 2)
    buffer.add_data(**data, **extra)
    for task in range(3):
        index, x, y, *_ = buffer.get_data(50, mask_task_out=task, cpt=cpt, return_index=True)
        assert sorted(x[:, 0, 0, 0].tolist()) == sorted(
            (data["examples"][tasks != task][:, 0, 0, 0]).tolist())
        assert torch.equal(buffer.labels[index], y)
        inside = buffer.get_data(50, mask_task_in=task, cpt=cpt)[1]
        assert (inside // 2 == task).all() and len(inside) == 4
    assert len(buffer.get_data(50, mask_task_in=7, cpt=cpt)[0]) == 0


def test_task_masks_with_classes_per_task_of_different_sizes():
    buffer = Buffer(50)
    buffer.add_data(**batch(0, 12, classes=6))
    assert set(buffer.get_data(50, mask_task_in=1, cpt=[1, 3, 2])[1].tolist()) == {1, 2, 3}
    with pytest.raises(UsageError, match="task_labels"):
        buffer.get_data(3, mask_task_out=0)


def test_balanced_data_gives_equal_shares():
    buffer = Buffer(40)
    y = torch.tensor([0] * 20 + [1] * 10 + [2] * 9 + [3])
    buffer.add_data(torch.arange(40.0).view(-1, 1), labels=y)
    x, drawn = buffer.get_balanced_data(20, n_classes=3)
    assert sorted(torch.bincount(drawn, minlength=4).tolist()) == [0, 6, 7, 7]
    assert len(x.unique()) == 20
    assert sorted(torch.bincount(buffer.get_balanced_data(4)[1]).tolist()) == [1, 1, 1, 1]
    assert len(buffer.get_balanced_data(6, n_classes=1)[1].unique()) == 1
    assert len(buffer.get_balanced_data(30)[1]) == 30  # no even share: uniform instead


def test_rows_by_index_iteration_and_loader():
    buffer = filled(size=7)
    x, y = buffer.get_data_by_index(torch.tensor([3, 1]), transform=lambda t: -t)
    assert torch.equal(x, -buffer.examples[[3, 1]]) and torch.equal(y, buffer.labels[[3, 1]])
    assert torch.equal(buffer[6][0], buffer.examples[6])
    assert torch.equal(buffer[-1][1], buffer.labels[6])
    with pytest.raises(IndexError):
        buffer[7]
    assert torch.equal(torch.stack([row[0] for row in buffer]), buffer.examples)
    args = Namespace(seed=0, num_workers=0)
    for shuffle in (False, True):
        loader = buffer.get_dataloader(args, 3, shuffle=shuffle, transform=lambda t: t + 1)
        parts = [torch.cat(part) for part in zip(*loader, strict=True)]
        order = torch.argsort(parts[0][:, 0, 0, 0]) if shuffle else torch.arange(7)
        expected = torch.argsort(buffer.examples[:, 0, 0, 0]) if shuffle else torch.arange(7)
        assert torch.equal(parts[0][order], buffer.examples[expected] + 1)
        assert torch.equal(parts[1][order], buffer.labels[expected])


def test_all_data_is_a_copy():
    buffer = filled()
    x = buffer.get_all_data()[0]
    before = x.clone()
    buffer.add_data(**batch(100, 500))
    assert torch.equal(x, before) and numbers(buffer) != before[:, 0, 0, 0].tolist()


def test_attention_maps_follow_their_samples():
    buffer = Buffer(4, seed=0)
    for first in range(0, 40, 4):
        layers = [torch.arange(first, first + 4).view(-1, 1), torch.ones(4, 2)]
        buffer.add_data(**batch(first, 4), attention_maps=layers)
    assert [int(maps[0]) for maps in buffer.attention_maps] == numbers(buffer)
    assert buffer.attention_maps[0][0].dtype == torch.uint8
    buffer.buffer_size = 3
    assert [int(maps[0]) for maps in buffer.attention_maps] == numbers(buffer)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_saved_buffer_continues_with_the_same_draws(strategy):
    original = filled(strategy, attention_maps=[torch.zeros(30, 2)])
    file = io.BytesIO()
    torch.save(original.state_dict(), file)
    file.seek(0)
    loaded = Buffer(3, sample_selection_strategy=strategy, seed=99)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    for first in range(30, 90, 7):
        for buffer in (original, loaded):
            buffer.add_data(**batch(first, 7))
        assert torch.equal(original.get_data(4)[0], loaded.get_data(4)[0])
        assert torch.equal(original.get_balanced_data(4)[0], loaded.get_balanced_data(4)[0])
    assert numbers(original) == numbers(loaded)
    assert loaded.num_seen_examples == 93 and loaded.buffer_size == original.buffer_size


def test_state_is_a_snapshot_and_must_match_the_strategy():
    buffer = filled()
    state = buffer.state_dict()
    before = state["tensors"]["examples"].clone()
    buffer.add_data(**batch(100, 500))
    assert torch.equal(state["tensors"]["examples"], before)
    with pytest.raises(UsageError, match="`reservoir` one"):
        Buffer(8, sample_selection_strategy="ring").load_state_dict(state)
    fresh = Buffer(5)
    fresh.load_state_dict(Buffer(8, seed=1).state_dict())
    assert fresh.is_empty() and fresh.buffer_size == 8


def test_serialize_has_all_rows_and_copying_is_deep():
    buffer = Buffer(9, seed=0)
    buffer.add_data(**batch(0, 4))
    tensors = buffer.serialize()
    assert list(tensors) == ["examples", "labels"] and len(tensors["examples"]) == 9
    twin = copy.deepcopy(buffer)
    for one in (buffer, twin):
        one.add_data(**batch(4, 40))
    assert numbers(buffer) == numbers(twin)
    assert buffer.examples.data_ptr() != twin.examples.data_ptr()
    assert buffer.to("cpu") is buffer


def test_empty_forgets_everything_but_the_size():
    buffer = filled("ring")
    buffer.empty()
    assert buffer.is_empty() and len(buffer) == 0 and not hasattr(buffer, "labels")
    buffer.add_data(torch.ones(3, 2))
    assert buffer.used_attributes == ["examples"] and len(buffer) == 3
    assert buffer.buffer_size == 8


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_global_generators_are_untouched(strategy):
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    buffer = filled(strategy)
    buffer.get_data(4, return_not_aug=True)
    buffer.get_balanced_data(4)
    buffer.buffer_size = 4
    buffer.load_state_dict(buffer.state_dict())
    assert list(buffer) and buffer.get_all_data()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1] and random.getstate() == before[2]


def test_seed_decides_the_contents():
    def contents(seed):
        torch.manual_seed(seed)
        buffer = Buffer(10)
        torch.rand(7)  # draws of the method itself do not matter
        buffer.add_data(**batch(0, 200))
        return numbers(buffer)

    assert contents(0) == contents(0) != contents(1)


def test_ring_buffer_keeps_a_part_for_each_task():
    buffer = RingBuffer(10, n_tasks=3)
    assert buffer.is_empty() and buffer.buffer_portion_size == 3
    buffer.add_data(**batch(0, 5))
    assert numbers(buffer) == [3, 4, 2]
    buffer.num_seen_examples, buffer.task_number = 0, 1
    assert not buffer.is_empty() and len(buffer) == 3
    buffer.num_seen_examples, buffer.task_number = 0, 2
    buffer.add_data(**batch(10, 1))
    assert numbers(buffer) == [3, 4, 2, 10] and len(buffer) == 4
    assert sorted(buffer.get_data(9)[0][:, 0, 0, 0].tolist()) == [2, 3, 4, 10]
    loaded = RingBuffer(4, n_tasks=1)
    loaded.load_state_dict(buffer.state_dict())
    for one in (buffer, loaded):
        one.add_data(**batch(20, 3))
    assert numbers(loaded) == numbers(buffer) == [3, 4, 2, 22, 20, 21]
    assert torch.equal(loaded.get_data(3)[0], buffer.get_data(3)[0])
    buffer.task_number = 3
    with pytest.raises(RunError, match="at most 3 tasks"):
        buffer.add_data(**batch(0, 1))
    with pytest.raises(UsageError, match="at least 5"):
        RingBuffer(4, n_tasks=5)
