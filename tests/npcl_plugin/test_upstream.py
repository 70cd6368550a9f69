"""The same plugin in an upstream Mammoth checkout.

The runs need MAMMOTH_UPSTREAM (a checkout), MAMMOTH_DATA (MNIST) and a Python with upstream's
requirements (MAMMOTH_UPSTREAM_PYTHON, this one by default).
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from npcl_plugin.__main__ import main
from npcl_plugin.upstream import LinkError, find_checkout, link, published_flags, unlink

ROOT = Path(__file__).resolve().parents[2]
MODELS = ["npcl", "st_npcl", "anp", "np", "npcl_plus"]


@pytest.fixture
def checkout(tmp_path):
    """Something that looks like a checkout."""
    (tmp_path / "models" / "config").mkdir(parents=True)
    (tmp_path / "main.py").write_text("")
    return tmp_path


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_link_writes_shims_and_unlink_removes_exactly_them(checkout):
    before = files(checkout)
    link(checkout)
    assert files(checkout) == sorted(before + [f"models/{m}.py" for m in MODELS]
                                     + [f"models/config/{m}.yaml" for m in MODELS])
    link(checkout)  # again is fine
    unlink(checkout)
    assert files(checkout) == before


def test_link_touches_nobody_elses_file(checkout):
    other = checkout / "models" / "anp.py"
    other.write_text("mine")
    with pytest.raises(LinkError, match="not ours"):
        link(checkout)
    assert files(checkout) == ["main.py", "models/anp.py"]
    assert unlink(checkout) == [] and other.read_text() == "mine"


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


@pytest.fixture(scope="module")
def upstream(tmp_path_factory, real_data):
    """(copy of the checkout, environment, arguments): offline, with MNIST where it looks."""
    source = os.environ.get("MAMMOTH_UPSTREAM")
    if not source:
        pytest.skip("MAMMOTH_UPSTREAM does not name an upstream checkout")
    folder = tmp_path_factory.mktemp("upstream")
    copy = folder / "checkout"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(".git", "data", "checkpoints"))
    stubs = folder / "stubs"
    (stubs / "open_clip").mkdir(parents=True)
    (stubs / "open_clip" / "__init__.py").write_text(
        "def create_model_and_transforms(*args, **kwargs):\n    return None, str, str\n")
    (stubs / "sitecustomize.py").write_text(
        f"import runpy\nKEPT = runpy.run_path({str(COMPAT)!r})\n")
    for kind in ("MyMNIST", "MNIST"):
        (folder / "data" / "MNIST" / kind).mkdir(parents=True)
        (folder / "data" / "MNIST" / kind / "raw").symlink_to(Path(real_data) / "MNIST" / "raw")
    environment = {**os.environ, "PYTHONPATH": f"{stubs}{os.pathsep}{ROOT}", "MAMMOTH_TEST": "1",
                   "OMP_NUM_THREADS": "1"}
    words = ["--buffer_size", "50", "--debug_mode", "1", "--num_workers", "0", "--non_verbose",
             "1", "--seed", "0", "--base_path", f"{folder / 'data'}/", "--checkpoint_path",
             f"{folder / 'checkpoints'}/"]
    return copy, environment, words


COMPAT = ROOT / "mammoth" / "utils" / "torchvision_compat.py"
PYTHON = os.environ.get("MAMMOTH_UPSTREAM_PYTHON", sys.executable)


def finished(command, environment, tasks):
    done = subprocess.run([PYTHON, *map(str, command)], env=environment, capture_output=True,
                          text=True, timeout=900, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"Accuracy for {tasks} task(s)" in done.stderr
    return done


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize("model", MODELS)
def test_each_model_trains_and_evaluates_upstream(upstream, model):
    copy, environment, words = upstream
    before = files(copy / "models")
    finished(["-m", "npcl_plugin", "--mammoth", copy, "--model", model, "--dataset", "seq-mnist",
              *words], environment, 5)
    assert [f for f in files(copy / "models") if not f.endswith(".pyc")] == \
        [f for f in before if not f.endswith(".pyc")]


@pytest.mark.slow
@pytest.mark.real_data
def test_linked_models_work_with_upstreams_own_main(upstream):
    copy, environment, words = upstream
    link(copy)
    try:
        finished([copy / "main.py", "--model", "npcl_plus", "--dataset", "perm-mnist", "--lr", 0.1,
                  "--stop_after", "2", *words], environment, 2)
    finally:
        unlink(copy)
