"""A wheel in an environment of its own: every command, from a folder with modules of its own."""
import json
import os
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("mammoth", "mammoth-compare", "mammoth-sweep", "mammoth-tables", "mammoth-report",
            "mammoth-bench", "mammoth-collect", "mammoth-ask")
MINE = "raise RuntimeError('the folder\\'s own module')\n"


@pytest.fixture(scope="module")
def own_folder(tmp_path_factory):
    """A folder of somebody's own, whose modules have the harness's import names."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "utils").mkdir()
    for name in ("utils/__init__.py", "models.py", "datasets.py", "backbone.py", "main.py",
                 "tables.py", "report.py"):
        (folder / name).write_text(MINE)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder of the commands, from a wheel of this checkout; dependencies are this Python's."""
    place = tmp_path_factory.mktemp("installed")
    for name in ("mammoth", "npcl_plugin", "experiments"):
        shutil.copytree(ROOT / name, place / "source" / name,
                        ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place / "source")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", place,
                    place / "source"], check=True, cwd=place)
    venv.create(place / "venv", with_pip=False)
    own = next((place / "venv" / "lib").glob("python*/site-packages"))
    (own / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    subprocess.run([*pip, "--python", place / "venv" / "bin" / "python", "install", "--no-deps",
                    "--no-index", next(place.glob("*.whl"))], check=True, cwd=place)
    return place / "venv" / "bin"


def run(*words, cwd, **env):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=cwd,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **env})


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_the_command_s_own_name(command, installed, own_folder):
    for more in ({}, {"PYTHONPATH": "."}):
        done = run(installed / command, "--help", cwd=own_folder, **more)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"usage: {command} ") and "main.py" not in done.stdout
        assert "python utils/" not in done.stdout


@pytest.mark.slow
def test_commands_work_together_from_a_folder_of_one_s_own(installed, own_folder, tmp_path):
    def call(command, *words):
        done = run(installed / command, *words, cwd=own_folder)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    shared = ("--base_path", tmp_path, "--n_epochs", 1)
    call("mammoth", "--model", "npcl", "--dataset", "seq-digits", "--buffer_size", 20, "--seed", 0,
         "--n_global", 2, "--uncertainty", 1, *shared)
    (tmp_path / "grid.yaml").write_text("{model: sgd, dataset: seq-digits, seed: 0}")
    assert "1 of 1 runs finished (1 now)" in call("mammoth-sweep", tmp_path / "grid.yaml", *shared)
    table = call("mammoth-compare", "--models", "sgd", "er", "--dataset", "seq-digits",
                 "--buffer_size", 20, "--seeds", 1, "--no-uncertainty", *shared)
    assert "[1/2] sgd seed 0" in table and "(finished before)" in table
    assert "4 runs" not in call("mammoth-report", tmp_path / "results")
    page = (tmp_path / "results" / "report.html").read_text()
    assert 'data-key="head-accuracy"' in page, "the plugin's figures are there"
    out = tmp_path / "compact" / "runs.json"
    call("mammoth-collect", tmp_path / "results", "--out", out)
    assert {entry["model"] for entry in json.loads(out.read_text())} == {"sgd", "er", "npcl"}
    assert "Accuracy, %, P-MNIST" in call("mammoth-tables", "--results", out.parent)
    call("mammoth-bench", "startup", "--repeats", 1)


@pytest.mark.parametrize("name", ["utils", "datasets"])
def test_name_that_is_taken_already_is_one_sentence(name, tmp_path):
    (tmp_path / f"{name}.py").write_text("")
    done = run(sys.executable, "-c", f"import {name}, mammoth", cwd=tmp_path,
               PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert done.returncode == 1
    assert f"mammoth needs the import name `{name}`, which " in done.stderr.splitlines()[-1]


def test_harness_comes_first_whatever_the_folder_has(own_folder):
    code = "import mammoth, utils, experiments.run; print(utils.__file__)"
    done = run(sys.executable, "-c", code, cwd=own_folder,
               PYTHONPATH=f"{own_folder}:{ROOT / 'mammoth'}:{ROOT}")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == ROOT / "mammoth" / "utils" / "__init__.py"


@pytest.mark.parametrize("script", sorted((ROOT / "utils").glob("*.py")), ids=lambda p: p.stem)
def test_script_is_a_few_lines_that_call_the_package(script):
    lines = script.read_text().splitlines()
    assert len(lines) <= 12 and f"from experiments.commands.{script.stem} import main" in \
        script.read_text()
    assert not (ROOT / "utils" / "__init__.py").exists()
