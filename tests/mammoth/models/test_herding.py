"""Herding against its definition; exemplar memories filled class by class."""
from argparse import Namespace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset

from backbone.MNISTMLP import mnistmlp
from engine.errors import UsageError
from models.utils.herding import herding_order
from utils.buffer import Buffer, fill_buffer, icarl_replay


def assert_herded(features, order):
    """Algorithm 4 of the iCaRL paper, one candidate at a time; of equally good ones any will do."""
    mean, total, left = features.mean(0), torch.zeros(features.shape[1]), set(range(len(features)))
    for k, row in enumerate(order, start=1):
        costs = {i: float((mean - (features[i] + total) / k).norm()) for i in left}
        assert costs[row] <= min(costs.values()) + 1e-9
        left.remove(row)
        total = total + features[row]


@settings(max_examples=40)
@given(st.integers(1, 30), st.integers(1, 40), st.integers(1, 6), st.integers(0, 10**6))
@example(2, 1, 2, 30)  # two rows are equally far from their mean
def test_herding_equals_slow_definition(rows, count, width, seed):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, width, generator=generator, dtype=torch.float64) + 3
    order = herding_order(features, count).tolist()
    assert len(order) == min(count, rows)
    assert_herded(features, order)


def test_herding_chooses_each_row_once():
    features = torch.ones(6, 3)
    assert sorted(herding_order(features, 10).tolist()) == list(range(6))


def test_herding_first_choice_is_nearest_to_the_mean():
    features = torch.tensor([[0.0], [10.0], [5.2], [4.0]])
    assert herding_order(features, 1).tolist() == [2]
    with pytest.raises(ValueError, match="features"):
        herding_order(torch.zeros(3), 1)


class Images(Dataset):
    """Images as bytes, with the items that the harness's training sets have."""

    def __init__(self, classes, per_class, seed, layout="gray"):
        generator = np.random.default_rng(seed)
        shape = {"gray": (8, 8), "colour": (8, 8, 3)}[layout]
        self.targets = np.repeat(np.asarray(classes), per_class)
        self.data = generator.integers(0, 256, (len(self.targets), *shape), dtype=np.uint8)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        image = torch.as_tensor(self.data[index]) / 255
        image = image.unsqueeze(0) if image.dim() == 2 else image.permute(2, 0, 1)
        return image, int(self.targets[index]), image


class Benchmark:
    """Two classes per task; each call of `next_task` moves on."""

    def __init__(self, size, setting="class-il", layout="gray"):
        self.args = Namespace(buffer_size=size, batch_size=16, seed=0, num_workers=0)
        self.SETTING, self.task, self.layout = setting, -1, layout

    def next_task(self):
        self.task += 1
        first = 0 if self.SETTING == "domain-il" else 2 * self.task
        train_set = Images([first, first + 1], 20, self.task, self.layout)
        self.train_loader = DataLoader(train_set, batch_size=16, generator=torch.Generator())

    def get_offsets(self, task):
        return (0, 2) if self.SETTING == "domain-il" else (2 * task, 2 * task + 2)

    def get_normalization_transform(self):
        return None


@pytest.fixture
def net():
    torch.manual_seed(0)
    return mnistmlp(8, mlp_hidden_size=16, input_size=64)


def test_fill_buffer_divides_evenly_and_keeps_the_first(net):
    benchmark, buffer = Benchmark(21), Buffer(21)
    net.train()
    kept = {}
    for task, share in enumerate((10, 5, 3)):
        benchmark.next_task()
        fill_buffer(buffer, benchmark, task, net=net, use_herding=True, normalize_features=True)
        x, y = buffer.get_all_data()
        assert torch.bincount(y).tolist() == [share] * (2 * task + 2)
        for label, before in kept.items():
            assert torch.equal(x[y == label], before[:share])
        kept = {label: x[y == label] for label in y.unique().tolist()}
        assert buffer.buffer_size == 21 and len(buffer) == share * (2 * task + 2)
    assert net.training


def test_fill_buffer_herds_in_order_of_the_slow_definition(net):
    benchmark, buffer = Benchmark(10), Buffer(10)
    benchmark.next_task()
    fill_buffer(buffer, benchmark, 0, net=net, use_herding=True, normalize_features=True,
                required_attributes=["examples", "labels", "logits", "task_labels"])
    x = torch.as_tensor(benchmark.train_loader.dataset.data[:20]).unsqueeze(1) / 255
    with torch.no_grad():
        features = net(x, returnt="features")
        features = features / features.norm(dim=1, keepdim=True)
    stored = buffer.get_all_data()
    order = [(x == image).flatten(1).all(1).nonzero().item() for image in stored[0][:5]]
    assert_herded(features, order)
    with torch.no_grad():
        assert torch.allclose(stored[2][:5], net(x[order]).sigmoid(), atol=1e-6)
    assert stored[3].tolist() == [0] * 10


