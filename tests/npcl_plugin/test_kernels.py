"""Functions in C against loops in float64 and torch's own way, and what happens without them."""
import math
import os
import shutil
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nets import network, samples
from runs import experiment

from main import parse_args
from npcl_plugin import objective
from npcl_plugin.answers import answer
from npcl_plugin.context import Context
from npcl_plugin.gradients import norm_of
from npcl_plugin.inference import prepare, probabilities
from npcl_plugin.kernels import attention, build, decoder, linear
from npcl_plugin.kernels.attention import BlockWeights
from npcl_plugin.logits import FullLogits
from npcl_plugin.plan import Draws

# With a compiler there has to be a library: code that does not compile is no reason to skip.
pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))) or not build.available("compiled"),
    reason="there is no C compiler here")

seeds = st.integers(0, 10**6)
SOME = settings(max_examples=25)
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
ROUNDED = {"rtol": 1e-3, "atol": 1e-4}  # normalising numbers that are nearly equal does it
# As the networks for CIFAR, whose layers are compiled too.
WIDE = {"latent_size": 128, "depth": 2, "norm": True, "decoder_depth": 2}


def leaves(generator, *shapes):
    """float32 numbers of a layer's usual size that want gradients."""
    return [(torch.randn(shape, generator=generator) / shape[-1] ** 0.5).requires_grad_()
            for shape in shapes]


def in_double(tensors):
    return [each.detach().double().requires_grad_() for each in tensors]


def assert_same(found, expected, given_leaves, slow_leaves, generator):
    """Results, and gradients of a random sum of them."""
    torch.testing.assert_close(found.double(), expected, **CLOSE)
    weight = torch.randn(found.shape, generator=generator)
    fast = torch.autograd.grad((found * weight).sum(), given_leaves)
    slow = torch.autograd.grad((expected * weight.double()).sum(), slow_leaves)
    for ours, exact in zip(fast, slow, strict=True):
        scale = max(1.0, float(exact.abs().max()))
        torch.testing.assert_close(ours.double() / scale, exact / scale, **ROUNDED)


def slow_attention(query, key, value, of_queries, of_keys, n_heads):
    """Query by query and head by head."""
    rows = []
    for i in range(len(query)):
        seen = [j for j in range(len(key)) if of_queries[i] == of_keys[j]]
        parts = []
        for q, k, v in zip(query[i].chunk(n_heads), key[seen].chunk(n_heads, 1),
                           value[seen].chunk(n_heads, 1), strict=True):
            parts.append((k @ q / math.sqrt(len(q))).softmax(0) @ v)
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def slow_block(rows, owner, task, weights, n_heads, by_task):
    """Row by row, with the layers of its task."""
    project, project_bias, out, out_bias, scale, shift = weights

    def layer(x, t, weight, bias):
        return x @ weight[t] + bias[t] if by_task else weight @ x + bias

    projected = torch.stack([layer(x, t, project, project_bias)
                             for x, t in zip(rows, task, strict=True)])
    mixed = slow_attention(*projected.chunk(3, 1), owner, owner, n_heads)
    found = []
    for x, value, t in zip(rows, mixed, task, strict=True):
        total = x + layer(value, t, out, out_bias)
        normal = (total - total.mean()) / (total.var(unbiased=False) + 1e-5).sqrt()
        found.append(normal * (scale[t] if by_task else scale)
                     + (shift[t] if by_task else shift))
    return torch.stack(found)


def in_groups(generator, n, width, n_tasks):
    """The tasks of n groups, some of them the same, and the task of each of their rows."""
    task = torch.randint(n_tasks, (n,), generator=generator)
    return task, task.repeat_interleave(width)


@SOME
@given(seeds, st.integers(1, 5), st.integers(1, 40), st.integers(1, 90), st.integers(1, 150),
       st.integers(1, 4), st.booleans(), st.booleans())
def test_a_linear_layer_is_that_of_its_task(seed, n, width, n_in, n_out, n_tasks, by_task, biased):
    g = torch.Generator().manual_seed(seed)
    shapes = [(n, width, n_in), (n_tasks, n_in, n_out), (n_tasks, n_out)] if by_task \
        else [(n, width, n_in), (n_out, n_in), (n_out,)]
    given_leaves = leaves(g, *shapes[:2 + biased])
    rows, weight, bias = [*in_double(given_leaves), 0][:3]
    slow_leaves = [rows, weight, bias][:2 + biased]
    task, of_rows = in_groups(g, n, width, n_tasks)
    found = linear.linear(*given_leaves[:2], given_leaves[2] if biased else None,
                          task if by_task else None)
    if by_task:
        expected = torch.stack([
            x @ weight[t] + (bias[t] if biased else 0)
            for x, t in zip(rows.flatten(0, 1), of_rows, strict=True)]).view(n, width, n_out)
    else:
        expected = rows @ weight.t() + bias
    assert_same(found, expected, given_leaves, slow_leaves, g)
    with torch.no_grad():
        assert torch.equal(found, linear.linear(
            *given_leaves[:2], given_leaves[2] if biased else None, task if by_task else None))


