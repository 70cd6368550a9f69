"""The six models in the harness: learning, memory, cache, storage, ablations."""
import pytest
import torch
from nets import FAMILY
from runs import experiment
from torch import nn

import npcl_plugin
from asking import load_model
from backbone import get_backbone_class
from engine.errors import UsageError
from npcl_plugin.context import Context
from npcl_plugin.distribution_memory import RunningAverages
from npcl_plugin.inference import Predictor
from npcl_plugin.network import NPNetwork
from npcl_plugin.plan import Draws, Plan
from utils.buffer import Buffer

pytestmark = pytest.mark.long

MODELS = list(npcl_plugin.MODELS)
FEW = ("--n_global", 4, "--n_global_eval", 4)


def build(tmp_path, model="npcl", dataset="seq-digits", buffer=60, *more):
    return experiment(tmp_path, "--model", model, "--dataset", dataset, "--buffer_size", buffer,
                      *FEW, *more)


def learn_briefly(run, tasks=2, steps=4):
    """A few steps on each of the first tasks."""
    model = run.model
    for _ in range(tasks):
        loader, _ = run.dataset.get_data_loaders()
        model.net.train()
        model.meta_begin_task(run.dataset)
        for i, batch in enumerate(loader):
            if i == steps:
                break
            terms = model.meta_observe(*batch[:3], epoch=0)
            assert all(torch.isfinite(torch.tensor(list(terms.values()))))
        model.meta_end_task(run.dataset)
    return model.eval()


def accuracy(tmp_path, dataset, model, *more):
    buffer = () if model == "sgd" else ("--buffer_size", 200)
    run = experiment(tmp_path, "--model", model, "--dataset", dataset, *buffer, *more)
    run.run()
    accs = run.dataset.evaluate(run.model, run.dataset)[0]
    return sum(accs) / len(accs)


# After five tasks of class-IL digits SGD is at 19 %, chance among five heads' worth of tasks.
FLOORS = {"npcl": 50, "st_npcl": 50, "anp": 60, "np": 60, "cnp": 60, "npcl_plus": 65}


@pytest.fixture(scope="module")
def sgd(tmp_path_factory):
    """What is left without any memory."""
    return accuracy(tmp_path_factory.mktemp("sgd"), "seq-digits", "sgd", "--n_epochs", 2)


@pytest.mark.parametrize("model", MODELS)
def test_each_model_learns_sequential_digits(tmp_path, model, sgd):
    got = accuracy(tmp_path, "seq-digits", model, *FEW)
    assert got > FLOORS[model]
    assert got > sgd + 12


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_each_model_learns_permuted_digits(tmp_path, model):
    sgd = accuracy(tmp_path, "perm-digits", "sgd")
    got = accuracy(tmp_path, "perm-digits", model, *FEW)
    assert got > max(75, sgd + 5)


@pytest.mark.parametrize("model", MODELS)
def test_works_before_the_first_task_and_with_a_buffer_of_five(tmp_path, model):
    run = build(tmp_path, model, "seq-digits", 5)
    images = torch.rand(3, 1, 8, 8)
    before = run.model.eval()(images)
    assert before.shape == (3, 10)
    torch.testing.assert_close(before.exp().sum(1), torch.ones(3))
    learn_briefly(run, tasks=3)
    got = run.model.predict(images)
    heads = 3 if run.model.HAS_TASK else 1
    assert got.logits.shape == (heads, 1 if model == "cnp" else 4, 3, 10)
    assert got.entropy.shape == (heads, 3)
    torch.testing.assert_close(got.probs.sum(1), torch.ones(3))


def test_a_head_without_samples_answers_from_the_memory(tmp_path):
    run = build(tmp_path)
    model = learn_briefly(run, tasks=2)
    model.buffer.task_labels.fill_(1)  # as if reservoir sampling had dropped task 0
    model.predictor.forget()
    model.net.memory.task_mean[0] = 7.0
    model.net.memory.task_sd[0] = 1e-6
    z = model.predictor.prepared().z
    torch.testing.assert_close(z[:, 0], torch.full_like(z[:, 0], 7.0), rtol=0, atol=1e-3)
    assert (z[:, 1] - 7).abs().max() > 1


