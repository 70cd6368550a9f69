"""Recorded steps: the numbers of plain ones to the last bit, and the plain way wherever not."""
import copy

import pytest
import torch
from runs import experiment

from npcl_plugin import graphs, terms

pytestmark = pytest.mark.long

FEW = ("--n_global", 4, "--n_global_eval", 4)


def build(tmp_path, step_graphs, model, *more):
    run = experiment(tmp_path, "--model", model, "--dataset", "perm-digits", "--buffer_size", 40,
                     "--batch_size", 8, "--minibatch_size", 8, "--context_share", 0.5,
                     "--step_graphs", step_graphs, *FEW, *more)
    run.model.net.train()
    return run


def learn(run, tasks=3, steps=6):
    """A few steps of the first tasks; the terms of each."""
    seen = []
    for _ in range(tasks):
        loader, _ = run.dataset.get_data_loaders()
        run.model.meta_begin_task(run.dataset)
        seen += [run.model.meta_observe(*batch[:3], epoch=0)
                 for _, batch in zip(range(steps), loader, strict=False)]
        run.model.meta_end_task(run.dataset)
    return seen


def learned_both_ways(folder, model, *more):
    """The same learned plainly and, from the second task on, by recorded steps."""
    runs = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "STEPS_WORTH_IT", 0)
        patch.setattr(graphs, "STEPS_BEFORE", 6)  # more than the first task has with replay
        for step_graphs in ("0", "auto"):
            run = build(folder / step_graphs, step_graphs, model, *more)
            run.seen, run.random = learn(run), torch.get_rng_state()
            runs.append(run)
    return runs


def assert_same(plain, fast):
    """All bits of what was learned, and the numbers that will be drawn."""
    assert plain.seen == fast.seen
    state = fast.model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in plain.model.state_dict().items())
    assert torch.equal(plain.random, fast.random)


def recorded(run):
    return sum(map(len, run.model.graphs.graphs.values()))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """NPCL, plainly and recorded."""
    return learned_both_ways(tmp_path_factory.mktemp("graphs"), "npcl")


def test_recorded_steps_of_npcl_are_the_plain_ones_bit_by_bit(runs):
    plain, fast = runs
    assert_same(plain, fast)
    assert recorded(fast) == 1 and recorded(plain) == 0


def frozen(model):
    for parameter in model.net.latent.parameters():
        parameter.requires_grad_(False)


def watched(model):
    for parameter in model.net.decoder.parameters():
        parameter.register_hook(lambda grad: grad * 0.5)


def halve(parameter):
    parameter.grad = parameter.grad * 0.5


def watched_afterwards(model):
    for parameter in model.net.decoder.parameters():
        parameter.register_post_accumulate_grad_hook(halve)


def drawn_more(model):
    model.args.n_global = 6


@pytest.mark.parametrize("change", [frozen, watched, watched_afterwards, drawn_more])
def test_what_changes_between_tasks_counts_for_recorded_steps_too(tmp_path, monkeypatch, change):
    monkeypatch.setattr(graphs, "STEPS_WORTH_IT", 0)
    monkeypatch.setattr(graphs, "STEPS_BEFORE", 2)
    runs = []
    for kind in ("0", "auto"):
        run = build(tmp_path / kind, kind, "npcl", "--grad_cap", 0.1)
        run.seen = learn(run, tasks=2)
        assert bool(recorded(run)) == (kind == "auto")
        change(run.model)
        run.seen += learn(run, tasks=1)
        run.random = torch.get_rng_state()
        runs.append(run)
    plain, fast = runs
    assert_same(plain, fast)


def test_a_model_with_recorded_steps_can_be_copied(runs):
    copied = copy.deepcopy(runs[1].model)
    assert not any(copied.graphs.graphs.values()) and recorded(runs[1]) == 1
    mine, theirs = copied.graphs.parameters, list(copied.graphs.process.parameters())
    assert all(a is b for a, b in zip(mine, theirs, strict=True))


OTHERS = [("st_npcl", ()), ("anp", ()), ("np", ()), ("cnp", ()),
          ("npcl", ("--one_pass", 1, "--task_marginal", 1, "--head_contrast", 1)),
          ("npcl", ("--np_depth", 1, "--decoder_depth", 1, "--np_norm", 1)),
          ("npcl_plus", ("--guided_attention", 0.3, "--stream_prior", 2))]


@pytest.mark.parametrize(("model", "more"), [
    ("npcl_plus", ()), ("npcl_plus", ("--stream_recall", 1)),
    *(pytest.param(*other, marks=pytest.mark.slow) for other in OTHERS)])
def test_recorded_steps_are_the_plain_ones_bit_by_bit(tmp_path, capsys, model, more):
    plain, fast = learned_both_ways(tmp_path, model, *more)
    assert_same(plain, fast)
    assert recorded(fast) == 1 and "without recorded" not in capsys.readouterr().err


