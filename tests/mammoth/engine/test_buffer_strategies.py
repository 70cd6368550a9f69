"""Which samples stay in memory: theory, naive references, other batches of the same stream."""
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from utils.buffer import Buffer

cuts = st.lists(st.integers(1, 25), min_size=1, max_size=8)


def offer(buffer, sizes, labels=None):
    """Send a stream of consecutive numbers in batches of the given sizes."""
    first = 0
    for count in sizes:
        number = torch.arange(first, first + count)
        y = number % 4 if labels is None else torch.as_tensor(labels[first:first + count])
        buffer.add_data(number.float().unsqueeze(1), labels=y)
        first += count
    return buffer


def numbers(buffer):
    return buffer.examples[:len(buffer), 0].long().tolist()


def draw_one(generator):
    return int(torch.empty(1, dtype=torch.int64).random_(generator=generator))


def naive_reservoir(size, count, seed):
    """Vitter's algorithm R, a sample at a time, with the buffer's random numbers."""
    generator, rows = Buffer(size, seed=seed).generator, []
    for n in range(count):
        if len(rows) < size:
            rows.append(n)
            continue
        slot = draw_one(generator) % (n + 1)
        if slot < size:
            rows[slot] = n
    return rows


def naive_balanced(size, labels, seed):
    """Balanced reservoir, a sample at a time, with the buffer's random numbers."""
    generator, rows = Buffer(size, seed=seed).generator, []
    for n, label in enumerate(labels):
        if len(rows) < size:
            rows.append(n)
            continue
        entry, victim = draw_one(generator), draw_one(generator)
        held = Counter(labels[row] for row in rows)
        if entry % (n + 1) < size or held[label] < np.median([c for c in held.values() if c]):
            most = max(held.values())
            largest = min(y for y in held if held[y] == most)
            slots = [slot for slot, row in enumerate(rows) if labels[row] == largest]
            rows[slots[victim % len(slots)]] = n
    return rows


@settings(max_examples=60)
@given(st.integers(1, 12), cuts, st.integers(0, 10**6))
def test_reservoir_equals_one_by_one(size, sizes, seed):
    buffer = offer(Buffer(size, seed=seed), sizes)
    assert numbers(buffer) == naive_reservoir(size, sum(sizes), seed)
    assert buffer.labels[:len(buffer)].tolist() == [n % 4 for n in numbers(buffer)]
    assert buffer.num_seen_examples == sum(sizes) and len(buffer) == min(size, sum(sizes))


def test_reservoir_last_write_wins():
    """Size 1 and a large batch: nearly every seed has several writes to the one slot."""
    for seed in range(30):
        assert numbers(offer(Buffer(1, seed=seed), [200])) == naive_reservoir(1, 200, seed)


@pytest.mark.parametrize("sizes", [[6], [1] * 6, [2, 3, 1]])
def test_reservoir_makes_every_subset_equally_likely(sizes):
    runs = 3000
    found = Counter(tuple(sorted(numbers(offer(Buffer(3, seed=seed), sizes))))
                    for seed in range(runs))
    subsets = list(combinations(range(6), 3))
    expected = runs / len(subsets)
    statistic = sum((found[s] - expected) ** 2 / expected for s in subsets)
    assert sum(found.values()) == runs and statistic < chi2.ppf(0.999, len(subsets) - 1)


def test_reservoir_inclusion_probability_of_a_long_stream():
    size, count, runs = 20, 200, 1500
    inside = torch.zeros(count)
    for seed in range(runs):
        inside[numbers(offer(Buffer(size, seed=seed), [64, 64, 64, 8]))] += 1
    p = size / count
    statistic = (inside - runs * p).square().sum() / (runs * p * (1 - p)) * (count - 1) / count
    assert statistic < chi2.ppf(0.999, count - 1)


def test_reservoir_after_shrinking_is_uniform_still():
    size, count, runs = 10, 30, 2000
    inside = torch.zeros(count)
    for seed in range(runs):
        buffer = offer(Buffer(size, seed=seed), [count])
        buffer.buffer_size = 5
        assert len(buffer) == 5 == len(buffer.examples)
        inside[numbers(buffer)] += 1
    p = 5 / count
    statistic = (inside - runs * p).square().sum() / (runs * p * (1 - p)) * (count - 1) / count
    assert statistic < chi2.ppf(0.999, count - 1)


