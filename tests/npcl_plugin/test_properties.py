"""What must hold whatever the numbers are."""
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nets import FAMILY, network, samples
from torch.distributions import Normal, kl_divergence

from npcl_plugin import objective
from npcl_plugin.answers import additive_answer, answer, answer_by_class
from npcl_plugin.context import Context, covering_rows, misdirect, rows_per_class
from npcl_plugin.gaussians import Gaussian, draw
from npcl_plugin.inference import prepare
from npcl_plugin.layout import Blocks, Cells, Layout, Packed, Slots, cheapest_width
from npcl_plugin.logits import AdditiveLogits, FullLogits
from npcl_plugin.plan import Draws

seeds = st.integers(0, 10**6)
QUICK = settings(max_examples=15)


def some_gaussian(seed, size=6):
    g = torch.Generator().manual_seed(seed)
    return Gaussian(torch.randn(size, generator=g).double() * 3,
                    0.1 + 0.9 * torch.rand(size, generator=g).double())


@QUICK
@given(seeds, seeds)
def test_kl_is_positive_and_zero_iff_equal(a, b):
    p, q = some_gaussian(a), some_gaussian(b)
    assert objective.kl(p, p).abs() < 1e-12
    assert (objective.kl(p, q) > 1e-9) == (a != b)


@QUICK
@given(seeds, seeds)
def test_js_is_symmetric_finite_and_zero_iff_equal(a, b):
    p, q = some_gaussian(a), some_gaussian(b)
    value = objective.js(p, q)
    assert torch.isfinite(value)
    torch.testing.assert_close(value, objective.js(q, p))
    assert objective.js(p, p).abs() < 1e-12
    assert (value > 1e-9) == (a != b)


