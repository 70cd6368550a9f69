"""The vectorised code against loops written from the paper's equations, in float64."""
import numpy as np
import pytest
import torch
from nets import network, samples
from reference import js as slow_js
from reference import training_pass as slow_pass

from npcl_plugin import objective
from npcl_plugin.distribution_memory import RunningAverages
from npcl_plugin.gaussians import Gaussian
from npcl_plugin.layout import Blocks
from npcl_plugin.plan import Draws

N, M = 3, 2
CASES = [("npcl", {}), ("npcl", {"norm": True, "depth": 2}), ("npcl", {"residual_decoder": True}),
         ("npcl", {"decoder_depth": 0}), ("npcl", {"depth": 0}),
         ("st_npcl", {}), ("anp", {}), ("np", {"norm": True, "depth": 2}), ("cnp", {}),
         ("cnp", {"decoder_depth": 0})]


def noises(net, present):
    """The noise that `training_pass` draws after torch.manual_seed(1), for the loops."""
    torch.manual_seed(1)
    size, plan = net.plan.latent_size, net.plan
    if not plan.has_task:
        return torch.randn(N * M, size, dtype=torch.float64) if plan.has_global else None, None
    first = torch.randn(N, size, dtype=torch.float64) if plan.has_global else None
    n, m = (N, M) if plan.has_global else (1, N * M)
    second = torch.randn(m, n, len(present), size, dtype=torch.float64)
    return first, {(i, j, t): second[i, j, k] for i in range(m) for j in range(n)
                   for k, t in enumerate(present)}


def fast_terms(net, out, labels, weights):
    terms = {"ce": out.logits.cross_entropy(labels)}
    if net.plan.has_task:
        terms["d_task"] = objective.task_divergence(out.task_posterior, out.task_prior,
                                                    out.cells, "sum")
    if net.plan.has_global:
        terms["d_global"] = objective.global_divergence(out.global_posterior, out.global_prior,
                                                        out.cells, "sum")
    return terms, sum(weights.get(name, 1.0) * value for name, value in terms.items())


@pytest.mark.parametrize("kind, changes", CASES)
def test_training_pass_agrees_with_the_equations(kind, changes):
    net = network(kind, **changes)
    x, labels, tasks, context = samples()
    present = sorted(set(tasks.tolist()))
    noise = noises(net, present)
    torch.manual_seed(1)
    out = net.training_pass(x, labels, tasks, context=context, draws=Draws(N, M))
    logits, slow, _, _ = slow_pass(net, x, labels, tasks, context, *noise)
    expected = torch.stack([torch.stack(row) for row in logits])
    torch.testing.assert_close(out.logits.all_draws(), expected, rtol=0, atol=1e-8)
    weights = {"d_task": 0.1, "d_global": 0.05}
    terms, loss = fast_terms(net, out, labels, weights)
    if "d_task" in slow:
        slow["d_task"] = sum(slow["d_task"].values())
    assert set(terms) == set(slow)
    for name, value in slow.items():
        torch.testing.assert_close(terms[name], value, rtol=0, atol=1e-8)
    slow_loss = sum(weights.get(name, 1.0) * value for name, value in slow.items())
    parameters = [p for p in net.parameters() if p.requires_grad]
    fast_grads = torch.autograd.grad(loss, parameters, allow_unused=True)
    slow_grads = torch.autograd.grad(slow_loss, parameters, allow_unused=True)
    names = [name for name, p in net.named_parameters() if p.requires_grad]
    for name, fast, exact in zip(names, fast_grads, slow_grads, strict=True):
        fast = torch.zeros(()) if fast is None else fast
        exact = torch.zeros_like(fast) if exact is None else exact
        assert (fast - exact).abs().max() < 1e-5, name


