"""`--model_config release`: the authors' reading against loops written from the facts about it."""
import json

import pytest
import torch
from nets import network, samples
from reference import (
    cross_entropy,
    decode,
    kl,
    layer_norm,
    linear,
    mean_of,
    phi,
    sequential,
    stacked_linear,
    stacked_mlp,
)
from test_resume import state_of, stop_after

from engine.errors import UsageError
from engine.model_state import capture
from main import _find_checkpoint, initialize, main, parse_args
from npcl_plugin import objective
from npcl_plugin.context import BatchContext
from npcl_plugin.distribution_memory import GlobalHistory, RunningAverages
from npcl_plugin.gaussians import Gaussian
from npcl_plugin.plan import Draws
from npcl_plugin.warm_up import WarmUpEveryTask
from utils.training import Experiment, Interrupted

N = 3
PARTS = {"encoders": "release", "depth": 2, "norm": True, "decoder_depth": 2,
         "decoder_width": "features", "global_draws": "task", "n_attention_heads": 4}


def block(project, out, heads, keys, values, queries):
    """O = Q + A V, O + ReLU(W O), by rows; scores are scaled by the whole width."""
    k, v = [project[1](x) for x in keys], [project[2](x) for x in values]
    rows = []
    for x in queries:
        q = project[0](x)
        size = len(q) // heads
        mixed = []
        for h in range(heads):
            here = slice(h * size, (h + 1) * size)
            scores = torch.stack([(q[here] * key[here]).sum() / len(q) ** 0.5 for key in k])
            weights = torch.exp(scores) / torch.exp(scores).sum()
            mixed.append(sum(w * value[here] for w, value in zip(weights, v, strict=True)))
        hidden = q + torch.cat(mixed)
        rows.append(hidden + torch.relu(out(hidden)))
    return rows


def among(blocks, rows, task=None):
    """Self-attention of rows by all blocks in succession."""
    for each in blocks:
        size = len(rows[0])

        def whole(x, each=each):
            return linear(each.project, x) if task is None \
                else stacked_linear(each.project, task, x)

        def out(x, each=each):
            return linear(each.out, x) if task is None else stacked_linear(each.out, task, x)

        project = [lambda x, i=i, size=size, whole=whole: whole(x)[i * size:(i + 1) * size]
                   for i in range(3)]
        rows = block(project, out, each.n_attention_heads, rows, rows, rows)
    return rows


