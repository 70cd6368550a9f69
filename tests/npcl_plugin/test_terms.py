"""The loss is made of the terms that are declared, with the weights that the arguments give."""
from argparse import ArgumentParser, Namespace

import pytest
import torch

from npcl_plugin import arguments, terms
from npcl_plugin.layers import decoder
from npcl_plugin.plan import Plan
from npcl_plugin.terms import TERMS, Loss, term

WEIGHTS = {each.weight: 0.5 for each in TERMS if each.weight}


@pytest.fixture
def declared(monkeypatch):
    """A list of terms of the test's own."""
    monkeypatch.setattr(terms, "TERMS", list(TERMS))
    return terms.TERMS


def test_a_term_is_one_declaration(declared, monkeypatch):
    @term("size", weight="shrink", help="weight of the size", when=lambda step: step.late)
    def size(step):
        return torch.tensor(3.0)

    monkeypatch.setattr(arguments, "TERMS", declared)
    parser = ArgumentParser()
    arguments._add_objective(parser)
    assert "weight of the size" in parser.format_help() and "--shrink" in parser.format_help()
    loss = Loss(Namespace(**(WEIGHTS | {"shrink": 0.25})), Plan(n_tasks=3, n_classes=5))
    loss.weighted = [pair for pair in loss.weighted if pair[0].name == "size"]
    total, parts = loss(Namespace(late=True))
    assert (float(total), float(parts["size"])) == (0.75, 3.0)


def test_a_weight_of_0_and_a_missing_latent_leave_a_term_out():
    every = {each.name for each in TERMS}

    def names(weights=None, **parts):
        args = Namespace(**(WEIGHTS | (weights or {})))
        plan = Plan(n_tasks=3, n_classes=5, **parts)
        return {each.name for each, _ in Loss(args, plan).weighted}

    assert names() == every
    assert names({"gamma": 0}) == every - {"gr"}
    assert names(has_task=False) == {"ce", "d_global", "gr", "dark_replay", "stream_recall",
                                     "guided_attention"}
    assert names(has_global=False) == every - {"d_global", "gr"}
    assert names(has_global=False, has_task=False, attention=False) == {
        "ce", "dark_replay", "stream_recall"}


def test_no_two_terms_share_a_name_or_a_weight():
    assert len({each.name for each in TERMS}) == len(TERMS) == len(WEIGHTS) + 1


def test_a_layer_by_class_is_the_linear_one_and_so_are_its_gradients():
    torch.manual_seed(0)
    rows, layer = torch.randn(3, 5, 4, dtype=torch.double), torch.nn.Linear(4, 2).double()
    rows.requires_grad_()
    found = decoder._by_class(rows, layer.weight, layer.bias)
    torch.testing.assert_close(found.mT, layer(rows))
    assert torch.autograd.gradcheck(decoder._by_class, (rows, layer.weight, layer.bias))