@SOME
@given(seeds, st.integers(1, 5), st.integers(1, 40), st.integers(2, 90), st.integers(1, 4),
       st.booleans())
def test_a_rectified_norm_is_that_of_its_task(seed, n, width, size, n_tasks, by_task):
    g = torch.Generator().manual_seed(seed)
    stack = (n_tasks,) if by_task else ()
    given_leaves = leaves(g, (n, width, size), *[(*stack, size)] * 2)
    rows, scale, shift = slow_leaves = in_double(given_leaves)
    task, of_rows = in_groups(g, n, width, n_tasks)
    choice = (of_rows.view(n, width),) if by_task else ()
    normal = (rows - rows.mean(-1, keepdim=True)) / (
        rows.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    expected = torch.relu(normal * scale[choice] + shift[choice]) if by_task \
        else torch.relu(normal * scale + shift)
    found = linear.rectified_norm(*given_leaves, task if by_task else None)
    assert_same(found, expected, given_leaves, slow_leaves, g)
    with torch.no_grad():
        assert torch.equal(linear.rectified_norm(*given_leaves, task if by_task else None), found)


@SOME
@given(seeds, st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), max_size=5))
def test_the_norm_of_many_tensors_is_that_of_all_their_numbers(seed, shapes):
    g = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(shape, generator=g).t() for shape in [(3, 7), *shapes]]
    expected = torch.cat([each.double().flatten() for each in tensors]).norm()
    for compiled in (True, False):
        torch.testing.assert_close(norm_of([None, *tensors], compiled).double(), expected, **CLOSE)
    tensors[0][0, 0] = math.nan
    assert norm_of(tensors, True).isnan()


@SOME
@given(seeds, st.integers(1, 40), st.sampled_from([1, 2, 4]), st.integers(1, 20),
       st.integers(1, 4), st.booleans())
def test_a_block_of_attention_is_its_formula(seed, n, n_heads, size, n_tasks, by_task):
    g = torch.Generator().manual_seed(seed)
    width = n_heads * size
    task = torch.randint(n_tasks, (n,), generator=g) if by_task else torch.zeros(n).long()
    owner = torch.randint(3, (n,), generator=g)
    stack = (n_tasks,) if by_task else ()
    sides = ((width, 3 * width), (width, width)) if by_task else ((3 * width, width),
                                                                   (width, width))
    given_leaves = leaves(g, (n, width), (*stack, *sides[0]), (*stack, 3 * width),
                          (*stack, *sides[1]), *[(*stack, width)] * 3)
    slow_leaves = in_double(given_leaves)
    found = attention.block(given_leaves[0], owner.float(), BlockWeights(*given_leaves[1:]),
                            n_heads, task.float() if by_task else None)
    # A single unit, normalised, is 0 however it is computed: there is nothing to compare.
    if width > 1:
        expected = slow_block(slow_leaves[0], owner, task, slow_leaves[1:], n_heads, by_task)
        assert_same(found, expected, given_leaves, slow_leaves, g)


@SOME
@given(seeds, st.integers(1, 30), st.integers(3, 40), st.sampled_from([1, 2, 4]),
       st.integers(1, 20), st.booleans())
def test_queries_attend_to_the_keys_of_their_owner(seed, n, m, n_heads, size, owned):
    g = torch.Generator().manual_seed(seed)
    given_leaves = leaves(g, (n, n_heads * size), *[(m, n_heads * size)] * 2)
    slow_leaves = in_double(given_leaves)
    of_keys = torch.cat((torch.arange(3), torch.randint(3, (m - 3,), generator=g)))
    of_queries = torch.randint(3, (n,), generator=g)
    if not owned:
        of_keys, of_queries = of_keys * 0, of_queries * 0
    found = attention.attend(*given_leaves, (of_queries.float(), of_keys.float()) if owned
                             else None, n_heads)
    assert_same(found, slow_attention(*slow_leaves, of_queries, of_keys, n_heads), given_leaves,
                slow_leaves, g)
    with torch.no_grad():
        owners = (of_queries.float(), of_keys.float())
        assert torch.equal(attention.attend(*given_leaves, owners, n_heads), found)


