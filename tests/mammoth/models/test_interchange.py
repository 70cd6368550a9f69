"""Upstream's own method files, unmodified, in a temporary copy of our harness.

The test of all that docs/upstream.md says needs an upstream Mammoth checkout beside the project,
named by MAMMOTH_UPSTREAM; nothing of it is kept.
"""
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import warm_python
from runs import ROOT, environment

TOOL = ROOT / "tests" / "mammoth" / "interchange.py"
PAGE = ROOT / "docs" / "upstream.md"
METHOD = """
from models.utils.continual_model import ContinualModel
from utils.args import ArgumentParser
from utils.augmentations import cutmix_data
from utils.spkdloss import SPKDLoss


class Dropped(ContinualModel):
    NAME = "dropped"
    COMPATIBILITY = ["class-il", "task-il"]

    @staticmethod
    def get_parser(parser) -> ArgumentParser:
        parser.add_argument("--weight", type=float, required=True)
        return parser

    def observe(self, inputs, labels, not_aug_inputs, epoch=None):
        self.opt.zero_grad()
        loss = self.loss(self.net(inputs), labels) + 0 * self.args.weight
        loss.backward()
        self.opt.step()
        return loss.item()
"""


def table(checkout: Path, tmp_path: Path, *names: str) -> str:
    """What the tool prints for some files of a checkout."""
    words = [sys.executable, TOOL, checkout, *names, "--base_path", tmp_path, "--dataset",
             "seq-digits"]
    done = warm_python.run(words, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_dropped_in_file_runs_and_a_broken_one_says_why(tmp_path):
    models = tmp_path / "checkout" / "models"
    models.mkdir(parents=True)
    (models / "dropped.py").write_text(METHOD)
    (models / "lacking.py").write_text(METHOD.replace("dropped", "lacking")
                                       .replace("utils.spkdloss", "utils.no_such_file"))
    said = table(tmp_path / "checkout", tmp_path)
    assert "| `dropped.py` | yes |  |" in said
    assert re.search(r"\| `lacking.py` \| no \| .*No module named 'utils.no_such_file'", said)
    assert said.endswith("1 of 2 run.\n")


@pytest.mark.slow
def test_the_files_that_the_docs_name_run_unmodified(tmp_path):
    checkout = os.environ.get("MAMMOTH_UPSTREAM")
    if not checkout or not Path(checkout, "models").is_dir():
        pytest.skip("MAMMOTH_UPSTREAM does not name an upstream Mammoth checkout")
    names = re.findall(r"`(\w+)\.py`", re.search(r"^Run: (.*?)\n\n", PAGE.read_text(),
                                                 re.DOTALL | re.MULTILINE)[1])
    if not find_spec("xitorch"):  # as the page says
        names = [name for name in names if not name.endswith("_casper")]
    assert len(names) > 25
    said = table(Path(checkout), tmp_path, *names)
    assert f"{len(names)} of {len(names)} run." in said, said