@pytest.mark.parametrize("model", MODELS)
def test_cached_and_uncached_answers_agree_and_changes_are_noticed(tmp_path, model):
    run = build(tmp_path, model)
    net = learn_briefly(run)
    images = torch.rand(4, 1, 8, 8)
    with torch.no_grad():
        first = net(images)
        kept = net.predictor._prepared
        assert torch.equal(net(images), first) and net.predictor._prepared is kept
        net.predictor.forget()
        assert torch.equal(net(images), first)
        next(net.predictor.net.deterministic.parameters()).add_(0.1)
        changed = net(images)
        assert net.predictor._prepared is not kept and not torch.equal(changed, first)
        kept = net.predictor._prepared
        net.buffer.add_data(examples=torch.rand(40, 1, 8, 8), labels=torch.zeros(40).long(),
                            task_labels=torch.zeros(40).long(),
                            **({"logits": torch.zeros(40, 10)} if net.args.dark_replay else {}))
        net(images)
        assert net.predictor._prepared is not kept
        kept = net.predictor._prepared
        for parameter in net.predictor.net.deterministic.parameters():
            parameter.data = parameter.data * 1.1
        net(images)
        assert net.predictor._prepared is not kept


@pytest.mark.parametrize("name", ["npcl", "anp"])
def test_steps_of_the_models_own_optimiser_are_noticed(tmp_path, name):
    model, images = learn_briefly(build(tmp_path, name)), torch.rand(4, 1, 8, 8)
    before = model.predictor.probabilities(images)
    optimiser = model.get_optimizer(lr=0.1)
    model.net.eval()
    model.net.features(images).square().mean().backward()
    for parameter in model.net.process_parameters:
        parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    found = model.predictor.probabilities(images)
    model.predictor.forget()
    assert torch.equal(found, model.predictor.probabilities(images))
    assert not torch.equal(found, before)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dataset", ["seq-digits", "perm-digits"])
def test_the_short_way_to_probabilities_is_the_long_one(tmp_path, model, dataset):
    asked = learn_briefly(build(tmp_path, model, dataset))
    images = torch.rand(9, 1, 8, 8)
    torch.testing.assert_close(asked(images).exp(), asked.predict(images).probs, rtol=1e-4,
                               atol=1e-6)


def test_a_training_step_drops_the_cache(tmp_path):
    run = build(tmp_path)
    model = learn_briefly(run, tasks=1)
    images = torch.rand(4, 1, 8, 8)
    with torch.no_grad():
        model(images)
        kept = model.predictor._prepared
    model._current_task = 0
    batch = next(iter(run.dataset.train_loader))
    model.observe(*batch[:3])
    with torch.no_grad():
        model(images)
    assert model.predictor._prepared is not kept


@pytest.mark.parametrize("name", ["npcl", "npcl_plus", "anp"])
def test_a_checkpoint_has_the_buffer_s_features(tmp_path, name):
    run = experiment(tmp_path, "--model", name, "--dataset", "seq-digits", "--buffer_size", 30,
                     "--n_epochs", 1, "--savecheck", "last")
    run.run()
    loaded = load_model(next(tmp_path.glob("checkpoints/*_last.pt"))).model
    images, seen = torch.rand(4, 1, 8, 8), []
    backbone = loaded.predictor.net.backbone
    backbone.register_forward_hook(lambda _, x, __: seen.append(len(x[0])))
    with torch.no_grad():
        assert torch.equal(loaded(images), run.model(images)) and seen == [4]
        for changed in (next(backbone.parameters()), loaded.buffer.examples):
            state = loaded.predictor.state_dict()
            assert state["features"]
            changed.view(-1)[0] += 1
            assert not loaded.predictor.state_dict()["features"]
            loaded.predictor.load_state_dict(state)
            del seen[:]
            loaded(images)
            assert seen == [30, 4]  # they are not of these weights or images
        state = loaded.predictor.state_dict()
        state["features"]["x"] = state["features"]["x"] + 1
        loaded.predictor.load_state_dict(state)
        loaded(images)
        assert seen == [30, 4, 30, 4]  # nor are they these