@QUICK
@given(seeds, seeds, st.sampled_from([1.0, 0.25]))
def test_divergences_and_their_gradients_agree_with_torch(a, b, weight):
    leaves = [t.requires_grad_() for g in (some_gaussian(a), some_gaussian(b))
              for t in (g.mean, g.sd)]
    ours = Gaussian(*leaves[:2]), Gaussian(*leaves[2:])
    theirs = [Normal(g.mean, g.sd) for g in ours]
    middle = Normal((leaves[0] + leaves[2]) / 2, (leaves[1] + leaves[3]) / 2)
    expected = {objective.kl: kl_divergence(*theirs).sum(),
                objective.js: sum(kl_divergence(n, middle).sum() for n in theirs) / 2}
    for function, value in expected.items():
        wanted = leaves if function is objective.kl else leaves[:2]  # js is of a constant
        got = 3 * function(*ours, weight)
        torch.testing.assert_close(got, 3 * float(weight) * value)
        for mine, other in zip(torch.autograd.grad(got, wanted), torch.autograd.grad(
                3 * float(weight) * value, wanted, retain_graph=True), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("function", [objective.kl, objective.js])
def test_weights_of_divergences_broadcast(function):
    g = torch.Generator().manual_seed(0)
    now = Gaussian(torch.randn(4, 3, 5, generator=g).double().requires_grad_(),
                   0.1 + torch.rand(4, 3, 5, generator=g).double())
    then = Gaussian(torch.randn(3, 5, generator=g).double(),
                    0.1 + torch.rand(3, 5, generator=g).double())
    weight = torch.rand(3, generator=g).double()
    slow = sum(weight[k] * function(now[n, k], then[k]) for n in range(4) for k in range(3))
    fast = function(now, Gaussian(then.mean.expand(4, 3, 5), then.sd.expand(4, 3, 5)), weight)
    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(*(torch.autograd.grad(each, now.mean)[0] for each in (fast, slow)))


def test_js_stays_finite_for_distant_distributions():
    far = Gaussian(torch.full((4,), 1e4), torch.full((4,), 0.1))
    assert torch.isfinite(objective.js(far, Gaussian(torch.zeros(4), torch.ones(4))))


@pytest.mark.parametrize("kind", FAMILY)
@QUICK
@given(seed=seeds)
def test_latents_do_not_depend_on_the_order_of_the_set(kind, seed):
    net = network(kind)
    x, labels, tasks, _ = samples(seed=seed)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    one, two = net.encode(x, labels, tasks), net.encode(x[order], labels[order], tasks[order])
    torch.testing.assert_close(one.summary, two.summary, rtol=0, atol=1e-10)
    torch.testing.assert_close(one.global_latents.mean, two.global_latents.mean, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", FAMILY)
def test_answers_do_not_depend_on_the_order_of_context_or_targets(kind):
    net = network(kind)
    net.n_heads.fill_(3)
    x, labels, tasks, _ = samples()
    images = torch.randn(5, 7).double()

    def logits(order, targets):
        ready = prepare(net, Context(x[order], labels[order], tasks[order]), Draws(4), seed=3)
        return net.decode(targets, ready.represent(targets), ready.z)

    plain = logits(torch.arange(len(x)), images)
    torch.testing.assert_close(logits(torch.randperm(len(x)), images), plain, rtol=0, atol=1e-9)
    order = torch.randperm(5)
    torch.testing.assert_close(logits(torch.arange(len(x)), images[order]), plain[:, :, order],
                               rtol=0, atol=1e-9)


def test_padding_never_leaks_between_tasks():
    net = network()
    x, labels, tasks, _ = samples(rows=14)
    before = net.encode(x, labels, tasks).summary[0]
    apart = [[part[tasks == t] for part in (x, labels, tasks)] for t in range(3)]
    alone = torch.stack([net.encode(*parts).summary[0, 0] for parts in apart])
    torch.testing.assert_close(before, alone, rtol=0, atol=1e-10)
    moved = x.clone()
    moved[tasks == 1] += 5
    after = net.encode(moved, labels, tasks).summary[0]
    torch.testing.assert_close(after[[0, 2]], before[[0, 2]], rtol=0, atol=1e-10)
    assert (after[1] - before[1]).abs().max() > 1e-3


@QUICK
@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_grouping_keeps_every_row_once(tasks):
    tasks, device = np.asarray(tasks), torch.device("cpu")
    rows = torch.arange(len(tasks), dtype=torch.float64).unsqueeze(1) + 1
    for width in (None, 1, 3, len(tasks)):
        slots = Slots.of(tasks, device, width)
        packed = slots.pack(rows)
        torch.testing.assert_close(slots.unpack(packed), rows)
        owner = slots.pack(torch.from_numpy(tasks).unsqueeze(1))[..., 0]  # (slots, width)
        places = torch.zeros(owner.numel(), dtype=torch.bool)
        places[slots.place] = True
        assert bool((owner == slots.tasks.unsqueeze(1))[places.view(owner.shape)].all())
        spread = slots.weights(rows)
        assert float(spread.sum()) == pytest.approx(1)
        torch.testing.assert_close(slots.weights(rows, rows[:, 0]).flatten()[slots.place],
                                   rows[:, 0])
        assert int((spread > 0).sum()) == len(tasks)
    together = Packed.of(tasks, rows)
    torch.testing.assert_close(together.restore(together.arrange(rows)), rows)
    seen = len(tasks) if together.mask is None else int((together.mask == 0).sum())
    assert seen == len(tasks)


@QUICK
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), min_size=2, max_size=40))
def test_cells_and_their_means_are_those_of_their_rows(samples):
    tasks = torch.tensor([task for task, _ in samples])
    sets = np.asarray([number for _, number in samples])
    sets[-1] = 0  # sets are numbered without a gap
    layout = Layout(tasks, Blocks.targets_and_context(sets, np.arange(len(sets))),
                    torch.zeros(0, dtype=torch.float64))
    rows = torch.arange(len(tasks), dtype=torch.float64).unsqueeze(1) ** 2
    means = (layout.cell_means @ rows[layout.source]).view(2, -1)
    cells = sorted(set(zip(sets.tolist(), tasks.tolist(), strict=True)))
    assert list(zip(layout.cells.sets.tolist(), layout.cells.tasks.tolist(), strict=True)) == cells
    for k, (number, task) in enumerate(cells):
        mine = rows[(torch.from_numpy(sets) == number) & (tasks == task)]
        assert means[:, k].tolist() == pytest.approx([float(mine.mean())] * 2)
        assert int(layout.cells.sizes[k]) == len(mine)