def psi(heads, task, x):
    weight = heads.from_summary.weight[task]
    if hasattr(heads.from_global, "weight"):
        weight = torch.cat((weight, heads.from_global.weight[task]))
    hidden = x @ weight + heads.from_summary.bias[task]
    hidden = torch.relu(layer_norm(hidden, heads.norm.weight[task], heads.norm.bias[task]))
    both = stacked_mlp(heads.rest, task, hidden)
    mean, raw = both[:len(both) // 2], both[len(both) // 2:]
    return mean, torch.exp(raw) + 0.01


def encode(net, x, labels, tasks):
    latent = net.latent
    rows = [phi(latent.encoder, x[i], labels[i]) for i in range(len(labels))]
    summary = {}
    for task in sorted(set(tasks.tolist())):
        mine = [i for i in range(len(tasks)) if tasks[i] == task]
        attended = among(latent.taskwise.blocks, [rows[i] for i in mine], task)
        for i, row in zip(mine, attended, strict=True):
            rows[i] = row
        summary[task] = mean_of(attended)
    return summary, psi(latent.global_latent.psi, 0, mean_of(among(latent.across.blocks, rows)))


def deterministic(path, x_context, y_context, x):
    rows = [sequential(path.of_targets, one) for one in x]
    keys = [sequential(path.of_context, one) for one in x_context]
    values = [phi(path.encoder, *pair) for pair in zip(x_context, y_context, strict=True)]
    size = len(rows[0])
    for i in range(2):
        part = slice(i * size, (i + 1) * size)
        project = (lambda x, i=i: linear(path.query[i], x),
                   lambda x, part=part: linear(path.key, x)[part],
                   lambda x, part=part: linear(path.value, x)[part])
        rows = block(project, lambda x, i=i: linear(path.out[i], x), path.n_attention_heads, keys,
                     values, rows)
    return rows


def slow_pass(net, sets, noise):
    """Loss terms of several sets (x, labels, tasks, context), each encoded by itself."""
    logits, terms, posteriors = [], {"d_task": 0, "d_global": 0}, []
    for k, (x, labels, tasks, context) in enumerate(sets):
        summary, q = encode(net, x, labels, tasks)
        prior_summary, p = encode(net, x[context], labels[context], tasks[context])
        r = deterministic(net.deterministic, x[context], labels[context], x)
        here, last, prior_last = [], {}, {}
        for n in range(N):
            z = {}
            for task, mean in summary.items():
                z_global = q[0] + q[1] * noise["global"][k, n, task]
                last[task] = psi(net.latent.task_latent.psi, task, torch.cat((mean, z_global)))
                z[task] = last[task][0] + last[task][1] * noise["task"][k, n, task]
            for task, mean in prior_summary.items():
                z_global = p[0] + p[1] * noise["prior"][k, n, task]
                prior_last[task] = psi(net.latent.task_latent.psi, task,
                                       torch.cat((mean, z_global)))
            here.append(torch.stack([decode(net, x[b], r[b], z[int(tasks[b])])
                                     for b in range(len(x))]))
        logits.append(torch.stack(here))
        terms["d_task"] = terms["d_task"] + sum(kl(last[t], prior_last[t]) for t in prior_last)
        terms["d_global"] = terms["d_global"] + kl(q, p)
        posteriors.append((q, last))
    return logits, terms, posteriors


def two_sets():
    """Stream of task 2 and replay of tasks 0 to 2, whose task 1 has no context."""
    stream, replay = samples(5, n_tasks=1), samples(9, seed=3)
    stream = (stream[0], stream[1], torch.full((5,), 2), torch.tensor([0, 3]))
    rows = [i for i in range(9) if replay[2][i] != 1][:4]
    return stream, (*replay[:3], torch.tensor(rows))


def drawn(net, sets):
    """The noise that `training_pass` draws after torch.manual_seed(1), for the loops."""
    torch.manual_seed(1)
    size, cells, present = net.plan.latent_size, [], []
    for k, (_, _, tasks, context) in enumerate(sets):
        cells += [(k, t) for t in sorted(set(tasks.tolist()))]
        present += [(k, t) for t in sorted(set(tasks[context].tolist()))]
    noise = {name: torch.randn(N, len(which), size, dtype=torch.float64)
             for name, which in (("global", cells), ("prior", present))}
    noise["task"] = torch.randn(1, N, len(cells), size, dtype=torch.float64)[0]
    return {name: {(k, n, t): values[n, i] for n in range(N)
                   for i, (k, t) in enumerate(present if name == "prior" else cells)}
            for name, values in noise.items()}


def test_training_pass_and_losses_agree_with_the_loops():
    net = network(**PARTS).eval()  # no dropout
    sets = two_sets()
    noise = drawn(net, sets)
    x, labels, tasks = (torch.cat(parts) for parts in list(zip(*sets, strict=True))[:3])
    torch.manual_seed(1)
    out = net.training_pass(
        x, labels, tasks, context=torch.cat((sets[0][3], sets[1][3] + 5)), draws=Draws(N),
        sets=torch.tensor([0] * 5 + [1] * 9))
    logits, slow, posteriors = slow_pass(net, sets, noise)
    torch.testing.assert_close(out.logits.all_draws(), torch.cat(logits, 1), rtol=0, atol=1e-8)
    assert len(out.task_posterior.mean) == 1  # of the last draw
    terms = {"d_task": objective.task_divergence(out.task_posterior, out.task_prior, out.cells,
                                                 "sets"),
             "d_global": objective.global_divergence(out.global_posterior, out.global_prior,
                                                     out.cells, "sets")}
    then = [(torch.randn(8).double(), 0.1 + torch.rand(8).double()) for _ in range(3)]
    stored = Gaussian(*(torch.stack(part) for part in zip(*then, strict=True)))
    q, last = posteriors[1]
    terms["gr"] = objective.global_regulariser(out.global_posterior[-1], stored[:2], "sets",
                                               objective.DISTANCES["kl"])
    slow["gr"] = kl(q, then[0]) + kl(q, then[1])
    past = (out.cells.sets == 1) & (out.cells.tasks < 2)
    terms["tr"] = objective.task_regulariser(
        out.task_posterior, Gaussian(stored.mean[out.cells.tasks], stored.sd[out.cells.tasks]),
        past, out.cells.sizes / 9, "sets", objective.DISTANCES["kl"])
    slow["tr"] = kl(last[0], then[0]) + kl(last[1], then[1])
    counts = torch.tensor([5, len(labels) - 5])
    terms["ce"] = out.logits.cross_entropy(labels, (1 / counts.double()).repeat_interleave(counts))
    slow["ce"] = sum(sum(cross_entropy(found[n][b], y[b]) for n in range(N) for b in range(len(y)))
                     / (N * len(y)) for found, (_, y, _, _) in zip(logits, sets, strict=True))
    for name, value in slow.items():
        torch.testing.assert_close(terms[name], value, rtol=0, atol=1e-6, msg=name)
    parameters = [p for p in net.parameters() if p.requires_grad]
    got = torch.autograd.grad(sum(terms.values()), parameters, allow_unused=True)
    exact = torch.autograd.grad(sum(slow.values()), parameters, allow_unused=True)
    names = [name for name, p in net.named_parameters() if p.requires_grad]
    for name, fast, value in zip(names, got, exact, strict=True):
        fast = torch.zeros(()) if fast is None else fast
        value = torch.zeros_like(fast) if value is None else value
        assert (fast - value).abs().max() < 1e-6, name


@pytest.mark.parametrize("kind", ["npcl", "st_npcl", "anp", "np", "cnp"])
def test_the_whole_family_has_the_parts(kind):
    net = network(kind, **PARTS)
    x, labels, tasks, context = samples()
    out = net.training_pass(x, labels, tasks, context=context, draws=Draws(2))
    assert out.logits.all_draws().shape[1:] == (12, 5)
    assert out.logits.all_draws().isfinite().all()


def test_heads_draw_a_global_latent_of_their_own():
    for kind, alike in (("set", True), ("task", False)):
        net = network(**{**PARTS, "global_draws": kind})
        encoding = net.encode(*samples()[:3])
        z = net.latent.draw_global(encoding, Draws(4))  # (N, K, O)
        assert z.shape == (4, 3, 8)
        assert torch.equal(z[:, 0], z[:, 1]) is alike


def test_dropout_is_of_training_alone():
    net = network(**PARTS)
    x, labels, _, context = samples()
    path = net.deterministic

    def answers():
        return path.attend(path.summarise(x[context], labels[context]), x)

    assert not torch.equal(net.train() and answers(), answers())
    net.eval()
    assert torch.equal(answers(), answers())


def test_history_keeps_every_global_distribution():
    memory, kept = GlobalHistory(3, 2, 4), []
    assert len(memory.anchors().mean) == 0
    for task in range(3):
        averages = RunningAverages(memory, torch.tensor([task]))
        pair = torch.randn(2), torch.rand(2)
        averages.add(Gaussian(pair[0][None], pair[1][None]), Gaussian(*torch.zeros(2, 1, 1, 2)),
                     torch.tensor([task]))
        memory.record(averages)
        kept.append(pair)
        anchors = memory.anchors()
        assert torch.equal(anchors.mean, torch.stack([mean for mean, _ in kept]))
        assert torch.equal(anchors.sd, torch.stack([sd for _, sd in kept]))
    assert memory.numbers() == 2 * (3 * 2) + 2 * (4 * 2)


def test_batch_is_its_own_context_and_covers_every_class():
    labels = torch.tensor([0, 1, 1, 1, 1, 1, 1, 2, 2, 2])
    context = BatchContext()
    for seed in range(20):
        torch.manual_seed(seed)
        found = context.of_stream(torch.arange(10.0), labels, None, 0.25, None)
        assert len(found.labels) == 3 and set(found.labels.tolist()) == {0, 1, 2}
        assert torch.equal(labels[found.images.long()], found.labels)
        rows = context.of_replay(labels, torch.zeros(10), 0.5)
        assert len(rows) == 5 and set(labels[rows].tolist()) == {0, 1, 2}


def test_rate_rises_in_every_task():
    args = type("Args", (), {"lr": 0.2, "warmup_share": 0.5, "n_epochs": 2, "n_iters": None})
    rise = WarmUpEveryTask(args)
    rise.begin_task(type("Data", (), {"train_loader": [0] * 10}))
    rates = [args.lr * rise.factor(100, i) for i in range(20)]
    assert rates[0] == pytest.approx(1e-5)
    assert rates[5] == pytest.approx(1e-5 + 0.5 * (0.2 - 1e-5))
    assert rates[10:] == [0.2] * 10
    again = WarmUpEveryTask(args)
    again.load_state_dict(rise.state_dict())
    assert again.factor(0, 3) == rise.factor(0, 3)


RELEASE = ("--model_config", "release", "--seed", "10", "--buffer_size", "40", "--non_verbose", "1")


def test_settings_of_the_name_are_resolved_and_printed(tmp_path, capsys):
    args = parse_args(["--model", "npcl", "--dataset", "perm-mnist", *RELEASE])
    assert (args.encoders, args.global_draws, args.gr_against) == ("release", "task", "all")
    assert (args.latent_size, args.lr, args.n_global) == (32, 0.2, 5)
    assert parse_args(["--model", "npcl", "--dataset", "seq-cifar10", *RELEASE]).latent_size == 128
    capsys.readouterr()
    plain = parse_args(["--model", "npcl", "--dataset", "perm-mnist", *RELEASE[2:]])
    assert plain.encoders == "paper" and plain.conf_key != args.conf_key
    with pytest.raises(SystemExit):
        parse_args(["--model", "npcl", "--dataset", "perm-mnist", "--help"])
    assert "(release)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("words, sentence", [
    (("--model", "er", *RELEASE), "no settings of er called `release`; --model_config takes "
                                  "default, base, best"),
    (("--model", "npcl", *RELEASE, "--np_depth", "1"), "--np_depth of 2 at least"),
    (("--model", "npcl", *RELEASE, "--global_draws", "set"), "--global_draws task alone allows"),
])
def test_what_cannot_be_is_refused(words, sentence, tmp_path):
    with pytest.raises(UsageError, match=sentence):
        initialize(parse_args([*words, "--dataset", "seq-digits", "--base_path", str(tmp_path)]))