@pytest.mark.parametrize("more", [(), ("--slow_decay", 0.9)])
def test_an_evaluation_takes_the_buffer_s_features_from_the_pass_before_it(tmp_path, more):
    run = build(tmp_path, "npcl", "seq-digits", 50, *more)
    model, images = learn_briefly(run), torch.rand(4, 1, 8, 8)
    backbone, seen = model.predictor.net.backbone, []
    backbone.register_forward_hook(lambda _, x, __: seen.append(len(x[0])))
    with torch.no_grad():
        first = model(images)
        assert seen == [4]  # only what is asked: `end_task` saw the buffer
        model.predictor.forget()
        assert torch.equal(model(images), first) and sum(seen) == 4 + 4 + len(model.buffer)
        next(backbone.parameters()).add_(0.1)
        del seen[:]
        assert not torch.equal(model(images), first) and sum(seen) == 4 + len(model.buffer)
        model.buffer.examples[0] += 1
        del seen[:]
        model(images)
        assert sum(seen) == 4 + len(model.buffer)


def test_inference_leaves_the_global_generators_alone(tmp_path):
    import numpy as np
    run = build(tmp_path)
    model = learn_briefly(run)
    state, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()
    model(torch.rand(2, 1, 8, 8, generator=torch.Generator()))
    assert torch.equal(torch.get_rng_state(), state)
    assert (np.random.get_state()[1] == numbers).all()


@pytest.mark.parametrize("model", MODELS)
def test_asking_changes_nothing_and_does_not_depend_on_the_batch(model):
    plan = Plan(n_tasks=2, n_classes=4, latent_size=8, n_attention_heads=2,
                **{"npcl_plus": FAMILY["anp"], **FAMILY}[model])
    net = NPNetwork(get_backbone_class("reduced-resnet18")(num_classes=4))  # it has BatchNorm
    net.configure(plan)
    net.n_heads.fill_(2)
    buffer = Buffer(6)
    buffer.add_data(examples=torch.rand(6, 3, 32, 32), labels=torch.arange(6) % 4,
                    task_labels=torch.arange(6) % 2)
    predictor = Predictor(net, lambda: buffer, lambda images: images, draws=Draws(3),
                          mode="entropy", seed=1)
    net.train()
    net.backbone.layer1.eval()  # frozen by somebody: not ours to thaw
    images, before = torch.rand(4, 3, 32, 32), {k: v.clone() for k, v in net.state_dict().items()}
    flags, randomness = [m.training for m in net.modules()], torch.get_rng_state()
    together = predictor(images)
    alone = [predictor(image[None]) for image in images]
    torch.testing.assert_close(together.probs, torch.cat([one.probs for one in alone]),
                               rtol=0, atol=1e-5)
    assert together.head.tolist() == [int(one.head) for one in alone]
    assert not together.probs.requires_grad and not together.logits.requires_grad
    assert [m.training for m in net.modules()] == flags
    assert torch.equal(torch.get_rng_state(), randomness)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_context_size_and_draws_can_be_chosen_at_test_time(tmp_path):
    run = build(tmp_path, "npcl", "seq-digits", 60, "--eval_context", 7, "--n_task", 3)
    model = learn_briefly(run)
    assert len(model.predictor.context(model.predictor.context_size).x) == 7
    assert model.predict(torch.rand(2, 1, 8, 8), Draws(5, 2)).logits.shape == (2, 10, 2, 10)


@pytest.mark.parametrize("more", [
    ("--gamma", 0, "--delta", 0), ("--noisy_context", 1), ("--one_pass", 1),
    ("--latents_from", "context"), ("--divergence", "sample"), ("--divergence", "mean"),
    ("--task_marginal", 1, "--head_contrast", 1, "--one_pass", 1), ("--dark_replay", 1),
    ("--residual_decoder", 1), ("--replay_size", 3), ("--backbone", "npcl-mnistmlp")])
