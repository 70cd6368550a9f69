"""What a plugin may add to every run, shown with a toy plugin."""
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from runs import MAIN, experiment

from engine import plugins
from engine.errors import RunError, UsageError
from main import parse_args

TOY = """
import sys

assert "torch" not in sys.modules

def add_arguments(parser):
    parser.add_argument("--toy", type=int, default=0, help="how much toying")

def extend(args):
    return Toy() if args.toy else None

class Toy:
    name = "toy"

    def after_epoch(self, run, task, epoch):
        with open(run.folder.path / "toy.txt", "a") as file:
            file.write(f"epoch {task} {epoch}\\n")

    def after_task(self, run, task):
        import torch
        torch.rand(3)
        with open(run.folder.path / "toy.txt", "a") as file:
            file.write(f"task {task} {run.model.training} {torch.is_grad_enabled()}\\n")

    def finish(self, run):
        return {"tasks": len(run.dataset.test_loaders), "long_name": 7}
"""
WORDS = ("--model", "er", "--dataset", "seq-digits", "--buffer_size", 20, "--n_epochs", 2,
         "--stop_after", 2)


def installed(tmp_path, source=TOY, name="toy_plugin"):
    (tmp_path / f"{name}.py").write_text(source)
    info = tmp_path / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{plugins.GROUP}]\n{name} = {name}\n")
    return tmp_path


def run(path, *words):
    return subprocess.run([sys.executable, str(MAIN), *map(str, words)], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(path)})


def test_installed_plugin_adds_arguments_looks_on_and_has_the_last_word(tmp_path):
    path = installed(tmp_path)
    assert "--toy N" in run(path, "--help").stdout
    done = run(path, *WORDS, "--seed", 1, "--toy", 3, "--non_verbose", 1, "--base_path",
               tmp_path / "d")
    assert done.returncode == 0, done.stderr
    folder = next(tmp_path.glob("d/results/runs/*/*/*"))
    assert json.loads((folder / "result.json").read_text())["toy"] == {"tasks": 2, "long_name": 7}
    assert (folder / "toy.txt").read_text().splitlines() == [
        "epoch 0 0", "epoch 0 1", "task 0 False False",
        "epoch 1 0", "epoch 1 1", "task 1 False False"]
    assert "\ntoy\n  tasks      2\n  long_name  7\n" in done.stdout


def test_a_clash_of_arguments_names_the_plugin(tmp_path):
    path = installed(tmp_path, TOY.replace("--toy", "--seed"))
    done = run(path, "--help")
    assert done.returncode == 2
    assert "The plugin `toy_plugin` adds an argument that exists already" in done.stderr


@pytest.fixture
def plugin(monkeypatch):
    """A loaded plugin whose extension each test fills in."""
    parse_args(["--model", "sgd", "--dataset", "seq-digits", "--lr", "0.1"])  # loads the real ones

    def use(name="toy", **methods):
        extension = SimpleNamespace(name=name, **methods)
        module = SimpleNamespace(
            add_arguments=lambda parser: parser.add_argument(f"--{name}", type=int, default=0),
            extend=lambda args: extension if getattr(args, name) else None)
        monkeypatch.setitem(plugins._loaded, name, module)

    return use


def key(*words):
    return parse_args([*map(str, WORDS), *map(str, words)]).conf_key


def test_a_plugin_at_its_default_leaves_the_run_key_alone(plugin):
    before = key()
    plugin()
    assert key() == before == key("--toy", 0)
    assert key("--toy", 1) != before and key("--toy", 1) != key("--toy", 2)


def test_an_extension_changes_neither_numbers_nor_modes_nor_the_clock(plugin, tmp_path):
    import random
    import time

    import numpy as np
    import torch

    def disturb(run, *position):
        torch.rand(5), np.random.rand(5), random.random()
        time.sleep(0.3)

    plugin(after_epoch=disturb, after_task=disturb, finish=disturb)
    calm = experiment(tmp_path / "a", *WORDS)
    calm.run()
    watched = experiment(tmp_path / "b", *WORDS, "--toy", 1)
    result = watched.run()
    assert watched.logger.accs == calm.logger.accs
    assert all(torch.equal(a, b) for a, b in zip(calm.model.state_dict().values(),
                                                 watched.model.state_dict().values(),
                                                 strict=True))
    assert watched.model.net.training == calm.model.net.training
    assert "toy" not in result, "an extension that says nothing has no key"
    assert result["seconds"] < 7 * 0.3, "the sleeps are not counted"


def test_what_an_extension_says_is_printed_in_its_own_words(plugin, tmp_path, capsys):
    plugin(finish=lambda run: {"x": 1}, describe=lambda values: f"<<{values['x']}>>")
    result = experiment(tmp_path, *WORDS, "--toy", 1).run()
    assert result["toy"] == {"x": 1}
    assert "toy\n<<1>>" in capsys.readouterr().out


def test_two_extensions_of_one_name_are_refused(plugin, tmp_path, monkeypatch):
    plugin()
    double = SimpleNamespace(extend=lambda args: SimpleNamespace(name="toy"))
    monkeypatch.setitem(plugins._loaded, "zzz", double)
    with pytest.raises(RunError, match="under one name"):
        experiment(tmp_path, *WORDS, "--toy", 1)


def test_an_error_of_an_extension_is_not_hidden(plugin, tmp_path):
    def fail(run, task):
        raise UsageError("no.")

    plugin(after_task=fail)
    with pytest.raises(UsageError, match="no."):
        experiment(tmp_path, *WORDS, "--toy", 1).run()