def test_decoding_from_the_context_is_equation_5():
    net = network()
    x, labels, tasks, context = samples()
    first, second = noises(net, [0, 1, 2])
    torch.manual_seed(1)
    out = net.training_pass(x, labels, tasks, context=context, draws=Draws(N, M), from_context=True)
    logits, _, _, _ = slow_pass(net, x, labels, tasks, context, first, second, from_context=True)
    expected = torch.stack([torch.stack(row) for row in logits])
    torch.testing.assert_close(out.logits.all_draws(), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kind, each", [("npcl", 2), ("st_npcl", 3), ("anp", 4), ("anp", 2)])
def test_targets_take_turns_so_that_every_draw_is_decoded(kind, each):
    x, labels, tasks, context = samples()
    decoded = {}
    for per_target in (100, each):
        torch.manual_seed(7)
        net = network(kind, draws_per_target=per_target)
        torch.manual_seed(1)
        out = net.training_pass(x, labels, tasks, context=context, draws=Draws(N, M))
        decoded[per_target] = out.logits.all_draws()  # (S, B, C)
    every, turns = decoded[100], N * M // each
    assert every.shape[0] == N * M and decoded[each].shape[0] == N * M // turns
    for target in range(len(labels)):  # the first takes the first draw of every turn, and so on
        torch.testing.assert_close(decoded[each][:, target], every[target % turns::turns, target])


@pytest.mark.parametrize("how", ["sum", "sample", "mean"])
@pytest.mark.parametrize("kind", ["npcl", "st_npcl", "anp", "np", "cnp"])
def test_two_sets_in_one_pass_do_not_see_each_other(kind, how):
    net = network(kind)
    x, labels, tasks, context = samples(rows=12)
    x2, labels2, tasks2, context2 = samples(rows=9, seed=3)
    torch.manual_seed(1)
    both = net.training_pass(
        torch.cat((x, x2)), torch.cat((labels, labels2)), torch.cat((tasks, tasks2)),
        context=torch.cat((context, context2 + 12)), draws=Draws(1, 1),
        sets=torch.cat((torch.zeros(12), torch.ones(9))).long())
    cells = (both.cells, both.task_posterior, both.task_prior)
    torch.manual_seed(1)
    size, (first, second) = 8, ((0, 3), (3, 6))
    noise_global = torch.randn(1, 2, size, dtype=torch.float64) if net.plan.has_global else None
    noise_task = torch.randn(1, 1, 6, size, dtype=torch.float64) if net.plan.has_task else None
    expected, slow, shares = [], [], (12 / 21, 9 / 21)
    for k, (low, data) in enumerate(((first[0], (x, labels, tasks, context)),
                                     (second[0], (x2, labels2, tasks2, context2)))):
        logits, terms, _, _ = slow_pass(
            net, *data, None if noise_global is None else noise_global[:, k],
            None if noise_task is None else {(0, 0, t): noise_task[0, 0, low + t]
                                             for t in range(3)})
        expected.append(torch.stack(logits[0]))
        slow.append((data[2], terms))
    torch.testing.assert_close(both.logits.all_draws()[0], torch.cat(expected), rtol=0, atol=1e-8)
    if net.plan.has_task:
        weights = {"sum": lambda t, ts, s: s, "sample": lambda t, ts, s: s * share_of(t, ts),
                   "mean": lambda t, ts, s: s * share_of(t, ts) / size}[how]
        total = sum(weights(t, ts, s) * d for (ts, terms), s in zip(slow, shares, strict=True)
                    for t, d in terms["d_task"].items())
        got = objective.task_divergence(cells[1], cells[2], cells[0], how)
        torch.testing.assert_close(got, total, rtol=0, atol=1e-6)
    if net.plan.has_global:
        total = sum(s * terms["d_global"] for (_, terms), s in zip(slow, shares, strict=True))
        got = objective.global_divergence(both.global_posterior, both.global_prior, cells[0], how)
        torch.testing.assert_close(got, total / (size if how == "mean" else 1), rtol=0, atol=1e-6)


def share_of(task, tasks):
    return float((tasks == task).sum()) / len(tasks)


@pytest.mark.parametrize("how", ["sum", "sample", "mean"])
def test_regularisers_agree_with_equations_6_and_7(how):
    net = network()
    x, labels, tasks, context = samples()
    noise = noises(net, [0, 1, 2])
    torch.manual_seed(1)
    out = net.training_pass(x, labels, tasks, context=context, draws=Draws(N, M))
    _, _, posteriors, slow_global = slow_pass(net, x, labels, tasks, context, *noise)
    then = [(torch.randn(8).double(), 0.1 + torch.rand(8).double()) for _ in range(4)]
    expected = slow_js(slow_global, then[3])
    got = objective.global_regulariser(out.global_posterior[0], Gaussian(*then[3]), how)
    torch.testing.assert_close(got, expected / (8 if how == "mean" else 1), rtol=0, atol=1e-8)
    stacked = Gaussian(torch.stack([t[0] for t in then[:3]]), torch.stack([t[1] for t in then[:3]]))
    past = torch.tensor([True, False, True])
    got = objective.task_regulariser(out.task_posterior, stacked, past,
                                     out.cells.sizes / len(tasks), how)
    per_task = [sum(slow_js(posteriors[n][t], then[t]) for n in range(N)) / N for t in (0, 2)]
    share = [(tasks == t).sum() / len(tasks) for t in (0, 2)]
    weighted = sum(d * w for d, w in zip(per_task, share, strict=True))
    expected = {"sum": sum(per_task), "sample": weighted, "mean": weighted / 8}[how]
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-6)