def test_every_switch_trains(tmp_path, more):
    run = build(tmp_path, "npcl", "seq-digits", 60, *more)
    model = learn_briefly(run, tasks=3)
    assert model.net.memory.recorded.tolist() == [True] * 3 + [False] * 2


@pytest.mark.parametrize(("model", "more", "reader"), [
    ("anp", (), None), ("np", (), None), ("npcl_plus", (), None), ("cnp", (), None),
    ("anp", ("--gamma", 0.1), "training"), ("np", ("--uncertainty", 1), "records"),
    ("npcl", ("--gamma", 0), "training")])
def test_the_memory_is_filled_where_somebody_reads_it(tmp_path, model, more, reader):
    learned = learn_briefly(build(tmp_path, model, "seq-digits", 60, *more))
    assert learned.net.memory.blank == (reader is None)
    assert learned.memory_is_used() == (reader == "training")


def test_without_a_context_the_only_head_answers_from_the_memory(tmp_path):
    run = build(tmp_path, "anp")
    run.model.buffer.add_data = lambda **batch: None  # nothing is ever stored
    model = learn_briefly(run, tasks=1)
    assert model.memory_is_used() and not model.net.memory.blank
    mean, sd = model.net.memory.global_mean, model.net.memory.global_sd
    z = model.predictor.prepared(Draws(2000)).z[:, 0]  # (S, O)
    assert torch.allclose(z.mean(0), mean, atol=0.1) and torch.allclose(z.std(0), sd, atol=0.1)


def test_a_run_that_recorded_nothing_cannot_go_on_with_the_global_regulariser(tmp_path):
    run = build(tmp_path, "anp")
    learn_briefly(run, tasks=1)
    run.model.args.gamma = 0.1
    run.dataset.get_data_loaders()
    with pytest.raises(UsageError, match="--gamma 0 recorded nothing"):
        run.model.meta_begin_task(run.dataset)


