"""Every command of the README works as it stands there (cut short: a few batches of one task)."""
import os
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import warm_python

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
# and what the README once held
PAGES = [README, *((ROOT / "docs" / name).read_text(encoding="utf-8")
                   for name in ("methods.md", "results.md", "speed.md"))]
COMMANDS = list(dict.fromkeys(
    line for page in PAGES for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    for line in block.splitlines() if line.strip()))
AS_IT_STANDS = {"utils/collect.py", "utils/tables.py", "utils/report.py"}
BY_CI = {"./run_all.sh", "./run_all.sh test"}  # .ci/run calls these two


def run(words):
    return warm_python.run(words, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})


def prepared(command, tmp_path):
    """The command with this Python, short, and with its files in a temporary folder."""
    command = with_small_features(command, tmp_path)
    words = shlex.split(command.replace("./run_all.sh tables", "python utils/reproduce.py"))
    words[0] = sys.executable if words[0] == "python" else words[0]
    if {"--help", "--dry_run"} & set(words) or words[1] in AS_IT_STANDS:
        return words
    given = {word for word in words if word.startswith("--")}
    needs_data = re.search(r"(mnist|cifar|tinyimg|bench\.py)", command)
    data = os.environ.get("MAMMOTH_DATA", "")
    if needs_data and not Path(data, "MNIST").is_dir():
        pytest.skip("MAMMOTH_DATA does not name a folder with the real datasets")
    shorter = {"--base_path": data if needs_data else tmp_path / "data",
               "--results_path": tmp_path / "results", "--checkpoint_path": tmp_path / "checks"}
    if words[1] == "utils/bench.py":
        shorter = {"--base_path": data, "--steps": 4, "--repeats": 1}
    elif "--inference_only" not in given:
        shorter |= {"--debug_mode": 1}
        if "--seeds" not in given and "--fitting_mode" not in given:
            shorter |= {"--stop_after": 1, "--n_epochs": 1}
        if "seq-cifar" in command and "--help" not in given:  # ResNet-18 is slow on a processor
            shorter |= {"--batch_size": 4}
    for name, value in shorter.items():
        if name not in given:
            words += [name, str(value)]
    if "--seeds" in words:
        words[words.index("--seeds") + 1] = "1"
    return words


def with_small_features(command, folder):
    """The command with fewer and smaller images, or with a small file of features."""
    if "--features efficientnet" in command:
        command = re.sub(r"seq-cifar100?", "seq-digits", command) + " --features_size 32"
    path, labels = folder / "FILE.npz", np.repeat(np.arange(20), 10)
    rows = np.random.default_rng(0).normal(size=(200, 8))
    np.savez(path, train_x=rows, train_y=labels, test_x=rows, test_y=labels)
    return command.replace("FILE.npz", str(path))


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in BY_CI])
def test_command_runs(command, tmp_path):
    if "RESULTS_PATH" in command:
        made = run([sys.executable, "mammoth/main.py", "--model", "sgd", "--dataset", "seq-digits",
                    "--debug_mode", "1", "--base_path", str(tmp_path)])
        assert made.returncode == 0, made.stderr
        command = command.replace("RESULTS_PATH", str(tmp_path / "results"))
        for name in ("report.html", "figures"):
            command = command.replace(f" {name}", f" {tmp_path / name}")
    if "CHECKPOINT" in command:
        saved = run([sys.executable, "mammoth/main.py", "--model", "sgd", "--dataset", "seq-digits",
                     "--debug_mode", "1", "--savecheck", "last", "--base_path", str(tmp_path),
                     "--checkpoint_path", str(tmp_path / "c")])
        path = next((tmp_path / "c").glob("*_last.pt"), None)
        assert path is not None, saved.stderr
        command = command.replace("CHECKPOINT", str(path))
    done = run(prepared(command, tmp_path))
    assert done.returncode == 0, done.stderr


def test_the_two_commands_are_what_ci_runs():
    ci = (ROOT / ".ci" / "run").read_text().splitlines()
    assert set(COMMANDS) >= BY_CI and set(ci) >= BY_CI


def test_python_example_of_the_readme_works(tmp_path):
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    code = code.replace('"seed": 1', f'"seed": 1, "debug_mode": 1, "base_path": {str(tmp_path)!r}')
    done = run([sys.executable, "-c", code + "\nassert result['accuracy']['task-il'] > 40"])
    assert done.returncode == 0, done.stderr


def test_jobs_of_run_all_are_explained_and_unknown_ones_refused():
    page = run(["./run_all.sh", "--help"])
    assert page.returncode == 0
    for job in ("test", "compare", "sweep", "tables", "docs", "bench"):
        assert re.search(rf"^  {job}\b", page.stdout, re.MULTILINE)
    wrong = run(["./run_all.sh", "dance"])
    assert wrong.returncode == 2 and "there is no job `dance`" in wrong.stderr


def test_readme_is_short_and_every_method_and_benchmark_has_its_line():
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    assert len(README.splitlines()) <= 150 and "docs/methods.md" in README
    sys.path.insert(0, str(ROOT / "mammoth"))
    from datasets import REGISTRY as DATASETS
    from engine.plugins import load_plugins
    from models import REGISTRY as MODELS

    load_plugins()

    for name in DATASETS.names():
        assert f"`{name}`" in page, name
    for name in MODELS.names():
        assert f"`{name.replace('-', '_')}`" in page, name