def test_memory_after_a_task_is_the_average_of_the_batches():
    net = network()
    batches = [samples(seed=seed) for seed in range(4)]
    averages = RunningAverages(net.memory, torch.tensor([1]))
    slow_global, slow_task = [], []
    for i, (x, labels, tasks, context) in enumerate(batches):
        noise = noises(net, [0, 1, 2])
        torch.manual_seed(1)
        encoding = net.encode(x, labels, tasks).only(averages.wanted)
        of_tasks, _ = net.latent.sample(encoding, Draws(N, M))
        averages.add(encoding.global_latents[0], of_tasks, encoding.cells.tasks)
        _, _, posteriors, global_q = slow_pass(net, x, labels, tasks, context, *noise)
        slow_global.append(torch.stack(global_q))
        slow_task.append(sum(torch.stack(posteriors[n][1]) for n in range(N)) / N)
        assert averages.batches == i + 1
    net.memory.record(averages)
    expected = sum(slow_global) / 4
    torch.testing.assert_close(torch.stack((net.memory.global_mean, net.memory.global_sd)),
                               expected, rtol=0, atol=1e-8)
    torch.testing.assert_close(torch.stack((net.memory.task_mean[1], net.memory.task_sd[1])),
                               sum(slow_task) / 4, rtol=0, atol=1e-8)
    assert net.memory.recorded.tolist() == [False, True, False]


@pytest.mark.parametrize("sizes", [(12, 9, 15), (12, 12, 12)])
def test_batches_that_are_encoded_together_do_not_see_each_other(sizes):
    net = network()
    batches = [samples(rows=rows, seed=seed)[:3] for seed, rows in enumerate(sizes)]
    together = net.encode(*(torch.cat(values) for values in zip(*batches, strict=True)),
                          Blocks.of_sets(np.repeat([0, 1, 2], sizes)))
    assert together.cells.sets.unique().tolist() == [0, 1, 2]
    for number, batch in enumerate(batches):
        alone = net.encode(*batch)
        torch.testing.assert_close(together.global_latents[0, number].mean,
                                   alone.global_latents[0, 0].mean, rtol=0, atol=1e-10)
        torch.testing.assert_close(together.summary[0, together.cells.sets == number],
                                   alone.summary[0], rtol=0, atol=1e-10)
