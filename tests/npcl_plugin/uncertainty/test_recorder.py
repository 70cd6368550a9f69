"""`--uncertainty 1` through whole runs: what is saved, that nothing is disturbed, resuming."""
import json
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from nets import network
from runs import experiment, run_main

from engine.errors import UsageError
from engine.run_folder import finished_result
from main import _find_checkpoint, initialize, parse_args
from models import REGISTRY
from npcl_plugin.uncertainty import cost
from npcl_plugin.uncertainty.__main__ import main as measure_again
from npcl_plugin.uncertainty.files import load_arrays
from npcl_plugin.uncertainty.printing import table
from utils.buffer import Buffer
from utils.training import Experiment, Interrupted

pytestmark = pytest.mark.long

SMALL = ("--buffer_size", 40, "--n_epochs", 1, "--stop_after", 3, "--seed", 5)
DRAWS = ("--uncertainty_draws", 6)
NP_ONLY = ("heads", "confidence", "latents", "attention")


def run(folder, model, *more, dataset="seq-digits"):
    done = experiment(folder, "--model", model, "--dataset", dataset, *SMALL, *more)
    done.result = done.run()
    return done


def summary_of(done):
    return json.loads((done.folder.path / "uncertainty" / "summary.json").read_text())


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """er and npcl, with and without; on all test samples, so that accuracies are comparable."""
    folder = tmp_path_factory.mktemp("runs")
    found = {}
    for model in ("er", "npcl"):
        found[model, 0] = run(folder / f"{model}0", model)
        found[model, 1] = run(folder / f"{model}1", model, "--uncertainty", 1,
                              "--uncertainty_samples", 0, *DRAWS)
    return found


@pytest.mark.parametrize("model", ["er", "npcl"])
def test_nothing_is_disturbed(runs, model):
    calm, watched = runs[model, 0], runs[model, 1]
    assert watched.logger.accs == calm.logger.accs
    assert watched.logger.masked_accs == calm.logger.masked_accs
    state = watched.model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in calm.model.state_dict().items())
    assert torch.equal(watched.model.buffer.examples, calm.model.buffer.examples)
    assert not (calm.folder.path / "uncertainty").exists()
    assert "uncertainty" not in calm.result and "uncertainty" in watched.result


def test_a_memory_that_only_records_read_disturbs_nothing(tmp_path):
    calm, watched = (run(tmp_path / str(count), "anp", "--debug_mode", 1, "--uncertainty", count)
                     for count in (0, 1))
    assert calm.model.net.memory.blank and not watched.model.net.memory.blank
    assert watched.logger.accs == calm.logger.accs
    state = watched.model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in calm.model.state_dict().items()
               if "memory" not in name)


@pytest.mark.parametrize("model", ["er", "npcl"])
def test_saved_predictions_have_the_accuracies_of_the_run(runs, model):
    summary = summary_of(runs[model, 1])
    measured = [[100 * value for value in row]
                for row in summary["calibration"]["by_task"]["accuracy"]]
    for saved, logged in zip(measured, runs[model, 1].logger.accs, strict=True):
        assert saved == pytest.approx(logged, rel=1e-4)
    transfer = runs[model, 1].result["transfer"]["backward_transfer"]["class-il"]
    assert 100 * summary["transfer"]["mean_accuracy"] == pytest.approx(transfer, rel=1e-3)


def test_sections_of_a_baseline_and_of_the_family(runs):
    er, npcl = summary_of(runs["er", 1]), summary_of(runs["npcl", 1])
    assert set(er) == set(npcl) and er["format"] == 1
    assert all(er[name] is None for name in NP_ONLY)
    assert all(npcl[name] is not None for name in NP_ONLY)
    assert "variance_softmax" not in er["novelty"]["auroc"]
    assert npcl["novelty"]["data"] == "inverted"
    assert len(npcl["novelty"]["auroc"]["variance_entropy"]) == 3
    assert np.shape(npcl["heads"]["accuracy"]) == (3, 3) == np.shape(npcl["heads"]["confusion"])
    assert npcl["confidence"]["n_draws"] == 6
    assert [len(row) for row in npcl["latents"]["drift"]["kl"]] == [1, 2, 3]
    assert len(npcl["attention"]["queries"][0]["weights"]) == 15
    assert npcl["cost"]["context"]["size"][-1] == 40 and er["cost"]["context"] is None
    assert er["cost"]["storage"] == {"stored": 0, "der": 400, "gain_percent": 100.0}


