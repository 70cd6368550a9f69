"""torchvision imports beside any torch, and only when somebody asks for it."""
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

MAMMOTH = Path(__file__).resolve().parents[3] / "mammoth"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=MAMMOTH, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_torchvision_works_after_importing_the_registry():
    out = run("import datasets\n"
              "import torchvision.transforms as t, torchvision.datasets as d, torch\n"
              "from torchvision.transforms import functional\n"
              "import sys, torchvision\n"
              "assert sys.modules['torchvision'] is torchvision\n"
              "print(t.RandomCrop(2)(torch.ones(1, 3, 3)).sum().item(), d.MNIST.__name__)")
    assert out == "4.0 MNIST"


@pytest.mark.parametrize("code, absent", [
    ("import datasets; datasets.get_dataset_names(True)", "torch,torchvision"),
    ("import datasets.perm_mnist, datasets.seq_digits, datasets.mnist_360", "torchvision,sklearn"),
    ("from argparse import Namespace; import datasets.seq_digits as s\n"
     "d = s.SequentialDigits(Namespace(seed=0, batch_size=8)); list(d.get_data_loaders()[0])",
     "torchvision,sklearn"),
    ("from main import initialize, parse_args\n"
     "initialize(parse_args(['--model', 'npcl', '--dataset', 'seq-cifar10', '--buffer_size', '9']))"
     "\nfrom torchvision import transforms", "torch._dynamo,sklearn")])
def test_what_is_not_needed_is_not_imported(code, absent):
    out = run(f"{code}\nimport sys\n"
              f"print([name for name in '{absent}'.split(',') if name in sys.modules])")
    assert out == "[]"


def test_other_import_errors_are_not_swallowed(tmp_path):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("raise RuntimeError('something else')")
    out = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
              "import utils.torchvision_compat\n"
              "try:\n    import torchvision\n"
              "except RuntimeError as error:\n    print(error)")
    assert out == "something else"


def test_the_compiler_answers_when_it_is_asked():
    out = run("import utils.torchvision_compat, sys\n"
              "from torchvision.ops.roi_align import is_compile_supported as supported\n"
              "print('torch._dynamo.utils' in sys.modules)\n"
              "from torch._dynamo import utils\n"
              "print(supported('cpu') == utils.is_compile_supported('cpu'))")
    assert out.split() == ["False", "True"]


def test_a_torchvision_that_needs_more_of_the_compiler_gets_it(tmp_path):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("import torchvision.ops")
    (tmp_path / "torchvision" / "ops.py").write_text("from torch._dynamo.utils import counters")
    out = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
              "import utils.torchvision_compat, torchvision\n"
              "from torch._dynamo import utils\n"
              "print(torchvision.ops.counters is utils.counters)")
    assert out == "True"