def test_slots_are_few_and_hardly_empty():
    counts = np.asarray([160, *[7] * 19])
    width = cheapest_width(counts)
    assert int((-(-counts // width)).sum()) * width < 2 * counts.sum()
    assert cheapest_width(np.asarray([300])) == 300


def test_the_number_of_draws_changes_the_variance_not_the_mean():
    source = some_gaussian(1)
    means = {n: torch.stack([draw(source, n).mean(0) for _ in range(3000)]) for n in (2, 20)}
    error = source.sd / math.sqrt(2 * 3000)
    for values in means.values():
        assert ((values.mean(0) - source.mean).abs() < 5 * error).all()
    ratio = means[2].var(0) / means[20].var(0)
    assert ((ratio > 8) & (ratio < 12.5)).all()


@QUICK
@given(seeds)
def test_entropy_selection_equals_brute_force(seed):
    logits = torch.randn(4, 3, 6, 5, generator=torch.Generator().manual_seed(seed)).double() * 3
    got = answer(logits, "entropy")
    for b in range(6):
        totals = []
        for t in range(4):
            total = 0.0
            for s in range(3):
                p = torch.softmax(logits[t, s, b], 0)
                total -= sum(float(v) * math.log(float(v)) for v in p)
            totals.append(total)
        best = min(range(4), key=totals.__getitem__)
        assert int(got.head[b]) == best
        expected = sum(torch.softmax(logits[best, s, b], 0) for s in range(3)) / 3
        torch.testing.assert_close(got.probs[b], expected)


@pytest.mark.parametrize("mode", ["entropy", "mixture", "naive", "variance", "energy", "max_prob"])
def test_every_mode_gives_probabilities_and_follows_its_rule(mode):
    logits = torch.randn(4, 3, 6, 5).double() * 3
    got = answer(logits, mode)
    torch.testing.assert_close(got.probs.sum(1), torch.ones(6).double())
    p = logits.softmax(-1)
    expected = {
        "mixture": p.mean((0, 1)), "naive": logits.mean((0, 1)).softmax(-1),
        "variance": p.var(1, unbiased=False).sum(-1).argmin(0),
        "energy": (-logits.exp().sum(-1).log().mean(1)).argmin(0),
        "max_prob": p.mean(1).max(-1).values.argmax(0),
        "entropy": (-(p * p.log()).sum(-1).sum(1)).argmin(0)}[mode]
    torch.testing.assert_close(got.probs if expected.dim() == 2 else got.head, expected)


@pytest.mark.parametrize("mode", ["entropy", "mixture", "naive"])
@QUICK
@given(seed=seeds, scale=st.sampled_from([0.1, 3.0, 20.0]))
def test_answers_of_additive_logits_are_those_of_the_logits(mode, seed, scale):
    g = torch.Generator().manual_seed(seed)
    targets = torch.randn(6, 5, generator=g).double() * scale
    draws = torch.randn(4, 3, 5, generator=g).double() * scale
    expected = answer(targets + draws.unsqueeze(2), mode).probs
    got = additive_answer(targets, draws, mode)
    if got is not None:
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-9)
    assert got is not None or scale == 20


@QUICK
@given(seed=seeds, mode=st.sampled_from(["entropy", "mixture", "naive"]),
       scale=st.sampled_from([1.0, 100.0]))
def test_answers_by_class_are_the_same_answers(seed, mode, scale):
    logits = torch.randn(4, 3, 6, 5, generator=torch.Generator().manual_seed(seed)).double() * scale
    torch.testing.assert_close(answer_by_class(logits.mT, mode), answer(logits, mode).probs)
    assert answer_by_class(logits.mT, "variance") is None


def cells_of(heads, n_heads):
    """Targets with these heads (B,), of one set."""
    sizes = torch.bincount(heads, minlength=n_heads)
    return Cells(torch.arange(n_heads), torch.zeros_like(sizes), heads, sizes,
                 sizes.double() / len(heads), torch.ones(1).double(), 1)


@QUICK
@given(seed=seeds, n_heads=st.integers(1, 4), scale=st.sampled_from([1.0, 200.0]))
def test_additive_logits_say_what_the_sums_say(seed, n_heads, scale):
    g = torch.Generator().manual_seed(seed)
    targets = (scale * torch.randn(40, 5, generator=g).double()).requires_grad_()
    draws = (scale * torch.randn(3, n_heads, 5, generator=g).double()).requires_grad_()
    heads, labels = (torch.randint(n, (40,), generator=g) for n in (n_heads, 5))
    short = AdditiveLogits(targets, draws, cells_of(heads, n_heads))
    full = FullLogits(targets + draws[:, heads])
    torch.testing.assert_close(short.all_draws(), full.all_draws())
    torch.testing.assert_close(short.mean(), full.mean())
    for weight in (None, torch.rand(40, generator=g).double()):
        one, two = (3 * each.cross_entropy(labels, weight) for each in (short, full))
        torch.testing.assert_close(one, two)
        for pair in zip(torch.autograd.grad(one, (targets, draws)), torch.autograd.grad(
                two, (targets, draws), retain_graph=True), strict=True):
            torch.testing.assert_close(*pair)


def test_additive_logits_that_cancel_are_left_to_the_long_way():
    targets, draws = torch.tensor([[90.0, 0.0]]), torch.tensor([[[0.0, 90.0]]])
    assert additive_answer(targets, draws, "entropy") is None
    assert additive_answer(targets, draws, "variance") is None


def test_the_oracle_head_answers_alone():
    logits = torch.randn(4, 3, 6, 5).double()
    heads = torch.tensor([0, 1, 2, 3, 0, 1])
    got = answer(logits, "mixture", heads)
    expected = torch.stack([logits[h, :, b].softmax(-1).mean(0) for b, h in enumerate(heads)])
    torch.testing.assert_close(got.probs, expected)


@QUICK
@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(1, 70))
def test_context_rows_cover_every_task(tasks, count):
    rows = covering_rows(torch.tensor(tasks), count)
    assert len(rows) == len(set(rows.tolist()))
    assert {tasks[i] for i in rows.tolist()} == set(tasks)
    assert len(rows) == min(max(count, len(set(tasks))), len(tasks))


@QUICK
@given(st.lists(st.integers(-1, 5), min_size=1, max_size=80), st.integers(1, 12))
def test_context_dataset_has_its_number_a_class(labels, count):
    rows = rows_per_class(torch.tensor(labels), count).tolist()
    assert len(rows) == len(set(rows))
    for label in set(labels):
        chosen = sum(labels[i] == label for i in rows)
        assert chosen == (0 if label < 0 else min(count, labels.count(label)))


@QUICK
@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), seeds)
def test_noisy_context_never_reaches_its_own_encoder(tasks, seed):
    torch.manual_seed(seed)
    wrong = misdirect(torch.tensor(tasks), 4).tolist()
    assert all(a != b and 0 <= b < 4 for a, b in zip(tasks, wrong, strict=True))


