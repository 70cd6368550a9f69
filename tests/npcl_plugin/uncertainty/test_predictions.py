"""Asking models about images, and where novel images come from."""
import math
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import ROOT, experiment
from torch.utils.data import Dataset

from npcl_plugin.plan import Draws
from npcl_plugin.uncertainty import predictions, summary
from npcl_plugin.uncertainty.files import load_arrays, plain, save_arrays, save_json
from npcl_plugin.uncertainty.novel_data import novel_for


@given(st.integers(0, 500), st.integers(0, 60))
@settings(max_examples=60)
def test_evenly_spaced_rows_are_distinct_and_span_the_set(total, count):
    rows = predictions.evenly_spaced(total, count).tolist()
    assert len(rows) == (total if count == 0 else min(count, total))
    assert len(set(rows)) == len(rows) and rows == sorted(rows)
    if len(rows) > 1:
        assert rows[0] == 0 and rows[-1] == total - 1


@pytest.mark.parametrize("draws", [Draws(3), Draws(900)])
def test_what_heads_say_does_not_depend_on_how_many_images_they_see_at_once(
        tmp_path, monkeypatch, draws):
    run = experiment(tmp_path, "--model", "npcl", "--dataset", "seq-digits", "--buffer_size",
                     20)
    run.dataset.get_data_loaders()
    model, data = run.model.eval(), run.dataset.test_loaders[0].dataset
    model.net.n_heads.fill_(5)
    asked = {"data": data, "rows": torch.arange(40), "draws": draws, "n_seen": 2,
             "true_heads": torch.arange(40) % 5}
    size = predictions.batch_size(model, draws)
    assert 5 * draws.total * 10 * size <= 2 ** 20 or size == 8, "more leaves the caches"
    few = predictions.head_arrays(model, **asked)
    monkeypatch.setattr(predictions, "batch_size", lambda model, draws: 13)
    for name, value in predictions.head_arrays(model, **asked).items():
        np.testing.assert_allclose(value, few[name], rtol=1e-3, atol=1e-5, err_msg=name)


