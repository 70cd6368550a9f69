"""Latent records and attention weights against formulas written out."""
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from nets import FAMILY, network, samples
from torch.distributions import Normal, kl_divergence

from npcl_plugin.context import Context
from npcl_plugin.layers.attention import attention_weights
from npcl_plugin.layout import InPlace
from npcl_plugin.uncertainty import attention, latent_measures, latent_records, np_context


def model(kind):
    """As much of a model as the records look at."""
    net = network(kind)
    net.n_heads.fill_(3)
    args = SimpleNamespace(n_global_eval=4, n_task=1, context_share=0.5)
    return SimpleNamespace(net=net, args=args, predictor=SimpleNamespace(seed=3, net=net),
                           device=torch.device("cpu"))


def context(rows=12):
    return Context(*samples(rows)[:3])


def test_thinning_keeps_a_row_of_every_task():
    tasks = torch.tensor([2, 0, 0, 0, 0, 5, 0, 2])
    kept = np_context.thinned(tasks, 0.5)
    assert sorted(kept.tolist()) == [0, 1, 3, 5, 6]  # places 0 and 2 and 4 within each task
    assert np_context.thinned(tasks, 1.0).sort().values.tolist() == list(range(8))


@pytest.mark.parametrize("kind", FAMILY)
def test_distributions_norms_and_units_of_every_relative(kind):
    m, set_ = model(kind), context()
    state = torch.get_rng_state()
    found = {**latent_records.distributions(m, set_), **latent_records.unit_kl(m, set_),
             **latent_records.stored(m)}
    assert torch.equal(torch.get_rng_state(), state), "draws come from a private generator"
    has_global, has_task = m.net.plan.has_global, m.net.plan.has_task
    assert np.isfinite(found["now_global"]).all() == has_global
    assert np.isfinite(found["now_task"]).all() == has_task
    assert np.isfinite(found["kl_task"]).all() == has_task
    assert np.isnan(found["stored_task"]).all(), "nothing was recorded"
    assert np.isnan(found["stored_global"]).all()
    norms = latent_measures.l1_norms(found)
    if has_global:
        q = m.net.encode(*set_).global_latents[0, 0]
        assert norms["global_mean"] == pytest.approx(sum(abs(v) for v in q.mean.tolist()))
        assert norms["global_sd"] == pytest.approx(sum(q.sd.tolist()))
        assert (found["kl_global"] >= 0).all()
    if has_task:
        assert norms["task_mean"].shape == (3,)


def test_unit_kl_of_the_global_latent_is_the_gaussian_formula():
    m, set_ = model("npcl"), context()
    rows = np_context.thinned(set_.tasks, 0.5)
    q = m.net.encode(*set_).global_latents[0, 0]
    p = m.net.encode(*(part[rows] for part in set_)).global_latents[0, 0]
    expected = [math.log(sp / sq) + (sq ** 2 + (mq - mp) ** 2) / (2 * sp ** 2) - 0.5
                for mq, sq, mp, sp in zip(*(v.tolist() for v in (q.mean, q.sd, p.mean, p.sd)),
                                          strict=True)]
    assert latent_records.unit_kl(m, set_)["kl_global"] == pytest.approx(expected)


def test_units_do_not_differ_when_the_context_is_everything():
    m = model("npcl")
    m.args.context_share = 1.0
    found = latent_records.unit_kl(m, context())
    assert found["kl_global"] == pytest.approx(np.zeros(8), abs=1e-12)
    assert found["kl_task"] == pytest.approx(np.zeros((3, 8)), abs=1e-12)


def test_a_head_without_a_row_in_the_buffer_is_unknown():
    m, set_ = model("npcl"), context()
    present = set_.tasks != 1
    found = latent_records.distributions(m, Context(*(part[present] for part in set_)))
    assert np.isnan(found["now_task"][:, 1]).all() and np.isfinite(found["now_task"][:, 2]).all()