def test_tasks_that_see_no_other_are_remembered_without_it(tmp_path):
    model = learn_briefly(build(tmp_path, "st_npcl"), tasks=2)
    x, labels = torch.randn(40, model.net.n_features), torch.arange(40) % 4
    batch, replay = (Context(x[rows], labels[rows], labels[rows] // 2)
                     for rows in (labels > 1, labels >= 0))
    averages = RunningAverages(model.net.memory, torch.tensor([1]))
    model.args.minibatch_size = len(labels)
    model.measure([batch, batch], replay, averages)
    alone = Context(*map(torch.cat, zip(batch, batch, strict=True)))  # replay has its rows again
    expected = model.net.latent.sample(model.net.encode(*alone), Draws(1))[0]
    got = averages.task_sums[:, 1] / 2
    torch.testing.assert_close(got, torch.stack((expected.mean[0, 0], expected.sd[0, 0])))


@pytest.mark.parametrize("asked, seen", [(3, 3), (0, 9)])
def test_the_pass_after_a_task_takes_as_many_batches_as_asked(tmp_path, monkeypatch, asked, seen):
    run = build(tmp_path, "npcl", "seq-digits", 60, "--memory_batches", asked)
    sizes = []
    monkeypatch.setattr(type(run.model), "measure",
                        lambda self, batches, replay, averages: sizes.extend(map(len, batches)))
    monkeypatch.setattr(type(run.model.net.memory), "record", lambda self, averages: None)
    learn_briefly(run, tasks=1)
    assert len(sizes) == seen  # of nine batches of 32


def test_terms_appear_when_the_paper_says_so(tmp_path):
    run = build(tmp_path)
    model = run.model
    seen = []
    for _ in range(2):
        loader, _ = run.dataset.get_data_loaders()
        model.meta_begin_task(run.dataset)
        batches = iter(loader)
        seen += [set(model.meta_observe(*next(batches)[:3], epoch=0)) for _ in range(2)]
        model.meta_end_task(run.dataset)
    elbo = {"loss", "ce", "d_task", "d_global"}
    assert seen == [elbo, elbo, elbo | {"gr", "tr"}, elbo | {"gr", "tr"}]


def test_joint_has_one_head_and_multitask_one_a_task(tmp_path):
    single = build(tmp_path, "npcl", "seq-digits", 60, "--joint", 1)
    assert single.model.net.plan.n_tasks == 1
    several = build(tmp_path, "npcl", "seq-digits", 60, "--joint", 1, "--multitask", 1)
    model = learn_briefly(several, tasks=1, steps=3)
    assert model.net.plan.n_tasks == 5
    assert model.predict(torch.rand(2, 1, 8, 8)).logits.shape[0] == 5
    labels, tasks = model.buffer.labels[:60], model.buffer.task_labels[:60]
    assert torch.equal(labels // 2, tasks)


def test_multitask_without_joint_is_refused(tmp_path):
    from engine.errors import UsageError
    with pytest.raises(UsageError, match="--joint 1"):
        build(tmp_path, "npcl", "seq-digits", 60, "--multitask", 1)


def test_a_loss_that_is_not_finite_is_named_and_leaves_the_weights(tmp_path):
    from engine.errors import RunError
    run = build(tmp_path)
    with torch.no_grad():
        run.model.net.latent.task_latent.psi.from_summary.bias.fill_(float("nan"))
    before = run.model.net.backbone.fc1.weight.clone()
    with pytest.raises(RunError, match="ce"):
        run.run()
    assert torch.equal(run.model.net.backbone.fc1.weight, before)


def test_warm_up_and_gradient_cap(tmp_path):
    run = build(tmp_path, "npcl", "seq-digits", 60, "--warmup", 1000, "--lr", 0.1)
    model = run.model
    run.dataset.get_data_loaders()
    model.meta_begin_task(run.dataset)
    before = model.net.backbone.fc1.weight.clone()
    model.meta_observe(*next(iter(run.dataset.train_loader))[:3], epoch=0)
    moved = model.net.backbone.fc1.weight - before
    torch.testing.assert_close(moved, -0.1 / 1000 * model.net.backbone.fc1.weight.grad, rtol=1e-2,
                               atol=1e-7)
    assert model.opt.param_groups[0]["lr"] == 0.1
    model.args.grad_cap = 1e-3
    model.meta_observe(*next(iter(run.dataset.train_loader))[:3], epoch=0)
    norm = torch.stack([p.grad.norm() for p in model.net.process_parameters
                        if p.grad is not None]).norm()
    assert norm.item() == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize("model, dataset, more, cap", [
    ("npcl", "perm-digits", (), 1e4), ("npcl", "perm-digits", ("--head_contrast", 1), 1e4),
    ("npcl", "perm-digits", ("--task_marginal", 1), 2),
    ("npcl", "perm-digits", ("--dark_replay", 1), 0.5), ("npcl_plus", "perm-digits", (), 0.5),
    ("npcl_plus", "perm-digits", ("--grad_cap", 3), 3), ("npcl_plus", "seq-digits", (), 0.5),
    ("npcl_plus", "perm-digits", ("--dark_replay", 0), 1e4),
    ("npcl_plus", "perm-digits", ("--task_marginal", 1), 0.5)])
def test_the_cap_is_lower_where_an_extension_lengthens_the_step(tmp_path, model, dataset, more,
                                                                cap):
    assert build(tmp_path, model, dataset, 60, *more).model.args.grad_cap == cap


@pytest.mark.parametrize("size, tasks, buffer, expected", [
    (256, 5, 200, 3272), (256, 5, 500, 3572), (256, 10, 500, 6132), (256, 10, 2000, 7632),
    (256, 10, 200, 5832), (256, 10, 500, 6132), (32, 20, 200, 1544), (32, 20, 500, 1844)])
def test_storage_is_the_papers(size, tasks, buffer, expected):
    net = NPNetwork(_Linear())
    net.configure(Plan(n_tasks=tasks, n_classes=10, latent_size=size))
    memory = Buffer(buffer)
    memory.add_data(examples=torch.zeros(1, 2), labels=torch.zeros(1).long(),
                    task_labels=torch.zeros(1).long())
    assert net.memory.numbers() + memory.task_labels.numel() == expected


class _Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.classifier = nn.Linear(4, 10)