def test_growing_takes_new_samples_and_never_shows_unwritten_rows():
    buffer = offer(Buffer(4, seed=0), [20])
    before = numbers(buffer)
    buffer.buffer_size = 7
    assert len(buffer) == 4 and not buffer.is_full() and len(buffer.examples) == 7
    buffer.add_data(torch.full((2, 1), 50.0), labels=torch.zeros(2))
    assert numbers(buffer) == [*before, 50, 50] and buffer.num_seen_examples == 22


def test_num_seen_examples_can_be_declared():
    buffer = offer(Buffer(4, seed=0), [3])
    buffer.num_seen_examples = 0
    assert buffer.is_empty() and len(buffer) == 0
    buffer.num_seen_examples = 100
    assert len(buffer) == 4 and buffer.is_full()


@settings(max_examples=60)
@given(st.integers(1, 12), cuts)
def test_ring_holds_the_newest(size, sizes):
    buffer, total = offer(Buffer(size, sample_selection_strategy="ring"), sizes), sum(sizes)
    expected = [None] * size
    for n in range(total):
        expected[n % size] = n
    assert numbers(buffer) == [n for n in expected if n is not None]


@pytest.mark.parametrize("new_size, kept", [(3, [8, 9, 10]), (5, [6, 7, 8, 9, 10]),
                                            (6, [6, 7, 8, 9, 10])])
def test_ring_of_another_size_goes_on_behind_the_newest(new_size, kept):
    buffer = offer(Buffer(5, sample_selection_strategy="ring"), [11])
    buffer.buffer_size = new_size
    assert sorted(numbers(buffer)) == kept
    buffer.add_data(torch.tensor([[11.0], [12.0]]), labels=torch.zeros(2))
    assert sorted(numbers(buffer)) == [*kept, 11, 12][-new_size:]


@settings(max_examples=40)
@given(st.integers(1, 12), cuts, st.integers(0, 10**6), st.data())
def test_balanced_equals_one_by_one(size, sizes, seed, data):
    total = sum(sizes)
    labels = data.draw(st.lists(st.integers(0, 4), min_size=total, max_size=total))
    buffer = offer(Buffer(size, sample_selection_strategy="balanced", seed=seed), sizes, labels)
    assert numbers(buffer) == naive_balanced(size, labels, seed)


@pytest.mark.parametrize("seed", range(5))
def test_balanced_keeps_classes_balanced_where_reservoir_does_not(seed):
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(10), generator.integers(20, 1500, 10))  # class after class
    sizes = [100] * (len(labels) // 100)
    balanced = offer(Buffer(100, sample_selection_strategy="balancoir", seed=seed), sizes, labels)
    plain = offer(Buffer(100, seed=seed), sizes, labels)
    counts, plain_counts = (np.bincount(b.labels.numpy(), minlength=10)
                            for b in (balanced, plain))
    seen = np.bincount(labels[:100 * len(sizes)], minlength=10)
    assert (counts >= np.minimum(8, seen // 10)).all() and counts.max() <= 14
    assert plain_counts.max() - plain_counts.min() > counts.max() - counts.min()
    assert balanced.sample_selection_strategy == "balancoir"


def test_balanced_memory_shrinks_evenly():
    buffer = Buffer(40, sample_selection_strategy="balancoir", seed=0)
    y = torch.tensor([0] * 20 + [1] * 15 + [2] * 5)
    buffer.add_data(torch.arange(40.0).view(-1, 1), labels=y)
    buffer.buffer_size = 12
    assert torch.bincount(buffer.labels).tolist() == [4, 4, 4]
    assert torch.equal(y[buffer.examples[:, 0].long()], buffer.labels)


@settings(max_examples=30)
@given(cuts)
def test_unlimited_keeps_everything_in_order(sizes):
    buffer = offer(Buffer(-1, sample_selection_strategy="unlimited"), sizes)
    assert numbers(buffer) == list(range(sum(sizes)))
    assert buffer.buffer_size == 10**9 and not buffer.is_full()
    buffer.buffer_size = 3
    assert len(buffer) == sum(sizes)