def test_scores_far_apart_leave_no_weight_and_no_nan():
    query = torch.tensor([[1e4, 0.0]])
    key, value = torch.tensor([[1e4, 0.0], [-1e4, 0.0]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    torch.testing.assert_close(attention.attend(query, key, value, None, 1), value[:1])


@SOME
@given(seeds, st.integers(1, 40), st.integers(1, 4), st.integers(1, 5), st.integers(1, 20),
       st.integers(2, 17), st.integers(1, 3), st.booleans())
def test_the_cross_entropy_is_that_of_all_logits(seed, n, n_cells, each, width, n_classes, turns,
                                                 shared):
    g = torch.Generator().manual_seed(seed)
    given_leaves = leaves(g, (n, width), (each, turns * n_cells, width), (n_classes, width),
                          (n_classes,))
    slow_leaves = in_double(given_leaves)
    cell = torch.randint(n_cells, (n,), generator=g)
    labels = torch.randint(n_classes, (n,), generator=g)
    share = torch.rand(n, generator=g) if shared else None
    targets, draws, weight, bias = given_leaves
    found = decoder.cross_entropy(targets, draws, cell, weight, bias, labels, share, n_cells)
    targets, draws, weight, bias = slow_leaves
    logits = torch.stack([torch.stack([
        weight @ torch.relu(targets[b] + draws[s, cell[b] + n_cells * (b % turns)]) + bias
        for b in range(n)]) for s in range(each)])  # (S, B, C)
    expected = FullLogits(logits).cross_entropy(
        labels, None if share is None else share.double())
    assert_same(found, expected, given_leaves, slow_leaves, g)


@SOME
@given(seeds, st.integers(1, 40), st.integers(1, 5), st.integers(1, 6), st.integers(1, 20),
       st.integers(2, 17), st.booleans())
def test_answers_are_those_of_all_logits(seed, n, n_heads, each, width, n_classes, all_heads):
    g = torch.Generator().manual_seed(seed)
    targets, draws, weight, bias = (tensor.detach() for tensor in leaves(
        g, (n, width), (n_heads, each, width), (n_classes, width), (n_classes,)))
    found = decoder.answers(targets, draws, weight, bias, all_heads)
    hidden = torch.relu(targets.double() + draws.double().unsqueeze(2))  # (T', S, B, O)
    said = answer(hidden @ weight.double().t() + bias.double(),
                  "mixture" if all_heads else "entropy")
    clear = torch.ones(n, dtype=torch.bool)
    if not all_heads and n_heads > 1:  # heads that are equally unsure may be told apart otherwise
        least = said.entropy.topk(2, 0, largest=False).values
        clear = least[1] - least[0] > 1e-5
    torch.testing.assert_close(found[clear].double(), said.probs[clear], **CLOSE)
    torch.testing.assert_close(found.sum(1), torch.ones(n), **CLOSE)


@pytest.mark.parametrize("bits", [0x7fc00000, 0x7fc00001, -1])  # there are many such
@pytest.mark.parametrize("all_heads", [False, True])
def test_what_is_no_number_stays_none(all_heads, bits):
    none = torch.tensor(bits, dtype=torch.int32).view(torch.float32)
    targets, draws = torch.zeros(3, 4), torch.zeros(2, 2, 4)
    targets[1, 2] = none
    said = decoder.answers(targets, draws, torch.ones(5, 4), torch.zeros(5), all_heads)
    assert said.isnan().any(1).tolist() == [False, True, False]
    draws[0, 0, 0] = none  # of the first head
    said = decoder.answers(targets, draws, torch.ones(5, 4), torch.zeros(5), all_heads)
    assert said.isnan().all()
    nobody = torch.zeros(3).long()
    loss = decoder.cross_entropy(targets, draws[1:], nobody, torch.ones(5, 4), torch.zeros(5),
                                 nobody, None, 2)
    assert loss.isnan()
    rows = torch.randn(3, 20)
    rows[1, 3] = none
    ones = torch.ones(20, requires_grad=True)
    normal = linear.rectified_norm(rows.requires_grad_(), ones, ones)
    layer = linear.linear(rows, torch.ones(4, 20), None)
    for found in (normal, layer, torch.autograd.grad(normal.sum(), rows)[0]):
        assert found.isnan().all(1).tolist() == [False, True, False]


@pytest.mark.parametrize("changes, said", [
    ({"labels": torch.tensor([0, 5, 1])}, "Expected each label to be 0 to 4, but got 5."),
    ({"labels": torch.tensor([0, 1, -1])}, "Expected each label to be 0 to 4, but got -1."),
    ({"cell": torch.tensor([0, 1, 2])}, "Expected each cell to be 0 to 1, but got 2."),
    ({"cell": torch.zeros(3)}, "it has to be contiguous, of float32 or"),
    ({"weight": torch.ones(4, 5).t()}, "it has to be contiguous, of float32 or"),
    ({"bias": torch.ones(5).double()}, "it has to be contiguous, of float32 or")])
def test_a_decoder_refuses_what_it_would_get_wrong(changes, said):
    given_to = {"targets": torch.zeros(3, 4), "draws": torch.zeros(1, 2, 4),
                "cell": torch.zeros(3).long(), "weight": torch.ones(5, 4), "bias": torch.ones(5),
                "labels": torch.zeros(3).long(), "share": None, "n_cells": 2}
    assert decoder.cross_entropy(*given_to.values()).isfinite()
    with pytest.raises(RuntimeError, match=said):
        decoder.cross_entropy(*(given_to | changes).values())


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("keys, values, owners, n_heads, said", [
    ((2, 4), (2, 4), ([0.0, 1.0, 0.0], [0.0, 0.0]), 2, "no key of its own owner"),
    ((0, 4), (0, 4), None, 2, "no key of its own owner"),
    ((2, 6), (2, 6), None, 2, "do not fit each other"),
    ((2, 4), (3, 4), None, 2, "do not fit each other"),
    ((2, 4), (2, 4), None, 3, "do not divide the width"),
    ((2, 4), (2, 4), None, 0, "do not divide the width")])
def test_attention_refuses_what_it_would_get_wrong(grad, keys, values, owners, n_heads, said):
    owners = owners and tuple(map(torch.tensor, owners))
    with torch.set_grad_enabled(grad), pytest.raises(RuntimeError, match=said):
        attention.attend(torch.ones(3, 4), torch.ones(keys), torch.ones(values), owners, n_heads)


@pytest.mark.parametrize("grad", [True, False])
def test_a_layer_refuses_what_it_would_get_wrong(grad):
    rows, layers, task = torch.ones(2, 3, 4), torch.ones(2, 4, 5), torch.tensor([0, 2])
    size, other = torch.ones(2, 4), torch.ones(3, 4)
    block = BlockWeights(torch.ones(2, 4, 12), torch.ones(2, 12), torch.ones(2, 4, 4), size, size,
                         size)
    tasks = "Expected each task to be 0 to 1, but got 2."
    with torch.set_grad_enabled(grad):
        with pytest.raises(RuntimeError, match=tasks):
            linear.linear(rows, layers, None, task)
        with pytest.raises(RuntimeError, match=tasks):
            linear.rectified_norm(rows, size, size, task)
        with pytest.raises(RuntimeError, match=tasks):
            attention.block(other, None, block, 2, torch.tensor([0.0, 1.0, 2.0]))
        with pytest.raises(RuntimeError, match="not as wide as the weights"):
            linear.linear(rows, torch.ones(5, 6), None)


@pytest.mark.parametrize("kind, changes", [
    ("npcl", {}), ("npcl", {"decoder_depth": 0}), ("npcl", {"residual_decoder": True}),
    ("npcl", {"draws_per_target": 2}), ("npcl", {"encoders": "release", "depth": 2}),
    ("npcl", WIDE), ("npcl", {**WIDE, "encoders": "release"}),
    ("st_npcl", {}), ("anp", {}), ("np", {}), ("cnp", {})])
@pytest.mark.parametrize("sets", [1, 2])
def test_a_pass_with_them_is_the_pass_without(kind, changes, sets):
    x, labels, tasks, context = samples(rows=40)
    of_sets = torch.arange(40) * sets // 40
    context = torch.cat((context, context + 20)) if sets == 2 else context
    tasks[20:23] = torch.arange(3)  # the second set's context has all tasks too
    found = []
    for compiled in (False, True):
        torch.manual_seed(3)
        net = network(kind, compiled=compiled, **changes).float()
        net.n_heads.fill_(net.plan.n_tasks)
        torch.manual_seed(1)
        out = net.training_pass(x.float(), labels, tasks, context=context, draws=Draws(4, 2),
                                sets=of_sets)
        loss = out.logits.cross_entropy(labels)
        if net.plan.has_task:
            loss = loss + objective.task_divergence(out.task_posterior, out.task_prior,
                                                    out.cells, "sum")
        parameters = [p for p in net.parameters() if p.requires_grad]
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        ready = prepare(net.eval(), Context(x.float(), labels, tasks if net.plan.has_task
                                                     else tasks * 0), Draws(4, 2), seed=0)
        with torch.no_grad():
            said = [probabilities(net, ready, mode, x.float()) for mode in ("mixture", "naive")]
        found.append((loss, out.logits.all_draws(), out.logits.mean(), *said, *gradients))
    plain, compiled = found
    for expected, value in zip(plain, compiled, strict=True):
        assert (expected is None) == (value is None)
        if value is not None:
            torch.testing.assert_close(value, expected, **(ROUNDED if changes.get("norm")
                                                           else CLOSE))


def test_numbers_of_double_precision_go_torchs_way():
    torch.manual_seed(0)
    plain, compiled = network(), network(compiled=True)
    compiled.load_state_dict(plain.state_dict())
    x, labels, tasks, context = samples()
    said = []
    for net in (plain, compiled):
        torch.manual_seed(1)
        said.append(net.training_pass(x, labels, tasks, context=context,
                                      draws=Draws(3)).logits.all_draws())
    assert torch.equal(*said)


def test_a_model_says_which_way_it_goes(tmp_path):
    def way(model, *more):
        return experiment(tmp_path, "--model", model, "--dataset", "perm-digits", "--buffer_size",
                          20, *more).model.args.kernels

    assert way("npcl") == way("np") == "compiled" and way("npcl", "--kernels", "torch") == "torch"


def test_the_way_counts_in_the_key_where_somebody_asks_for_it():
    words = ["--model", "npcl", "--dataset", "seq-digits", "--buffer_size", "20", "--seed", "1"]
    keys = {way: parse_args([*words, "--kernels", way]).conf_key
            for way in ("auto", "torch", "compiled")}
    assert len(set(keys.values())) == 3 and parse_args(words).conf_key == keys["auto"]


@pytest.fixture
def no_library(monkeypatch, tmp_path):
    """As on a machine where nothing was compiled yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    build.library.cache_clear()
    build._say_once.cache_clear()
    yield tmp_path / "cache" / "npcl"
    build.library.cache_clear()
    build._say_once.cache_clear()


def test_the_library_is_kept_and_mended(no_library, monkeypatch):
    assert build.available("compiled")
    (kept,) = no_library.iterdir()
    made = kept.stat().st_mtime_ns
    build.library.cache_clear()
    assert build.available("compiled") and kept.stat().st_mtime_ns == made
    damaged = no_library.parent.with_name("other") / "npcl" / kept.name
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"half of a")
    monkeypatch.setenv("XDG_CACHE_HOME", str(damaged.parent.parent))
    build.library.cache_clear()
    assert build.available("compiled") and damaged.stat().st_size == kept.stat().st_size
    assert list(damaged.parent.iterdir()) == [damaged]


def test_a_cache_that_cannot_be_written_is_done_without(no_library):
    no_library.parent.write_text("a file")
    assert build.available("compiled")


def test_without_a_compiler_one_line_says_so_or_the_run_is_refused(no_library, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert not build.available("auto") and not build.available("auto")
    assert capsys.readouterr().err == (
        "Computing without functions in C, which are faster (--kernels torch never tries): there "
        "is no C compiler.\n")
    with pytest.raises(Exception, match="--kernels compiled needs a C compiler, but there is no"):
        build.available("compiled")
    assert not build.available("torch")


def test_an_older_torch_has_no_interface_for_them(no_library, monkeypatch, capsys):
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.12.1+cpu"))
    assert not build.available("auto")
    assert "they need torch 2.13, and this is 2.12.1+cpu." in capsys.readouterr().err


def test_a_compiler_that_refuses_is_quoted(no_library, monkeypatch, tmp_path, capsys):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'In file of mine:' >&2\necho 'error: no' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    assert not build.available("auto")
    assert "refused (error: no)" in capsys.readouterr().err


def test_a_run_without_a_compiler_is_refused_only_if_it_asks_for_one(tmp_path):
    from experiments.paths import MAIN

    environment = {**os.environ, "PATH": "", "CC": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for kernels, code in (("compiled", 2), ("auto", 0)):
        done = subprocess.run(
            [sys.executable, str(MAIN), "--model", "npcl", "--dataset", "perm-digits",
             "--buffer_size", "20", "--debug_mode", "1", "--results_path", str(tmp_path),
             "--kernels", kernels], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == code, done.stderr
        lines = [line for line in done.stderr.splitlines() if "C compiler" in line]
        assert len(lines) == 1 and "Traceback" not in done.stderr
