"""The loop: order of hooks, what is recorded, what ends a task."""
import ast
import json

import pytest
import torch
from runs import experiment

from engine.errors import RunError
from models.sgd import Sgd

SGD = ("--model", "sgd", "--dataset", "seq-digits")


@pytest.fixture
def spied(tmp_path, monkeypatch):
    """A function that runs an experiment and lists the hooks in the order of their calls."""
    def build(*words):
        run = experiment(tmp_path, *words)
        calls = []

        def spy(name):
            original = getattr(run.model, name)

            def hook(*args, **kwargs):
                calls.append((name, run.model.current_task))
                return original(*args, **kwargs)

            monkeypatch.setattr(run.model, name, hook)

        for name in ("begin_task", "end_task", "begin_epoch", "end_epoch", "observe", "forward",
                     "end_eval"):
            spy(name)
        return run, calls

    return build


def collapsed(calls):
    """Names without repetition."""
    names = [name for name, _ in calls]
    return [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]


def test_hooks_come_in_mammoths_order(spied):
    run, calls = spied(*SGD, "--debug_mode", 1, "--n_epochs", 1, "--stop_after", 2)
    run.run()
    one_task = ["begin_task", "begin_epoch", "observe", "end_epoch", "end_task", "forward",
                "end_eval"]
    assert collapsed(calls) == one_task * 2
    assert sum(name == "observe" for name, _ in calls) == 8, "four batches per epoch in debug mode"
    assert {task for name, task in calls if name == "forward"} == {1, 2}
    assert [task for name, task in calls if name == "end_eval"] == [0, 1]


def test_class_counts_follow_the_tasks(tmp_path, monkeypatch):
    seen = []

    def begin_task(self, dataset):
        seen.append((self.n_classes_current_task, self.n_past_classes, self.n_seen_classes,
                     self.n_remaining_classes))

    monkeypatch.setattr(Sgd, "begin_task", begin_task)
    experiment(tmp_path, *SGD, "--debug_mode", 1, "--n_epochs", 1).run()
    assert seen == [(2, 0, 2, 8), (2, 2, 4, 6), (2, 4, 6, 4), (2, 6, 8, 2), (2, 8, 10, 0)]
    seen.clear()
    experiment(tmp_path, "--model", "sgd", "--dataset", "perm-digits", "--debug_mode", 1,
               "--n_epochs", 1).run()
    assert set(seen) == {(10, 0, 10, 0)}


def test_run_folder_holds_arguments_measurements_and_result(tmp_path):
    run = experiment(tmp_path, *SGD, "--n_epochs", 2, "--eval_epochs", 1, "--notes", "a <b>")
    result = run.run()
    folder = run.folder.path
    kept = json.loads((folder / "args.json").read_text())
    assert kept["args"]["notes"] == "a <b>"
    assert kept["sources"]["lr"] == "ours, validation split: seq-digits"
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["epoch", "epoch", "task"] * 5
    assert json.loads((folder / "result.json").read_text()) == json.loads(json.dumps(result))
    matrix = result["accuracy_matrix"]["class-il"]
    assert [len(row) for row in matrix] == [1, 2, 3, 4, 5], "epoch evaluations stay out of it"
    assert matrix[-1] == lines[-1]["accuracies"]
    assert result["accuracy"]["class-il"] == pytest.approx(sum(matrix[-1]) / 5)
    assert {"python", "torch", "threads"} <= set(result["versions"])


def test_logs_pyd_is_one_literal_a_run_with_mammoths_names(tmp_path):
    for seed in (1, 2):
        result = experiment(tmp_path, *SGD, "--n_epochs", 2, "--enable_other_metrics", 1,
                            "--seed", seed).run()
    base = tmp_path / "data" / "results"
    lines = (base / "class-il/seq-digits/sgd/logs.pyd").read_text().splitlines()
    entry = ast.literal_eval(lines[1])
    assert len(lines) == 2 and entry["seed"] == 2
    matrix = result["accuracy_matrix"]
    assert entry["accuracy_1_task5"] == matrix["class-il"][4][0]
    assert entry["backward_transfer"] == result["transfer"]["backward_transfer"]["class-il"]
    masked = ast.literal_eval((base / "task-il/seq-digits/sgd/logs.pyd").read_text()
                              .splitlines()[1])
    assert masked["accmean_task5"] == pytest.approx(result["accuracy"]["task-il"])


def test_forward_transfer_has_an_untrained_baseline(tmp_path):
    result = experiment(tmp_path, "--model", "sgd", "--dataset", "rot-digits",
                        "--enable_other_metrics", 1).run()
    assert len(result["random_accuracy"]) == 5
    assert all(0 <= value <= 35 for value in result["random_accuracy"]), "near chance"
    assert result["transfer"]["forward_transfer"]["domain-il"] > 20, "rotations share features"


def test_disable_log_writes_nothing(tmp_path):
    experiment(tmp_path, *SGD, "--n_epochs", 1, "--disable_log", 1,
               "--enable_other_metrics", 1).run()
    assert not (tmp_path / "data").exists()


