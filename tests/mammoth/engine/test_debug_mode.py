"""`--debug_mode 1` takes every step of a run, and as little of each as possible."""
import numpy as np
import pytest
from runs import experiment

from engine.debug_mode import BATCHES, TEST_SAMPLES, few_rows
from main import parse_args

CIFAR = ["--model", "npcl", "--dataset", "seq-cifar10", "--buffer_size", "200", "--seed", "0"]


def test_it_shortens_training_and_says_so():
    args = parse_args([*CIFAR, "--debug_mode", "1"])
    assert args.n_epochs == 1 and args.conf_sources["n_epochs"] == "debug mode"
    assert parse_args(CIFAR).n_epochs > 1
    args = parse_args([*CIFAR, "--debug_mode", "1", "--fitting_mode", "iters", "--n_iters", "900"])
    assert args.n_iters == BATCHES


def test_a_task_keeps_a_few_samples_of_each_class():
    args = parse_args([*CIFAR, "--debug_mode", "1", "--batch_size", "8"])
    targets = np.arange(1000) % 10
    rows = few_rows(targets, args, train=True)
    assert (np.bincount(targets[rows]) == np.ceil(BATCHES * 8 / 10)).all()
    assert few_rows(targets, args, train=False).sum() <= TEST_SAMPLES + 10
    assert few_rows(targets, parse_args(CIFAR), train=True) is None


@pytest.mark.parametrize("words", [
    ("--model", "sgd", "--n_epochs", 9), ("--model", "lwf", "--n_epochs", 9),
    ("--model", "joint", "--n_epochs", 9), ("--model", "icarl", "--buffer_size", 20),
    ("--model", "ewc_on",), ("--model", "npcl", "--buffer_size", 20),
    ("--model", "sgd", "--fitting_mode", "early_stopping", "--validation", 10,
     "--early_stopping_patience", 50)])
def test_no_pass_over_a_task_is_longer_than_a_few_batches(tmp_path, words):
    tasks = 5 if "joint" in words else 1  # which trains when it has seen them all
    run = experiment(tmp_path, *words, "--dataset", "seq-digits", "--debug_mode", 1,
                     "--disable_log", 1, "--batch_size", 16,
                     *(("--stop_after", 1) if tasks == 1 else ()))
    result = run.run()
    assert len(run.loader.dataset) == BATCHES * 16 and run.progress.position.task == tasks
    assert run.model.task_iteration <= BATCHES
    assert len(run.dataset.test_loaders[0].dataset) <= TEST_SAMPLES
    assert result["debug_mode"] is True