def test_every_headline_number_is_printed_with_its_definition(runs, capsys):
    folder = runs["npcl", 1].folder.path
    before = (folder / "uncertainty" / "summary.json").read_bytes()
    assert measure_again([str(folder)]) == 0
    page = capsys.readouterr().out
    for name in summary_of(runs["npcl", 1])["headline"]:
        line = next(line for line in page.splitlines() if line.split()[:1] == [name])
        assert len(line.split()) > 4, "name, value and a definition"
    assert (folder / "uncertainty" / "summary.json").read_bytes() == before, "nothing retrained"


def test_after_a_run_a_short_table_says_where_the_definitions_are(runs):
    done = runs["npcl", 1]
    headline = summary_of(done)["headline"]
    text = table({"headline": headline, "notes": ["One note."]}, done.folder.path)
    assert len(text.splitlines()) <= 14, "and a title"
    assert set(headline) <= set(text.split())
    assert f"python -m npcl_plugin.uncertainty {done.folder.path}" in text


def test_a_damaged_file_is_named_in_one_sentence(runs, tmp_path, capsys):
    folder = tmp_path / "uncertainty"
    folder.mkdir()
    assert measure_again([str(tmp_path)]) == 2
    source = runs["er", 1].folder.path / "uncertainty"
    (folder / "run.json").write_bytes((source / "run.json").read_bytes())
    whole = (source / "task_00.npz").read_bytes()
    (folder / "task_00.npz").write_bytes(whole[:len(whole) // 2])
    capsys.readouterr()
    assert measure_again([str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and "task_00.npz" in message


def test_probabilities_and_draws_in_the_arrays(runs):
    arrays = load_arrays(runs["npcl", 1].folder.path / "uncertainty" / "task_02.npz")
    n = len(arrays["labels"])
    assert arrays["log_probs"].dtype == np.float16 and arrays["log_probs"].shape == (n, 6)
    assert np.exp(arrays["log_probs"].astype(float)).sum(1) == pytest.approx(np.ones(n), abs=5e-3)
    assert arrays["head_entropy"].shape == (n, 3) == arrays["head_predicted"].shape
    assert (arrays["variance_softmax"] > 0).any() and (arrays["piw"] >= 0).all()
    assert not any(value.ndim > 2 for value in arrays.values()), "never all heads' draws"


def test_the_answering_heads_are_those_of_the_model(runs):
    done = runs["npcl", 1]
    arrays = load_arrays(done.folder.path / "uncertainty" / "task_02.npz")
    images, labels = done.dataset.test_loaders[0].dataset.fetch(slice(0, 20))
    done.model.eval()
    with torch.no_grad():
        prediction = done.model.predict(images, type(done.model.predictor.draws)(6, 1))
    assert prediction.head.tolist() == arrays["head"][:20].tolist()
    assert prediction.entropy.T.numpy() == pytest.approx(
        arrays["head_entropy"][:20].astype(float), abs=2e-3)
    first = prediction.logits.softmax(-1)[0, :, 0, labels[0]]  # true head 0, first sample
    low, high = np.quantile(first.numpy(), [0.025, 0.975])
    assert arrays["piw"][0, 0] == pytest.approx(high - low, rel=1e-4)


def test_costs_are_those_of_the_models_own_answers(runs, monkeypatch):
    done = runs["npcl", 1]
    images, labels = done.dataset.test_loaders[0].dataset.fetch(slice(0, 60))
    done.model.eval()
    with torch.no_grad():
        with monkeypatch.context() as patch:
            patch.setattr(type(done.model.net), "decode", None)  # the long way to an answer
            found = cost.measure(done.model, images, labels, 6, done.model)
        usual = (done.model(images)[:, :6].argmax(1) == labels).double().mean()
        six = done.model.predict(images, type(done.model.predictor.draws)(5, 5)).probs
    assert found["context"]["accuracy"][-1] == pytest.approx(float(usual))
    assert found["draws"]["accuracy"][1, 1] == pytest.approx(
        float((six[:, :6].argmax(1) == labels).double().mean()))
    assert found["context"]["size"] == [0, 1, 5, 10, 20, 40]
    assert done.model.predictor.context_size is None
    assert min(found["context"]["seconds"]) > 0 and found["draws"]["seconds"].min() > 0


def used_buffer(**columns):
    """A buffer that holds one image of 4 pixels with a label and these columns."""
    buffer = Buffer(1)
    buffer.add_data(examples=torch.zeros(1, 4), labels=torch.zeros(1), **columns)
    return buffer


@pytest.mark.parametrize(("rows", "classes", "heads", "size", "stored", "gain"), [
    (200, 10, 5, 256, 3272, -63.6), (500, 10, 20, 32, 1844, 63.12)])
def test_storage_is_the_papers(rows, classes, heads, size, stored, gain):
    net = network("npcl", n_tasks=heads, n_classes=classes, latent_size=size)
    model = SimpleNamespace(predict=None, predictor=None, net=net,
                            buffer=used_buffer(task_labels=torch.zeros(1)))
    found = cost.storage(model, rows, classes)
    assert found == {"stored": stored, "der": rows * classes, "gain_percent": pytest.approx(gain)}


@pytest.mark.parametrize("name, per_row", [("npcl", 1), ("npcl_plus", 1 + 10)])
def test_storage_counts_what_the_buffer_really_holds(name, per_row, tmp_path):
    of_inputs = 10 * (2 * 64 + 1) if name == "npcl_plus" else 0
    done = experiment(tmp_path, "--model", name, "--dataset", "seq-digits", "--buffer_size", 40,
                      "--debug_mode", 1, "--n_epochs", 1, "--stop_after", 1, "--latent_size", 16)
    done.run()
    found = cost.storage(done.model, 40, 10)
    assert found["stored"] == done.model.net.memory.numbers() + 40 * per_row + of_inputs


def test_storage_of_other_methods():
    logits = used_buffer(logits=torch.zeros(1, 10))
    derpp, er, sgd, fdr = (REGISTRY[name] for name in ("derpp", "er", "sgd", "fdr"))

    def stored(method, rows, buffer):
        says = SimpleNamespace(KEEPS_ONLY_BUFFER=method.KEEPS_ONLY_BUFFER, buffer=buffer)
        return cost.storage(says, rows, 10)

    assert stored(derpp, 100, logits) == {"stored": 1000, "der": 1000, "gain_percent": 0.0}
    assert stored(er, 100, used_buffer())["stored"] == 0
    assert stored(fdr, 100, logits)["stored"] is None
    assert stored(sgd, 0, None) == {"stored": 0, "der": 0, "gain_percent": None}
    assert cost.storage(SimpleNamespace(NAME="upstream's"), 100, 10)["stored"] is None


@pytest.mark.parametrize("model", ["icarl", "lwf_mc", "sgd", "joint"])
def test_baselines_of_other_kinds_are_recorded_undisturbed(model, tmp_path):
    words = ("--debug_mode", 1, "--model_config", "base", "--lr", 0.05)
    size = ("--buffer_size", 40) if model == "icarl" else ()
    short = () if model == "joint" else ("--stop_after", 2)
    common = ("--model", model, "--dataset", "seq-digits", *size, "--n_epochs", 1, *short, *words)
    calm = experiment(tmp_path / "a", *common)
    calm.run()
    watched = experiment(tmp_path / "b", *common, "--uncertainty", 1, "--uncertainty_samples", 9)
    watched.run()
    assert watched.logger.accs == calm.logger.accs
    values = summary_of(watched)["headline"]
    assert 0 <= values["ece"] <= 1 and values["nll"] >= 0


@pytest.mark.parametrize("model", ["anp", "np", "cnp", "st_npcl", "npcl_plus"])
def test_the_whole_family_is_recorded(model, tmp_path):
    done = run(tmp_path, model, "--debug_mode", 1, "--uncertainty", 1, "--uncertainty_samples", 10,
               *DRAWS, dataset="perm-digits")
    found = summary_of(done)
    assert (found["heads"] is None) == (model in ("anp", "np", "cnp", "npcl_plus"))
    assert (found["attention"] is None) == (model in ("np", "cnp"))
    assert (found["headline"]["active_units_global"] is None) == (model in ("st_npcl", "cnp"))
    assert found["confidence"]["true_head"]["n_correct"] <= 30
    assert "newest task's permutation" in found["notes"][0]


def stop_in_the_second_task(watched):
    observe = watched.model.meta_observe

    def counting(*args, **kwargs):
        if watched.progress.position.task == 1 and watched.progress.position.epoch == 1:
            watched.stop.number = signal.SIGTERM
        return observe(*args, **kwargs)

    watched.model.meta_observe = counting


def without_times(summary):
    for part in ("answer", "context", "draws"):
        summary["cost"][part].pop("seconds")
    return summary


def test_a_stopped_and_resumed_run_ends_with_the_same_summary(tmp_path):
    words = ("--model", "npcl", "--dataset", "seq-digits", "--buffer_size", 40, "--n_epochs", 2,
             "--stop_after", 2, "--uncertainty", 1, "--uncertainty_samples", 20, *DRAWS,
             "--seed", 5, "--resume")
    calm = experiment(tmp_path / "calm", *words)
    calm.run()
    folder = tmp_path / "cut"
    cut = experiment(folder, *words)
    stop_in_the_second_task(cut)
    with pytest.raises(Interrupted):
        cut.run()
    assert cut.key == calm.key
    args = parse_args([str(word) for word in (
        "--base_path", folder / "data", "--checkpoint_path", folder / "checkpoints",
        "--non_verbose", 1, *words)])
    _find_checkpoint(args)
    again = Experiment(*initialize(args))
    again.run()
    assert again.folder.path == cut.folder.path and again.progress.resumed == 1
    assert without_times(summary_of(again)) == without_times(summary_of(calm))
    names = sorted(path.name for path in (calm.folder.path / "uncertainty").iterdir())
    assert names == sorted(path.name for path in (again.folder.path / "uncertainty").iterdir())
    for name in (name for name in names if name.endswith(".npz")):
        one, two = (load_arrays(done.folder.path / "uncertainty" / name)
                    for done in (calm, again))
        assert all(np.array_equal(one[part], two[part], equal_nan=True) for part in one), name


def test_a_finished_run_is_found_by_the_same_command(tmp_path):
    words = ("--model", "er", "--dataset", "perm-digits", "--buffer_size", 20, "--n_epochs", 1,
             "--stop_after", 1, "--seed", 1, "--debug_mode", 1, "--non_verbose", 1, "--resume",
             "--base_path", tmp_path, "--checkpoint_path", tmp_path / "c", "--uncertainty", 1)
    first = run_main(*words)
    assert first.returncode == 0, first.stderr
    assert "ace_classwise" in first.stdout
    args = parse_args([str(word) for word in words])
    path, result = finished_result(args, args.conf_key)
    assert path.parent.joinpath(result["uncertainty"]["summary"]).exists()
    plain = parse_args([str(word) for word in words[:-2]])
    assert finished_result(plain, plain.conf_key) is None, "a run without is another run"


@pytest.mark.parametrize(("words", "message"), [
    (("--disable_log", 1), "--disable_log 1 asks for none"),
    (("--uncertainty_draws", 0), "Expected --uncertainty_draws to be at least 1"),
])
def test_what_cannot_be_recorded_is_refused_at_once(words, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        run(tmp_path, "er", "--uncertainty", 1, *words)
