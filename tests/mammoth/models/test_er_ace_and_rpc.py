"""ER-ACE's asymmetric loss and RPC's fixed simplex, and what both learn."""
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import main
from engine.errors import UsageError
from models.er_ace import CosineClassifier
from models.rpc import simplex_vertices
from utils.training import train


def build(tmp_path, *words):
    args = main.parse_args(["--dataset", "seq-digits", "--base_path", str(tmp_path), "--seed", "0",
                            "--non_verbose", "1", "--disable_log", "1", *map(str, words)])
    return main.initialize(args)


def accuracy(tmp_path, *words):
    """Class-IL accuracy on seq-digits with seeds 0, 1, 2."""
    found = []
    for seed in range(3):
        args = main.parse_args(["--dataset", "seq-digits", "--base_path", str(tmp_path), "--seed",
                                str(seed), "--non_verbose", "1", "--disable_log", "1",
                                *map(str, words)])
        model, dataset, args = main.initialize(args)
        found.append(train(model, dataset, args)["accuracy"]["class-il"])
    return found


def test_stream_loss_leaves_out_seen_classes_that_the_batch_lacks(tmp_path):
    model, dataset, _ = build(tmp_path, "--model", "er_ace", "--buffer_size", 20)
    dataset.get_data_loaders()
    loader, _ = dataset.get_data_loaders()
    inputs, labels, plain = next(iter(loader))[:3]
    keep = labels == 2
    inputs, labels, plain = inputs[keep], labels[keep], plain[keep]
    model.seen[[0, 1, 3]] = True
    model._current_task = 1
    model.meta_begin_task(dataset)
    with torch.no_grad():
        logits = model.net(inputs)
    competitors = [2, 4, 5, 6, 7, 8, 9]  # the batch's class and those not seen yet
    losses = [-(row[2] - row[competitors].logsumexp(0)) for row in logits]
    assert model.meta_observe(inputs, labels, plain) == pytest.approx(
        torch.stack(losses).mean().item(), rel=1e-5)
    assert model.seen.nonzero().flatten().tolist() == [0, 1, 2, 3]


def test_masked_classes_get_no_gradient_from_the_stream(tmp_path):
    model, dataset, _ = build(tmp_path, "--model", "er_ace", "--buffer_size", 20,
                              "--use_custom_classifier", 0)
    dataset.get_data_loaders()
    loader, _ = dataset.get_data_loaders()
    inputs, labels, plain = next(iter(loader))[:3]
    model.seen[:2] = True
    model._current_task = 1
    model.meta_begin_task(dataset)
    model.meta_observe(inputs, labels, plain)  # the buffer is empty: the stream is all there is
    moved = model.net.classifier.weight.grad.abs().sum(dim=1)
    assert moved[:2].eq(0).all() and moved[2:].gt(0).all()


@pytest.mark.parametrize("task_free", [0, 1])
def test_replay_starts_with_the_second_task_unless_task_free(tmp_path, task_free):
    model, dataset, _ = build(tmp_path, "--model", "er_ace", "--buffer_size", 20, "--task_free",
                              task_free)
    loader, _ = dataset.get_data_loaders()
    model.meta_begin_task(dataset)
    drawn = []
    original = model.buffer.get_data
    model.buffer.get_data = lambda *a, **k: drawn.append(1) or original(*a, **k)
    for _, batch in zip(range(3), loader, strict=False):
        model.meta_observe(*batch[:3])
    assert len(drawn) == (2 if task_free else 0)  # at the first step there is nothing to replay


def test_cosine_classifier_gives_scaled_cosines_and_is_in_all_places(tmp_path):
    model, _, _ = build(tmp_path, "--model", "er_ace", "--buffer_size", 20)
    layer, features = model.net.classifier, torch.randn(5, model.net.classifier.in_features)
    assert isinstance(layer, CosineClassifier) and model.net.net[1] is layer
    expected = 10 * F.cosine_similarity(features[:, None], layer.weight[None], dim=2)
    torch.testing.assert_close(layer(features), expected)
    optimised = [p for group in model.opt.param_groups for p in group["params"]]
    assert sum(p is layer.weight for p in optimised) == 1 and len(optimised) == 5


def test_er_ace_refuses_a_backbone_without_linear_classifier(tmp_path):
    model, _, args = build(tmp_path, "--model", "er_ace", "--buffer_size", 20)
    with pytest.raises(UsageError, match="--use_custom_classifier 0"):
        type(model)(torch.nn.Identity(), model.loss, args, None, model.dataset)


@settings(max_examples=20)
@given(n_vertices=st.integers(2, 120))
def test_simplex_vertices_are_unit_centred_and_equidistant(n_vertices):
    vertices = simplex_vertices(n_vertices).double()
    assert vertices.shape == (n_vertices - 1, n_vertices)
    torch.testing.assert_close(vertices.sum(dim=1), torch.zeros(n_vertices - 1).double(),
                               atol=1e-4, rtol=0)
    gram = vertices.T @ vertices
    expected = torch.full_like(gram, -1 / (n_vertices - 1)).fill_diagonal_(1)
    torch.testing.assert_close(gram, expected, atol=1e-5, rtol=0)


def test_rpc_scores_are_inner_products_and_the_vertices_never_move(tmp_path):
    model, dataset, _ = build(tmp_path, "--model", "rpc", "--buffer_size", 20)
    loader, _ = dataset.get_data_loaders()
    inputs, labels, plain = next(iter(loader))[:3]
    fixed = model.vertices.clone()
    outputs = model.net(inputs)
    expected = torch.stack([sum(row[i] * fixed[i] for i in range(9)) for row in outputs])
    torch.testing.assert_close(model(inputs), expected)
    loss = F.cross_entropy(expected, labels).item()
    model.meta_begin_task(dataset)
    assert model.meta_observe(inputs, labels, plain) == pytest.approx(loss, rel=1e-5)
    assert torch.equal(model.vertices, fixed)
    assert not any(p.shape == fixed.shape for p in model.get_parameters())


def test_rpc_buffer_holds_equal_shares_of_all_seen_classes(tmp_path):
    model, dataset, _ = build(tmp_path, "--model", "rpc", "--buffer_size", 50)
    for task in range(3):
        dataset.get_data_loaders()
        model.meta_begin_task(dataset)
        model.meta_end_task(dataset)
        classes, counts = model.buffer.get_all_data()[1].unique(return_counts=True)
        assert classes.tolist() == list(range(2 * task + 2))
        assert counts.tolist() == [50 // (2 * task + 2)] * (2 * task + 2)


@pytest.mark.parametrize("name", ["er_ace", "rpc"])
def test_replay_methods_reach_class_il_accuracy_that_sgd_does_not(tmp_path, name):
    ours = accuracy(tmp_path, "--model", name, "--buffer_size", 200)
    sgd = accuracy(tmp_path, "--model", "sgd")
    assert min(ours) > 80 > 25 > max(sgd), f"{name} {ours}, sgd {sgd}"
