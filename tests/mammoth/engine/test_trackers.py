"""TensorBoard and Weights & Biases, as far as they are asked for."""
import sys
from types import SimpleNamespace

import pytest
from runs import experiment

from engine.errors import UsageError

ER = ("--model", "er", "--dataset", "seq-digits", "--buffer_size", 20, "--n_epochs", 1,
      "--stop_after", 2)


class Recorder:
    """Stands in for both packages and remembers what they were told."""

    def __init__(self):
        self.scalars, self.logged, self.opened, self.closed = [], [], {}, 0

    def SummaryWriter(self, folder):  # noqa: N802
        self.opened["tensorboard"] = folder
        return self

    def init(self, **options):
        self.opened["wandb"] = options
        return self

    def add_scalar(self, name, value, step):
        self.scalars.append((name, value, step))

    def log(self, values, step):
        self.logged.append((values, step))

    def close(self):
        self.closed += 1

    finish = close


@pytest.fixture
def recorder(monkeypatch):
    recorder = Recorder()
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=recorder.init))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard",
                        SimpleNamespace(SummaryWriter=recorder.SummaryWriter))
    return recorder


def test_losses_and_accuracies_reach_both_trackers(tmp_path, recorder):
    run = experiment(tmp_path, *ER, "--tensorboard", 1, "--wandb_project", "p", "--wandb_name", "n")
    result = run.run()
    names = {name for name, *_ in recorder.scalars}
    assert {"train/loss", "accuracy/mean", "accuracy/task_2", "accuracy/task_il_mean"} <= names
    means = [value for name, value, _ in recorder.scalars if name == "accuracy/mean"]
    assert means[-1] == pytest.approx(result["accuracy"]["class-il"])
    assert any("train/loss" in values for values, _ in recorder.logged)
    steps = [step for *_, step in recorder.scalars]
    assert steps == sorted(steps) and recorder.closed == 2
    assert recorder.opened["wandb"]["project"] == "p" and recorder.opened["wandb"]["name"] == "n"
    assert recorder.opened["wandb"]["config"]["buffer_size"] == 20
    assert recorder.opened["tensorboard"].startswith(str(run.folder.path))


@pytest.mark.parametrize(("module", "words", "package"), [
    ("torch.utils.tensorboard", ("--tensorboard", 1), "tensorboard"),
    ("wandb", ("--wandb_project", "p"), "wandb")])
def test_missing_package_is_one_sentence(tmp_path, monkeypatch, module, words, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=f"pip install {package}"):
        experiment(tmp_path, *ER, *words).run()


def test_trackers_need_results(tmp_path):
    with pytest.raises(UsageError, match="leave out --disable_log"):
        experiment(tmp_path, *ER, "--tensorboard", 1, "--disable_log", 1)