def test_non_finite_term_stops_the_run_and_is_named(tmp_path, monkeypatch):
    def observe(self, inputs, labels, not_aug_inputs, epoch=None):
        bad = self.current_task == 1 and self.task_iteration == 3
        return {"loss": float("nan") if bad else 1.0, "kl": float("inf") if bad else 0.5}

    monkeypatch.setattr(Sgd, "observe", observe)
    run = experiment(tmp_path, *SGD)
    with pytest.raises(RunError, match="The kl became nan in task 2, epoch 1, step 4") as caught:
        run.run()
    assert caught.value.exit_code == 1
    assert len((run.folder.path / "metrics.jsonl").read_text().splitlines()) == 1
    assert not (run.folder.path / "result.json").exists()


@pytest.mark.parametrize("words", [
    (*SGD, "--lr", "1e38", "--fitting_mode", "iters", "--n_iters", 1, "--stop_after", 1,
     "--optim_wd", "1e38"),
    ("--model", "joint", *SGD[2:], "--lr", "1e30")])
def test_weights_that_went_astray_without_a_loss_that_shows_it_stop_the_run(words, tmp_path):
    with pytest.raises(RunError, match=r"The weights net\..* are not finite after task"):
        experiment(tmp_path, *words, "--n_epochs", 1).run()


def test_iterations_instead_of_epochs(spied):
    run, calls = spied(*SGD, "--fitting_mode", "iters", "--n_iters", 13, "--stop_after", 1)
    run.run()
    assert sum(name == "observe" for name, _ in calls) == 13
    assert sum(name == "begin_epoch" for name, _ in calls) == 2


def test_early_stopping_waits_and_goes_back_to_the_best(tmp_path):
    run = experiment(tmp_path, *SGD, "--fitting_mode", "early_stopping", "--validation", 20,
                     "--early_stopping_patience", 2, "--stop_after", 1, "--lr", "0.5")
    result = run.run()
    assert run.progress.position.task == 1
    assert result["final_test_accuracy"]["class-il"][0] > 90


def test_a_run_with_a_validation_split_says_which_figure_is_whose(tmp_path, capsys):
    experiment(tmp_path, *SGD, "--validation", 20, "--stop_after", 1, "--n_epochs", 1).run()
    said = capsys.readouterr()
    assert "Accuracy on the test set, which no choice should look at:" in said.out + said.err
    assert "% (validation split) in" in said.out


def test_scheduler_steps_per_epoch_and_starts_anew_with_each_task(tmp_path, monkeypatch):
    rates = []
    original = Sgd.observe

    def observe(self, *args, **kwargs):
        rates.append(round(self.opt.param_groups[0]["lr"], 6))
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Sgd, "observe", observe)
    experiment(tmp_path, *SGD, "--n_epochs", 3, "--lr", "0.1", "--lr_scheduler", "multisteplr",
               "--lr_milestones", 1, 2, "--batch_size", 100, "--stop_after", 2).run()
    assert rates == ([0.1] * 3 + [0.01] * 3 + [0.001] * 3) * 2


def test_joint_setting_is_one_task_with_all_classes(tmp_path):
    result = experiment(tmp_path, *SGD, "--n_epochs", 8, "--joint", 1).run()
    assert len(result["accuracy_matrix"]["class-il"]) == 1
    assert result["accuracy"]["class-il"] > 80


def test_label_noise_reaches_observe_as_true_labels(tmp_path, monkeypatch):
    seen = []

    def observe(self, inputs, labels, not_aug_inputs, true_labels, epoch=None):
        seen.append((labels != true_labels).float().mean())
        return 0.0

    monkeypatch.setattr(Sgd, "observe", observe)
    from models.utils.continual_model import observe_parameters
    observe_parameters.cache_clear()
    experiment(tmp_path, *SGD, "--n_epochs", 1, "--noise_rate", "0.4").run()
    observe_parameters.cache_clear()
    assert 0.1 < torch.stack(seen).mean() < 0.45


def test_unlabelled_samples_do_not_reach_observe(tmp_path, monkeypatch):
    counts = []

    def observe(self, inputs, labels, not_aug_inputs, epoch=None):
        assert (labels >= 0).all() and len(inputs) == len(labels)
        counts.append(len(labels))
        return 0.0

    monkeypatch.setattr(Sgd, "observe", observe)
    experiment(tmp_path, *SGD, "--n_epochs", 1, "--label_perc", "0.5", "--stop_after", 1).run()
    total = sum(counts)
    assert 0.4 * 290 < total < 0.6 * 290


def test_same_seed_same_numbers_other_seed_other_numbers(tmp_path):
    words = ("--model", "er", "--dataset", "perm-digits", "--buffer_size", 30, "--n_epochs", 1)
    first, again, other = (experiment(tmp_path, *words, "--seed", seed).run()["accuracy_matrix"]
                           for seed in (1, 1, 2))
    assert first == again != other
