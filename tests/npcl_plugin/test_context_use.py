"""What the context is used for besides answering: guided attention, and novelty as a distance."""
import math
from argparse import Namespace

import pytest
import torch
from nets import network, samples
from runs import experiment

from asking import load_model
from datasets.utils.digits import load_digits
from npcl_plugin import objective
from npcl_plugin.inference import distance
from npcl_plugin.plan import Draws
from npcl_plugin.terms import Step, Targets, guided_attention


@pytest.mark.parametrize("n_sets", [1, 2])
def test_guided_attention_agrees_with_loops(n_sets):
    """-log of the softmax's mass on rows of the same class and set, but for the row itself."""
    net, (x, labels, tasks, context) = network("anp"), samples()
    sets = torch.arange(len(labels)) % n_sets
    out = net.training_pass(x, labels, torch.zeros_like(tasks), context=context, draws=Draws(2, 1),
                            sets=sets)
    step = Step(net, Namespace(), Targets(x, labels, tasks, sets, context, 0, None, None), out, 0)
    layer, heads = net.deterministic.cross_attention, 2
    losses = []
    for row in range(len(labels)):
        seen = [c for c in context.tolist() if sets[c] == sets[row]]
        own = [i for i, c in enumerate(seen) if labels[c] == labels[row] and c != row]
        if not own:
            continue
        queries, keys = layer.query(x[row]).chunk(heads), layer.key(x[seen]).chunk(heads, dim=1)
        mass = [(k @ q / math.sqrt(len(q))).softmax(0)[own].sum()
                for q, k in zip(queries, keys, strict=True)]
        losses.append(-torch.stack(mass).mean().log())
    assert losses and guided_attention(step).item() == pytest.approx(
        torch.stack(losses).mean().item())


def test_nothing_of_the_own_class_is_no_loss():
    assert objective.guided_attention(torch.full((3, 2), 0.5), torch.zeros(3, 2).bool()) == 0


def test_guided_attention_finds_the_class():
    """Descending the term alone moves the attention to the target's class."""
    net, (x, labels, _, context) = network("anp"), samples(rows=40)
    parameters = list(net.deterministic.cross_attention.parameters())
    optimiser = torch.optim.Adam(parameters, lr=0.05)
    own = labels.unsqueeze(1) == labels[context]
    known = own.any(1)
    for _ in range(60):
        summary = net.deterministic.summarise(x[context], labels[context])
        attention = net.deterministic.weights(summary, x)
        optimiser.zero_grad()
        objective.guided_attention(attention, own).backward()
        optimiser.step()
    assert (attention * own).sum(1)[known].mean() > 0.9 > 0.6 > own[known].double().mean()


def test_distance_is_the_least_angle_and_lengths_do_not_count():
    seen = torch.tensor([[2.0, 0.0], [0.0, 3.0]])
    x = torch.tensor([[5.0, 0.0], [1.0, 1.0], [math.sqrt(3), 1.0], [-1.0, -1.0], [0.0, 0.0]])
    assert distance(x, seen).tolist() == pytest.approx([0, 0.5, 1 / 3, 1, 1], abs=1e-3)


def test_distance_is_what_asking_calls_novel(tmp_path):
    run = experiment(tmp_path, "--model", "npcl_plus", "--dataset", "seq-digits", "--n_epochs", 1,
                     "--buffer_size", 60, "--n_global", 2, "--stop_after", 2, "--savecheck", "last")
    run.run()
    learner = load_model(next((tmp_path / "checkpoints").glob("*_last.pt")))
    images = load_digits(False)[0][:64]
    known, novel = learner.ask(images), learner.ask(255 - images)
    shown = run.model.predict(images.unsqueeze(1).float() / 255)
    assert known.novel == pytest.approx(shown.distance.numpy(), abs=1e-3)
    assert known.novel.mean() < novel.novel.mean() <= 1 and known.novel.min() >= 0
    remembered = run.model.predict(run.model.buffer.examples[:8])
    assert remembered.distance.numpy() == pytest.approx(0, abs=1e-3)