@pytest.fixture
def npcl(runs):
    """A model whose steps are recorded, in its third task, and a batch."""
    return runs[1].model, next(iter(runs[1].dataset.train_loader))[:3]


def test_a_graph_holds_for_other_numbers_of_cells(npcl):
    model, _ = npcl
    shapes = [shapes for (_, shapes), graph in model.graphs.known.items() if graph is not None]
    assert len(set(shapes)) == len(shapes) > 1


def test_a_graph_does_not_fit_another_number_of_rows(npcl, monkeypatch):
    model, (inputs, labels, _) = npcl
    (graph,) = (each for kind in model.graphs.graphs.values() for each in kind)
    seen = []
    monkeypatch.setattr(model.graphs, "_graph", lambda inputs, tensors: seen.append(tensors))
    for rows in (8, 7):
        assert model.graphs(model.gather(inputs[:rows], labels[:rows]), model.objective, 2) is None
    assert [graph.fits(tensors) for tensors in seen] == [True, False]


def test_a_size_that_was_taken_as_a_number_is_not_taken_for_another(tmp_path, monkeypatch):
    def crowd(step):
        return step.out.global_posterior.mean.square().mean() * len(step.out.cells.tasks)

    monkeypatch.setattr(terms, "TERMS", [*terms.TERMS, terms.Term(
        "crowd", crowd, None, "", lambda plan: plan.has_task, terms.always)])
    plain, fast = learned_both_ways(tmp_path, "npcl")
    assert_same(plain, fast)
    assert recorded(fast) > 1


def test_sums_that_cannot_be_told_from_0_go_the_plain_way(npcl, monkeypatch):
    model, (inputs, labels, _) = npcl
    targets = model.gather(inputs, labels)
    assert model.graphs(targets, model.objective, 2) is not None
    monkeypatch.setattr(graphs, "SMALLEST_SUM", 1e30)
    before = torch.get_rng_state()
    assert model.graphs(targets, model.objective, 2) is None
    assert torch.equal(torch.get_rng_state(), before)


def test_where_recording_fails_one_sentence_says_so(tmp_path, monkeypatch, capsys):
    def fails(*args):
        raise RuntimeError("no such tracer\nand a long explanation")

    monkeypatch.setattr(graphs, "record", fails)
    assert_same(*learned_both_ways(tmp_path, "anp"))
    said = [line for line in capsys.readouterr().err.splitlines() if "recorded steps" in line]
    assert said == ["Training goes on without recorded steps, which are faster (--step_graphs 0 "
                    "never tries): no such tracer."]


def test_a_graph_with_other_numbers_is_never_used(tmp_path, monkeypatch, capsys):
    real = graphs.record

    def wrong(*args):
        graph = real(*args)
        return graph._replace(run=lambda *tensors: [2 * each for each in graph.run(*tensors)])

    monkeypatch.setattr(graphs, "record", wrong)
    assert_same(*learned_both_ways(tmp_path, "np"))
    assert "not those of the plain step" in capsys.readouterr().err


def test_only_long_runs_record_by_themselves(tmp_path):
    run = build(tmp_path, "auto", "anp")
    run.model.graphs.begin_task(graphs.STEPS_WORTH_IT - 1)
    assert not run.model.graphs.worth_it
    run.model.graphs.begin_task(graphs.STEPS_WORTH_IT)
    assert run.model.graphs.worth_it


def test_a_recorded_graph_is_used_to_the_end_of_the_run(npcl, monkeypatch):
    model, (inputs, labels, _) = npcl
    targets = model.gather(inputs, labels)
    model.graphs.begin_task(graphs.STEPS_WORTH_IT - 1)
    assert not model.graphs.worth_it
    assert model.graphs(targets, model.objective, 2) is not None
    monkeypatch.setattr(graphs, "STEPS_BEFORE", 0)
    monkeypatch.setattr(graphs, "record", lambda *args: pytest.fail("too few steps are left"))
    assert model.graphs(model.gather(inputs[:5], labels[:5]), model.objective, 2) is None


def test_a_first_task_counts_alone(tmp_path, monkeypatch):
    run, seen = build(tmp_path, "auto", "npcl"), []
    monkeypatch.setattr(run.model.graphs, "begin_task", seen.append)
    learn(run, tasks=2, steps=1)
    first, second = seen
    assert second == first * (run.dataset.N_TASKS - 1)


@pytest.mark.parametrize("more", [("--noisy_context", 1), ("--residual_decoder", 1),
                                  ("--model_config", "release")])
def test_what_cannot_be_recorded_is_not_tried(tmp_path, more):
    run = build(tmp_path, "1", "npcl", *more)
    run.model.graphs.begin_task(10 ** 6)
    assert not run.model.graphs.worth_it