def test_fill_buffer_extends_to_equal_shares(net):
    benchmark, buffer = Benchmark(3), Buffer(3)
    everything = Buffer(-1, sample_selection_strategy="unlimited")
    for task in range(2):
        benchmark.next_task()
        for memory in (buffer, everything):
            fill_buffer(memory, benchmark, task, net=net, use_herding=True,
                        extend_equalize_buffer=True)
    assert buffer.buffer_size == 4
    assert torch.bincount(buffer.get_all_data()[1]).tolist() == [1, 1, 1, 1]
    assert torch.bincount(everything.get_all_data()[1]).tolist() == [20, 20, 20, 20]


def test_fill_buffer_at_random_leaves_global_generators_alone():
    benchmark, buffer = Benchmark(12, "domain-il"), Buffer(12)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    for task in range(3):
        benchmark.next_task()
        fill_buffer(buffer, benchmark, task,
                    required_attributes=["examples", "labels", "task_labels"])
    assert torch.equal(torch.get_rng_state(), state)
    _, y, t = buffer.get_all_data()
    assert torch.bincount(y + 2 * t).tolist() == [2] * 6


def test_fill_buffer_too_small_or_incomplete_is_refused(net):
    benchmark = Benchmark(1)
    benchmark.next_task()
    with pytest.raises(UsageError, match="at least 2"):
        fill_buffer(Buffer(1), benchmark, 0, net=net)
    with pytest.raises(UsageError, match="pass the network"):
        fill_buffer(Buffer(4), benchmark, 0, use_herding=True)
    buffer = Buffer(4)
    buffer.add_data(torch.zeros(1, 1, 8, 8), labels=torch.zeros(1))
    with pytest.raises(UsageError, match="task_labels"):
        fill_buffer(buffer, benchmark, 0, required_attributes=["examples", "labels",
                                                               "task_labels"])


@pytest.mark.parametrize("layout", ["gray", "colour"])
@pytest.mark.parametrize("tensors", [False, True])
def test_icarl_replay_restores_the_stored_bytes(layout, tensors):
    benchmark, buffer = Benchmark(6, layout=layout), Buffer(6)
    benchmark.next_task()
    first = benchmark.train_loader.dataset
    for i in range(6):
        buffer.add_data(first[i][0].unsqueeze(0), labels=torch.tensor([first[i][1]]))
    model = Namespace(current_task=0, buffer=buffer, args=benchmark.args)
    benchmark.next_task()
    train_set = benchmark.train_loader.dataset
    if tensors:
        train_set.data = torch.from_numpy(train_set.data)
        train_set.targets = torch.from_numpy(train_set.targets)
    icarl_replay(model, benchmark)
    assert len(train_set) == 40
    model.current_task = 1
    icarl_replay(model, benchmark)
    assert len(train_set) == 46 and type(train_set.data) is type(train_set.targets)
    assert np.array_equal(np.asarray(train_set.data[40:]), first.data[:6])
    assert np.asarray(train_set.targets[40:]).tolist() == first.targets[:6].tolist()
    assert np.asarray(train_set.data).dtype == np.uint8
    fill_buffer(buffer, benchmark, 1)
    assert len(train_set) == 40
    assert torch.bincount(buffer.get_all_data()[1]).tolist() == [1, 0, 1, 1]


def test_icarl_replay_sets_validation_data_aside():
    benchmark, buffer = Benchmark(40), Buffer(40)
    benchmark.next_task()
    first = benchmark.train_loader.dataset
    buffer.add_data(torch.stack([first[i][0] for i in range(40)]),
                    labels=torch.as_tensor(first.targets))
    model = Namespace(current_task=1, buffer=buffer, args=benchmark.args)
    benchmark.next_task()
    train_set = benchmark.train_loader.dataset
    icarl_replay(model, benchmark, val_set_split=0.5)
    held = int((model.val_dataset.targets < 2).sum())
    assert 8 <= held <= 32 and int((model.val_dataset.targets >= 2).sum()) == held
    assert len(train_set) == 80 - 2 * held
    together = np.concatenate([train_set.data, model.val_dataset.data])
    whole = np.concatenate([first.data, Images([2, 3], 20, 1).data])
    assert np.array_equal(np.unique(together, axis=0), np.unique(whole, axis=0))
    assert sum(len(batch[1]) for batch in model.val_loader) == 2 * held