@pytest.mark.parametrize("dataset", ["seq-digits", "perm-digits"])
def test_stopped_run_ends_in_the_same_numbers(dataset, tmp_path):
    def words(folder):
        return ["--model", "npcl", "--dataset", dataset, *RELEASE, "--n_epochs", "1",
                "--stop_after", "2", "--resume", "--base_path", str(tmp_path / folder / "data"),
                "--checkpoint_path", str(tmp_path / folder / "checkpoints")]

    calm = Experiment(*initialize(parse_args(words("calm"))))
    calm.run()
    assert int(calm.model.net.memory.n_past) == 2
    assert {"objective", "warm_up", "context"} <= set(capture(calm.model)["stateful"])
    cut = Experiment(*initialize(parse_args(words("cut"))))
    stop_after(cut, len(calm.dataset.train_loader) + 3)  # in the rise of the second task
    with pytest.raises(Interrupted):
        cut.run()
    args = parse_args(words("cut"))
    _find_checkpoint(args)
    again = Experiment(*initialize(args))
    again.run()
    assert again.progress.resumed == 1 and again.logger.accs == calm.logger.accs
    expected, got = state_of(calm), state_of(again)
    assert set(got) == set(expected)
    for name, value in expected.items():
        assert torch.equal(got[name], value), name


def test_uncertainty_and_inference_from_a_checkpoint(tmp_path):
    places = ["--base_path", str(tmp_path), "--checkpoint_path", str(tmp_path / "ckpt")]
    result = main(parse_args([
        "--model", "npcl", "--dataset", "seq-digits", *RELEASE, "--n_epochs", "1", "--stop_after",
        "2", "--uncertainty", "1", "--savecheck", "last", *places]))
    summary = json.loads(next(tmp_path.rglob("summary.json")).read_text())
    assert summary["attention"]["self_attention"] is None and summary["attention"]["queries"]
    file = next(path for path in (tmp_path / "ckpt").rglob("*") if path.suffix in (".pt", ".ckpt"))
    again = main(parse_args(["--loadcheck", str(file), "--inference_only", "1", *places]))
    assert again["accuracy"] == result["accuracy"]
