"""`bench.py upstream`: the two processes and their ratios, with harnesses that only pretend."""
from argparse import Namespace
from pathlib import Path

import pytest

from experiments.commands.bench import main
from experiments.contributions import load_contributions
from npcl_plugin import upstream_bench as bench
from npcl_plugin.upstream_bench import Side, _compare, bench_upstream

TORCH = """
from contextlib import nullcontext as no_grad
def set_num_threads(count): pass
"""
MAIN = """
import sys, time
class Net:
    def train(self): pass
    eval = train
    def to(self, device): pass
class Method:
    device, net = "cpu", Net()
    def meta_begin_task(self, benchmark): pass
    def meta_observe(self, images, labels, raw, epoch):
        end = time.process_time() + STEP
        while time.process_time() < end: pass
    def __call__(self, images): self.meta_observe(images, None, None, 0)
class Benchmark:
    test_loaders = [[([0] * 10, [0] * 10)] * 5]
    def get_data_loaders(self): return [([0] * 10, [0] * 10, [0] * 10, "extra")], None
def parse_args(words): return words
def initialize(args): print("chatter"); return Method(), Benchmark(), args
"""


@pytest.fixture(scope="module", autouse=True)
def jobs():
    load_contributions()


@pytest.fixture
def harness(tmp_path):
    """A function that makes a harness whose step takes the given seconds."""
    def make(name: str, step: float, main: str = MAIN) -> Side:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "torch.py").write_text(TORCH)
        (folder / "main.py").write_text(f"STEP = {step}\n{main}")
        return Side(folder, "-", tmp_path)
    return make


def test_ratios_are_upstream_over_ours(harness, tmp_path):
    rows = {row["what"]: row for row in _compare((harness("there", 0.006), harness("here", 0.002)),
                                                 ["--model", "er"], tmp_path, 3, 2, 1)}
    assert set(rows) == {"start-up", "step", "evaluation"}
    assert rows["step"]["ratio"] == pytest.approx(3, rel=0.3)
    assert rows["step"]["upstream"] == pytest.approx(6, rel=0.3)             # ms
    assert rows["evaluation"]["here"] == pytest.approx(1e3 * 0.2, rel=0.5)   # ms per 1000 images
    assert rows["start-up"]["here"] > 0


def test_a_harness_that_fails_is_named_with_its_last_line(harness, tmp_path, capsys, monkeypatch):
    broken = harness("there", 0, "raise RuntimeError('no data')")
    (broken.folder / "models").mkdir()
    monkeypatch.setattr(bench, "_lay_out", lambda *where: None)
    monkeypatch.setattr("npcl_plugin.import_hooks.__file__", "-")
    words = ["upstream", "--mammoth", str(broken.folder), "--repeats", "1", "--base_path"]
    assert main([*words, str(tmp_path)]) == 1
    assert capsys.readouterr().err == \
        f"error: Training in {broken.folder} ended: RuntimeError: no data\n"


def test_no_checkout_and_no_data_are_one_sentence(tmp_path, capsys):
    assert main(["upstream", "--mammoth", str(tmp_path)]) == 2
    assert "is none" in capsys.readouterr().err
    (tmp_path / "models").mkdir()
    (tmp_path / "main.py").write_text("")
    options = Namespace(mammoth=str(tmp_path), base_path=str(tmp_path), steps=5, repeats=1)
    with pytest.raises(Exception, match="MNIST is not complete"):
        bench_upstream(options)


def test_the_worker_needs_nothing_of_ours():
    text = Path(bench.__file__).with_name("upstream_worker.py").read_text()
    assert "experiments" not in text and "npcl_plugin" not in text