def test_drift_is_torchs_kl_and_the_wasserstein_distance():
    rng = np.random.default_rng(0)
    now, then = (np.stack((rng.normal(size=(3, 5)), rng.uniform(0.1, 1, (3, 5))))
                 for _ in range(2))
    found = latent_measures.drift(now, then)
    p, q = (Normal(*map(torch.from_numpy, pair)) for pair in (now, then))
    assert found["kl"] == pytest.approx(kl_divergence(p, q).sum(-1).numpy())
    assert found["w2"][0] == pytest.approx(math.sqrt(
        sum((a - b) ** 2 for a, b in zip(now[:, 0].ravel(), then[:, 0].ravel(), strict=True))))
    same = latent_measures.drift(now, now)
    assert same["kl"] == pytest.approx(np.zeros(3), abs=1e-12) and (same["w2"] == 0).all()


def test_active_units_and_their_curve():
    kl = np.array([[0.5, 0.001, 0.02], [np.nan] * 3])
    assert latent_measures.active_units(kl)[0] == 2
    assert np.isnan(latent_measures.active_units(kl)[1])
    assert latent_measures.sorted_log_kl(np.array([0.01, 1.0, 0.0])) == pytest.approx([0, -2, -12])
    many = latent_measures.sorted_log_kl(np.arange(1, 257.0), 64)
    assert len(many) == 64 and many[0] == pytest.approx(math.log10(256)) and many[-1] == 0


def naive_weights(q, k, heads):
    total = torch.zeros(len(q), len(k), dtype=q.dtype)
    width = q.shape[1] // heads
    for h in range(heads):
        part = slice(h * width, (h + 1) * width)
        for i in range(len(q)):
            total[i] += (k[:, part] @ q[i, part] / math.sqrt(width)).softmax(0)
    return total / heads


def test_attention_weights_agree_with_loops():
    m, set_ = model("npcl"), context()
    targets, path = samples(5, seed=4)[0], m.net.deterministic
    layer = path.cross_attention
    found = attention.query_weights(m, targets, set_)
    torch.testing.assert_close(found, naive_weights(layer.query(targets), layer.key(set_.x), 2))
    assert found.sum(1).tolist() == pytest.approx([1] * 5)
    q, k, _ = path.self_attention.project(path.encoder(set_.x, set_.labels)).chunk(3, dim=1)
    torch.testing.assert_close(attention.self_weights(m, set_), naive_weights(q, k, 2))
    assert not attention.has_attention(model("np"))


def test_one_head_of_attention_reproduces_the_layers_answer():
    layer = model("npcl").net.deterministic.self_attention
    layer.n_attention_heads = 1
    rows = torch.randn(6, 8, dtype=torch.float64)
    query, key, value = layer.project(rows).chunk(3, dim=1)
    mixed = attention_weights(query, key, 1) @ value
    expected = layer.norm(rows + layer.out(mixed))
    torch.testing.assert_close(expected, layer.among(rows, InPlace(1, None)))


def test_share_on_the_own_task_and_top_rows_by_hand():
    weights = torch.tensor([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1]])
    share = attention.own_share(weights, torch.tensor([0, 1]), torch.tensor([0, 1, 0]))
    assert share.tolist() == pytest.approx([0.8, 0.8])
    rows, values = attention.top_rows(weights.numpy(), 2)
    assert rows.tolist() == [[0, 2], [1, 0]] and values[0] == pytest.approx([0.5, 0.3])


def test_the_map_is_sorted_by_mean_feature_and_averaged_in_blocks():
    weights = np.arange(16.0).reshape(4, 4)
    features = np.array([[3.0], [1.0], [2.0], [0.0]])  # order 3, 1, 2, 0
    found, tasks = attention.sorted_map(weights, features, np.array([7, 5, 7, 5]), blocks=2)
    ordered = weights[np.ix_([3, 1, 2, 0], [3, 1, 2, 0])]
    assert found[0, 0] == pytest.approx(ordered[:2, :2].mean())
    assert found[1, 0] == pytest.approx(ordered[2:, :2].mean())
    assert tasks.tolist() == [5, 7]
    whole, _ = attention.sorted_map(weights, features, np.zeros(4, int))
    assert whole == pytest.approx(ordered)
