"""The recipes of CONTRIBUTING.md work in a copy of the tree, and are as short as they say."""
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import warm_python

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TREE = ("mammoth", "npcl_plugin", "experiments", "utils", "setup.cfg")
RECIPES = {title: (int(files), int(lines), body) for title, files, lines, body in re.findall(
    r"^### (.*?) \((\d+) files?, (\d+) lines\)\n(.*?)(?=^### |\Z)", PAGE, re.DOTALL | re.MULTILINE)}
NEW = re.compile(r"`([\w/.]+)`:\n\n```(?:python|yaml)\n(.*?)```", re.DOTALL)
CHANGED = re.compile(r"`([\w/.]+)`:\n\n```diff\n-(.*?)\n\+(.*?)\n```", re.DOTALL)
EXPECTED = {"A measure with a figure": ("report.html", "Each task when it was new")}


def code_lines(text):
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith(
        ("#", '"""')))


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    for name in TREE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder)
    return folder


def test_every_kind_of_contribution_has_a_recipe():
    assert len(RECIPES) == 4


@pytest.mark.parametrize("title", RECIPES)
def test_recipe(copied, title):
    files, lines, body = RECIPES[title]
    new, changed = NEW.findall(body), CHANGED.findall(body)
    assert len(new) + len(changed) == files
    assert sum(code_lines(text) for _, text in new) + len(changed) == lines
    for name, text in new:
        (copied / name).write_text(text)
    for name, before, after in changed:
        text = (copied / name).read_text()
        assert text.count(before) == 1
        (copied / name).write_text(text.replace(before, after))
    for line in re.findall(r"```sh\n(.*?)```", body, re.DOTALL)[0].splitlines():
        words = shlex.split(line.replace("DATA", str(copied / "data")))
        if "--base_path" not in words and "mammoth/main.py" in words:
            words += ["--base_path", str(copied / "data")]
        done = warm_python.run([sys.executable, *words[1:]], cwd=copied,
                               env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert done.returncode == 0, done.stderr
    if title in EXPECTED:
        name, text = EXPECTED[title]
        assert text in (copied / "data" / name).read_text()