def test_extensions_agree_with_their_definitions():
    logits, labels = torch.randn(3, 2, 4, 5).double(), torch.tensor([0, 4, 2, 1])
    heads = torch.tensor([0, 1, 2, 0])
    present = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [0, 1, 1, 0]]).bool()  # (K, B)
    p = logits.softmax(-1)
    marginal = 0.0
    for b in range(4):
        seen = [float(p[t, s, b, labels[b]]) for t in range(3) for s in range(2) if present[t, b]]
        marginal -= math.log(sum(seen) / len(seen)) / 4
    got = objective.task_marginal(logits, labels, present)
    assert got.item() == pytest.approx(marginal)
    own = torch.arange(3).unsqueeze(1) == heads
    wrong = [sum(math.log(1 / 5 / float(p[t, s, b, c])) / 5 for c in range(5))
             for t in range(3) for s in range(2) for b in range(4)
             if present[t, b] and t != heads[b]]
    got = objective.head_contrast(logits, present & ~own)
    assert got.item() == pytest.approx(sum(wrong) / len(wrong))
    assert objective.head_contrast(logits[:1], ~own[:1] & False).item() == 0
    assert objective.head_contrast(torch.zeros(3, 2, 4, 5), ~own).item() == pytest.approx(0)
    stored = torch.randn(4, 5).double()
    assert objective.dark_replay(logits[0].mean(0), stored).item() == pytest.approx(
        float(((logits[0].mean(0) - stored) ** 2).mean()))
