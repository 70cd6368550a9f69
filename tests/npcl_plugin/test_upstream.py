"""The same plugin in an upstream Mammoth checkout.

The runs need MAMMOTH_UPSTREAM (a checkout), MAMMOTH_DATA (MNIST) and a Python with upstream's
requirements (MAMMOTH_UPSTREAM_PYTHON, this one by default).
"""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev

import pytest

import npcl_plugin
import npcl_plugin.upstream as upstream_module
from npcl_plugin import doctor
from npcl_plugin.__main__ import main
from npcl_plugin.kernels.build import NoKernels
from npcl_plugin.upstream import (
    LinkError,
    find_checkout,
    link,
    linked_files,
    published_flags,
    unlink,
)

ROOT = Path(__file__).resolve().parents[2]
MODELS = list(npcl_plugin.MODELS)


def package(folder, text=""):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text(text)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Something that looks like a checkout and imports without help."""
    (tmp_path / "models" / "config").mkdir(parents=True)
    (tmp_path / "main.py").write_text("")
    monkeypatch.setattr(upstream_module, "imports_work", lambda checkout: True)
    return tmp_path


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def linked():
    return [f"models/{m}.py" for m in MODELS] + [f"models/config/{m}.yaml" for m in MODELS]


def test_link_writes_shims_and_unlink_removes_exactly_them(checkout):
    before = files(checkout)
    link(checkout)
    assert files(checkout) == sorted(before + linked())
    link(checkout)  # again is fine
    unlink(checkout)
    assert files(checkout) == before


def test_link_helps_the_imports_only_where_they_fail(checkout, monkeypatch):
    before = files(checkout)
    monkeypatch.setattr(upstream_module, "imports_work", lambda checkout: False)
    link(checkout)
    assert files(checkout) == sorted([*before, *linked(), "torchvision.py"])
    monkeypatch.setattr(upstream_module, "imports_work",
                        lambda checkout: not (checkout / "torchvision.py").exists())
    link(checkout)  # mended meanwhile: the stand-in goes
    assert files(checkout) == sorted(before + linked())


@pytest.fixture
def fragile(tmp_path):
    """(checkout, environment): one of its datasets cannot be imported, nor can torchvision.

    torchvision fails as PyPI's build does beside a CPU torch; the operators' declaration is
    faked too, so that no process here imports torch.
    """
    checkout, site = tmp_path / "checkout", tmp_path / "site"
    package(checkout / "models", "import torchvision, datasets\nREGISTRY = None\n")
    package(checkout / "backbone")
    package(checkout / "datasets", "import datasets.good, datasets.bad\n")
    (checkout / "datasets" / "good.py").write_text("NAME = 'good'\n")
    (checkout / "datasets" / "bad.py").write_text("HALF = 1\nimport no_such_package\n")
    (checkout / "main.py").write_text(
        "import models, datasets, torchvision\n"
        "print(datasets.good.NAME, hasattr(datasets.bad, 'HALF'), torchvision.WORKS)\n")
    package(site / "torchvision",
            "import torch\n"
            "if not torch.DECLARED:\n"
            "    raise RuntimeError('operator torchvision::nms does not exist')\n"
            "WORKS = True\n")
    package(site / "torch", "import types\nDECLARED = []\n"
                            "library = types.SimpleNamespace(Library=lambda *names: "
                            "types.SimpleNamespace(define=DECLARED.append))\n")
    (checkout / "models" / "config").mkdir()
    return checkout, {**os.environ, "PYTHONPATH": str(site)}


def said(command, environment, folder):
    return subprocess.run([sys.executable, *map(str, command)], env=environment, cwd=folder,
                          capture_output=True, text=True, timeout=60)


def test_a_linked_checkout_mends_its_own_imports(fragile, tmp_path, monkeypatch):
    checkout, environment = fragile
    assert said([checkout / "main.py"], environment, tmp_path).returncode != 0
    monkeypatch.setattr(upstream_module, "imports_work", lambda checkout: False)
    link(checkout)
    done = said([checkout / "main.py"], environment, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "good False True\n"
    assert done.stderr == "left out: datasets/bad.py (No module named 'no_such_package')\n"


def test_the_hooks_leave_a_sound_torchvision_alone(fragile, tmp_path):
    checkout, environment = fragile
    package(tmp_path / "site" / "torchvision", "WORKS = 'untouched'\n")
    (checkout / "torchvision.py").write_text(linked_files(checkout)[checkout / "torchvision.py"])
    (checkout / "datasets" / "bad.py").write_text("HALF = 1\n")
    done = said([checkout / "main.py"], environment, tmp_path)
    assert (done.stdout, done.stderr) == ("good True untouched\n", "")


@pytest.fixture
def no_processes(monkeypatch):
    """Doctor without its processes that import torch."""
    monkeypatch.setattr(doctor, "_try", lambda code, folder: ("0.0", ""))


def test_doctor_names_what_is_missing_and_what_is_left_out(fragile, no_processes, capsys):
    checkout, _ = fragile
    (checkout / "main.py").write_text("def web():\n    import no_web\n"
                                      "try:\n    import optional\nexcept ImportError:\n    pass\n")
    lines = [str(finding) for finding in doctor.examine(checkout, checkout / "data")]
    assert "missing  package no_web: main.py imports it; pip install no_web" in lines
    assert any(line.startswith("note     package no_such_package: without it datasets/bad.py is")
               for line in lines)
    assert not any("optional" in line for line in lines)
    assert any("no MNIST" in line for line in lines)
    assert main(["doctor", str(checkout)]) == 1
    assert "missing  package no_web" in capsys.readouterr().out


def test_doctor_goes_on_when_its_reader_has_left(checkout):
    process = subprocess.Popen([sys.executable, "-m", "npcl_plugin", "doctor", str(checkout)],
                               cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait() in (0, 1)


@pytest.mark.parametrize(("why", "line"), [
    (None, "ok       functions in C: compiled for this processor"),
    ("there is no C compiler", "note     functions in C: there is no C compiler; without them "
                               "steps take a third longer")])
def test_doctor_knows_whether_there_are_functions_in_c(checkout, no_processes, monkeypatch, why,
                                                       line):
    def library():
        if why:
            raise NoKernels(why)

    monkeypatch.setattr(doctor, "library", library)
    assert line in map(str, doctor.examine(checkout, checkout))


def test_doctor_sees_stale_settings(checkout, no_processes):
    link(checkout)
    assert any("linked, as in the plugin" in finding.text
               for finding in doctor.examine(checkout, checkout))
    stale = checkout / "models" / "config" / "npcl.yaml"
    stale.write_text(stale.read_text() + "seq-other: {lr: 1}\n")
    found = [finding for finding in doctor.examine(checkout, checkout)
             if "npcl.yaml" in finding.text]
    assert [finding.verdict for finding in found] == ["missing"]


@pytest.mark.parametrize("words", [["doctor", "a", "b"], ["link", "--help"], ["--mammoth"],
                                   ["doctor", "--base_path"]])
def test_words_that_make_no_sense_are_one_sentence(words, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("error: Expected")


def test_link_touches_nobody_elses_file(checkout):
    other = checkout / "models" / "anp.py"
    other.write_text("mine")
    with pytest.raises(LinkError, match="not ours"):
        link(checkout)
    assert files(checkout) == ["main.py", "models/anp.py"]
    assert unlink(checkout) == [] and other.read_text() == "mine"


def test_our_own_harness_is_not_linked(capsys):
    assert main(["link", str(ROOT / "mammoth")]) == 2
    assert "own harness" in capsys.readouterr().err
    assert not (ROOT / "mammoth" / "torchvision.py").exists()


def test_a_package_that_upstream_needs_is_named_before_it_starts(fragile):
    checkout, environment = fragile
    (checkout / "models" / "__init__.py").write_text("import no_such_package\n")
    done = said(["-m", "npcl_plugin", "--mammoth", checkout, "--model", "npcl"],
                {**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}{os.pathsep}{ROOT}"},
                checkout)
    assert done.returncode == 2
    assert "needs the package `no_such_package`" in done.stderr and "doctor" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_package_that_upstreams_main_imports_late_is_named_too(tmp_path, monkeypatch):
    (tmp_path / "main.py").write_text("def start():\n    import absent_package\n\n\nstart()\n")
    monkeypatch.setattr(upstream_module, "offer", lambda models, backbones: None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    with pytest.raises(LinkError, match="needs the package `absent_package`"):
        upstream_module.launch(tmp_path, ["--model", "er", "--lr", "0.1"])


def test_a_folder_that_is_no_checkout_is_refused_in_one_sentence(tmp_path, capsys):
    with pytest.raises(LinkError, match="--mammoth PATH"):
        find_checkout(str(tmp_path))
    assert main(["link", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_launcher_adds_published_settings_but_not_over_the_users():
    words = ["--model", "npcl", "--dataset", "seq-tinyimg", "--buffer_size", "450"]
    assert published_flags(words) == ["--lr", "0.03", "--batch_size", "32", "--n_epochs", "100"]
    assert "--lr" not in published_flags([*words, "--lr", "1"])
    assert published_flags(["--model", "er", "--dataset", "seq-cifar10"]) == []


def test_the_launcher_leaves_odd_words_to_upstream():
    spelled = ["--model=npcl", "--dataset=seq-tinyimg", "--buffer_size=450", "--lr=1"]
    assert published_flags(spelled) == ["--batch_size", "32", "--n_epochs", "100"]
    odd = ["--model", "npcl", "--dataset", "seq-mnist", "--buffer_size"]
    assert published_flags([*odd, "many"]) == published_flags(odd) == published_flags([*odd, "0"])
    assert published_flags(["--dataset", "seq-mnist", "--model"]) == []


@pytest.fixture(scope="module")
def upstream(tmp_path_factory, real_data):
    """(copy of the checkout, its arguments): offline, with MNIST where it looks."""
    source = os.environ.get("MAMMOTH_UPSTREAM")
    if not source:
        pytest.skip("MAMMOTH_UPSTREAM does not name an upstream checkout")
    folder = tmp_path_factory.mktemp("upstream")
    copy = folder / "checkout"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(".git", "data", "checkpoints"))
    for kind in ("MyMNIST", "MNIST"):
        (folder / "data" / "MNIST" / kind).mkdir(parents=True)
        (folder / "data" / "MNIST" / kind / "raw").symlink_to(Path(real_data) / "MNIST" / "raw")
    words = ["--num_workers", "0", "--non_verbose", "1", "--base_path", f"{folder / 'data'}/",
             "--checkpoint_path", f"{folder / 'checkpoints'}/"]
    return copy, words


@pytest.fixture(scope="module")
def linked_checkout(upstream):
    link(upstream[0])
    yield upstream
    unlink(upstream[0])


PYTHON = os.environ.get("MAMMOTH_UPSTREAM_PYTHON", sys.executable)
DEBUG = ["--buffer_size", "50", "--debug_mode", "1", "--seed", "0"]


def accuracy(command, tasks, folder=ROOT):
    """Run as from a shell, without our test fixtures; the mean accuracy after the last task."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    # Upstream asks for two threads; on a busy machine they must not wait for each other actively.
    environment |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run([PYTHON, *map(str, command)], env=environment,
                          capture_output=True, text=True, timeout=900, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    found = re.search(rf"Accuracy for {tasks} task\(s\):.*?([\d.]+) %",
                      done.stdout + done.stderr)  # ours, and upstream's
    assert found, done.stderr[-2000:]
    return float(found[1])


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize("model", MODELS)
def test_each_model_is_launched_upstream(upstream, model):
    copy, words = upstream
    before = files(copy / "models")
    accuracy(["-m", "npcl_plugin", "--mammoth", copy, "--model", model, "--dataset", "seq-mnist",
              *DEBUG, *words], 5)
    assert [f for f in files(copy / "models") if not f.endswith(".pyc")] == \
        [f for f in before if not f.endswith(".pyc")]


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize("model", MODELS)
def test_each_linked_model_works_with_upstreams_own_main(linked_checkout, model, tmp_path):
    copy, words = linked_checkout
    accuracy([copy / "main.py", "--model", model, "--dataset", "perm-mnist", "--lr", 0.1,
              "--stop_after", "2", *DEBUG, *words], 2, folder=tmp_path)


FOLDED = """
import sys
import npcl_plugin.import_hooks as hooks
hooks.mend_torchvision()
sys.path.insert(0, sys.argv[1])
import torch
from backbone.ResNetBlock import resnet18
from npcl_plugin.folding import FoldedFeatures, plain_features
net, folded, x = resnet18(10, 8).eval(), FoldedFeatures(), torch.rand(3, 3, 32, 32)
for layer in net.modules():
    if isinstance(layer, torch.nn.BatchNorm2d):
        layer.running_var.uniform_(0.5, 2), layer.running_mean.uniform_(-0.5, 0.5)
with torch.no_grad():
    torch.testing.assert_close(folded(net, x), plain_features(net, x))
assert len(folded._folded) == 20
"""


@pytest.mark.slow
@pytest.mark.real_data
def test_upstreams_resnet_is_folded(upstream):
    done = subprocess.run([PYTHON, "-c", FOLDED, str(upstream[0])], cwd=ROOT, text=True,
                          capture_output=True, timeout=300, env={**os.environ, "PYTHONPATH": ""})
    assert done.returncode == 0, done.stderr
    assert "without folded norms" not in done.stderr


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize("route", ["launched", "linked"])
def test_uncertainty_upstream_changes_no_accuracy_and_is_reported(linked_checkout, route, tmp_path):
    from experiments.commands.report import main as report
    from experiments.run_folders import find_runs

    copy, words = linked_checkout
    start = ["-m", "npcl_plugin", "--mammoth", copy] if route == "launched" else [copy / "main.py"]
    run = [*start, "--model", "npcl", "--dataset", "seq-mnist", "--lr", 0.1, *DEBUG, *words]
    plain = said_accuracies(run)
    watched = said_accuracies([*run, "--uncertainty", 1, "--uncertainty_path", tmp_path,
                               "--uncertainty_samples", 50])
    assert plain == watched and len(plain) >= 5
    (found,), left_out = find_runs(tmp_path)
    assert not left_out and found.accuracy["class-il"] == pytest.approx(
        sum(plain[-1]) / len(plain[-1]), abs=0.01)
    for part in ("calibration", "heads", "confidence", "latents", "attention", "cost"):
        assert found.section(part), part
    assert report([str(tmp_path), "--out", str(tmp_path / "page.html")]) == 0


def said_accuracies(command):
    """Every raw class-IL accuracy that a run of upstream prints."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run([PYTHON, *map(str, command)], env=environment, cwd=ROOT,
                          capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = re.findall(r"^\s*Raw accuracy values: Class-IL \[([^]]+)\]", done.stdout + done.stderr,
                      re.MULTILINE)
    return [[float(value) for value in row.split(",")] for row in rows]


SETTINGS = """
import json, sys
sys.path[:0], target, cases = [sys.argv[1]], sys.argv[2], json.loads(sys.argv[3])
import npcl_plugin, main
found = []
for words in cases:
    sys.argv = ["main.py", *words]
    found.append(vars(main.initialize(main.parse_args(words))[2]))
with open(target, "w") as file:
    json.dump(found, file, default=str)
"""


@pytest.mark.slow
@pytest.mark.real_data
def test_settings_resolve_to_the_same_values_upstream_and_here(upstream, tmp_path):
    from main import parse_args
    from npcl_plugin.arguments import add_arguments
    from utils.args import ArgumentParser

    copy, words = upstream
    cases = [["--model", model, "--dataset", dataset, "--buffer_size", "200", "--lr", "0.1", *more]
             for model in MODELS for dataset in ("seq-mnist", "perm-mnist")
             for more in ((), ("--gamma", "7"))]
    target = tmp_path / "settings.json"
    given = json.dumps([[*case, *words] for case in cases])
    done = subprocess.run([PYTHON, "-c", SETTINGS, str(copy), str(target), given], cwd=ROOT,
                          capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    parser = ArgumentParser(add_help=False)
    add_arguments(parser)
    names = {action.dest for action in parser._actions} - {
        "minibatch_size", "buffer_size", "kernels"}  # a model that is built says which way it goes
    assert len(names) > 20
    for case, there in zip(cases, json.loads(target.read_text()), strict=True):
        here = parse_args(case)
        differing = {name: (there[name], getattr(here, name)) for name in names
                     if there[name] != getattr(here, name)}
        assert not differing, (case, differing)


@pytest.mark.slow
@pytest.mark.real_data
def test_a_benchmark_gives_the_same_accuracy_upstream_and_here(upstream, real_data, tmp_path):
    copy, words = upstream
    run = ["--model", "npcl", "--dataset", "seq-mnist", "--buffer_size", "200", "--batch_size",
           "64", "--n_global", "4", "--fitting_mode", "iters", "--n_iters", "150", "--seed"]
    there = [accuracy(["-m", "npcl_plugin", "--mammoth", copy, *run, seed, *words], 5)
             for seed in range(3)]
    here = [accuracy([ROOT / "mammoth" / "main.py", *run, seed, "--base_path", real_data,
                      "--results_path", tmp_path / "r", "--checkpoint_path", tmp_path / "c"], 5)
            for seed in range(3)]
    spread = (stdev(there) ** 2 + stdev(here) ** 2) ** 0.5
    assert abs(mean(there) - mean(here)) <= max(2 * spread, 3.0), (there, here)