class Rows(Dataset):
    """A test set that cannot fetch many rows at once."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return torch.full((2,), float(index)), index % 3


class Told:
    """A model that is told the task and outputs logits (x0, task, 7), the last not seen yet."""

    COMPATIBILITY = ["task-il"]
    device = torch.device("cpu")

    def __call__(self, images, task):
        return torch.stack((images[:, 0], torch.full((len(images),), float(task)),
                            torch.full((len(images),), 7.0)), dim=1)


def test_answers_are_the_softmax_over_the_classes_seen():
    found = predictions.answers(Told(), Rows(), torch.arange(5), task=2, n_seen=2)
    assert found["labels"].tolist() == [0, 1, 2, 0, 1]
    assert found["predicted"].tolist() == [1, 1, 0, 0, 0]  # logits (i, 2), a tie goes to the first
    assert found["energy"][3] == pytest.approx(-math.log(math.exp(3) + math.exp(2)))
    expected = 3 - math.log(math.exp(3) + math.exp(2))
    assert float(found["log_probs"][3, 0]) == pytest.approx(expected, abs=1e-3)


def test_impossible_classes_stay_finite():
    class Sure(Told):
        def __call__(self, images, task):
            return torch.tensor([[0.0, -math.inf]]).expand(len(images), -1)

    found = predictions.answers(Sure(), Rows(), torch.arange(2), 0, 2)
    assert np.isfinite(found["log_probs"]).all() and found["predicted"].tolist() == [0, 0]


@pytest.fixture
def benchmark(tmp_path):
    def make(name):
        dataset = experiment(tmp_path, "--model", "sgd", "--dataset", name, "--lr", 0.1).dataset
        dataset.get_data_loaders()
        return dataset
    return make


def test_inverted_digits_go_through_the_newest_permutation(benchmark):
    dataset = benchmark("perm-digits")
    dataset.get_data_loaders()
    novel = novel_for("auto", dataset)
    known, _ = dataset.test_loaders[-1].dataset.fetch(slice(0, 5))
    images, _ = novel.data.fetch(slice(0, 5))
    torch.testing.assert_close(images, 1 - known)
    assert novel.description.endswith("through the newest task's permutation")
    assert dataset.test_loaders[-1].dataset.data.max() == 255, "the benchmark's own are untouched"


def test_shuffled_images_keep_their_pixels(benchmark):
    dataset = benchmark("seq-digits")
    novel = novel_for("shuffled", dataset)
    own = dataset.load_split(False)[0]
    assert len(novel.data) == len(own)
    assert torch.equal(novel.data.data.flatten(1).sort(1).values, own.flatten(1).sort(1).values)
    assert not torch.equal(novel.data.data, own)


def test_missing_and_unfit_novel_data_are_told_and_not_an_error(benchmark, monkeypatch):
    dataset = benchmark("seq-digits")
    monkeypatch.setattr("datasets.utils.files._download", lambda files: "no network")
    missing = novel_for("fashion-mnist", dataset)
    assert missing.data is None and "Fashion-MNIST is not complete" in missing.why
    monkeypatch.setattr("datasets.utils.idx.load_idx",
                        lambda files, train: (torch.zeros(3, 28, 28, dtype=torch.uint8), None))
    unfit = novel_for("mnist", dataset)
    assert unfit.data is None and "do not have the shape" in unfit.why
    nothing = novel_for("none", dataset)
    assert nothing.data is None and nothing.why == ""
    other = SimpleNamespace(NAME="elsewhere", test_loaders=dataset.test_loaders)
    assert "no novel data for elsewhere" in novel_for("auto", other).why


@pytest.mark.parametrize(("name", "expected"), [
    ("seq-mnist", 10_000), ("seq-fmnist", 10_000), ("seq-cifar10", 1000)])
def test_real_counterparts(name, expected, tmp_path, real_data):
    args = ("--model", "sgd", "--dataset", name, "--lr", 0.1, "--backbone", "resnet18")
    dataset = experiment(tmp_path, *args[:-2] if "cifar" not in name else args,
                         base_path=real_data).dataset
    dataset.get_data_loaders()
    novel = novel_for("auto", dataset)
    assert len(novel.data) == expected
    known, _ = dataset.test_loaders[-1].dataset.fetch(slice(0, 2))
    assert novel.data.fetch(slice(0, 2))[0].shape == known.shape


def test_the_library_leaves_another_harness_in_its_place(tmp_path):
    (tmp_path / "utils").mkdir()
    (tmp_path / "utils" / "__init__.py").write_text("THEIRS = True\n")
    code = ("import sys, numpy as np; from npcl_plugin.uncertainty import calibration, summary; "
            "assert 'torch' not in sys.modules; "
            "print(calibration.ece(np.array([[.9, .1], [.2, .8]]), np.array([0, 1]))); "
            "import utils; assert utils.THEIRS and 'mammoth' not in sys.modules")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"})
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(0.15)


def test_files_are_whole_plain_and_small(tmp_path):
    save_json(tmp_path / "a.json", {"x": np.float32(0.123456789), "y": [np.nan, np.inf, 3],
                                    "z": np.arange(2)})
    assert (tmp_path / "a.json").read_text() == (
        '{"x": 0.12346, "y": [null, null, 3], "z": [0, 1]}\n')
    save_arrays(tmp_path / "a.npz", {"v": np.ones(3)})
    assert load_arrays(tmp_path / "a.npz")["v"].tolist() == [1, 1, 1]
    assert len(list(tmp_path.iterdir())) == 2, "nothing unfinished is left"
    assert plain({"b": True, "n": None, "t": (1, 2.0)}) == {"b": True, "n": None, "t": [1, 2.0]}


def fake_files(folder, n_tasks, n_heads, rng):
    """The files of a long NP run, from random numbers."""
    k, units, m, n, s = 10, 256, 500, 30, 50
    save_json(folder / "run.json", {"run": {}, "notes": [], "novel": {}})
    for task in range(n_tasks):
        tasks, heads = np.repeat(np.arange(task + 1), n), min(task + 1, n_heads)
        total = len(tasks)
        labels = rng.integers(0, k, total)
        known = {"log_probs": np.log(rng.dirichlet(np.ones(k), total)).astype(np.float16),
                 "predicted": labels, "energy": rng.random(total), "head_entropy":
                 rng.random((total, heads)), "head": rng.integers(0, heads, total),
                 "head_predicted": rng.integers(0, k, (total, heads)),
                 "variance_softmax": rng.random(total), "variance_entropy": rng.random(total)}
        save_arrays(folder / f"novel_{task:02d}.npz", known)
        save_arrays(folder / f"task_{task:02d}.npz", {
            **known, "labels": labels, "tasks": tasks, "piw": rng.random((total, 2)),
            "vote": rng.integers(0, k, (total, 2)), "t_p": rng.random((total, 2)),
            "qq_rows": np.arange(16), "qq_differences": rng.random((16, s))})
        save_arrays(folder / f"latents_{task:02d}.npz", {
            "epoch": np.arange(50), "global_mean": rng.random(50), "global_sd": rng.random(50),
            "task_mean": rng.random((50, heads)), "task_sd": rng.random((50, heads))})
        pair = rng.uniform(0.1, 1, (2, heads, units))
        save_arrays(folder / f"context_{task:02d}.npz", {
            "kl_global": rng.random(units), "kl_task": rng.random((heads, units)),
            "now_global": pair[:, 0], "now_task": pair, "stored_global": pair[:, 0],
            "stored_task": pair, "context_tasks": rng.integers(0, heads, m),
            "context_labels": rng.integers(0, k, m), "own_share": rng.random(total),
            "query_rows": np.arange(4), "query_top": rng.integers(0, m, (4, 15)),
            "query_weight": rng.random((4, 15)), "self_attention": rng.random((40, 40)),
            "self_tasks": rng.integers(0, heads, 40)})


def test_the_summary_of_a_long_run_is_small(tmp_path):
    fake_files(tmp_path / "uncertainty", 20, 20, np.random.default_rng(0))
    summary.write_summary(tmp_path)
    assert (tmp_path / "uncertainty" / "summary.json").stat().st_size < 150_000


def test_a_task_without_samples_leaves_a_gap_and_no_error(tmp_path):
    folder = tmp_path / "uncertainty"
    fake_files(folder, 3, 3, np.random.default_rng(0))
    arrays = load_arrays(folder / "task_02.npz")
    arrays["tasks"][arrays["tasks"] == 1] = 2
    save_arrays(folder / "task_02.npz", arrays)
    found = summary.write_summary(tmp_path)
    assert found["calibration"]["by_task"]["ece"][-1][1] is None
    assert found["heads"]["inference_accuracy_by_task"][1] is None
    assert found["heads"]["lowest_entropy_head"][1] == -1
    assert found["attention"]["own_share"][1] is None
    assert found["headline"]["ece"] is not None
