"""Methods that other packages bring."""
import os
import subprocess
import sys

import pytest
from runs import MAIN

from engine import plugins
from engine.errors import UsageError

MODEL = """
from models import register_model
from models.sgd import Sgd

@register_model("outsider")
class Outsider(Sgd):
    NAME = "outsider"
    CONFIG_PATH = __file__.replace("method.py", "outsider.yaml")

    @staticmethod
    def get_parser(parser):
        parser.add_argument("--zest", type=float, required=True)
        parser.set_defaults(optimizer="adam")
        return parser
"""


@pytest.fixture
def installed_plugin(tmp_path):
    """A package with an entry point, as pip would leave it, on a path of its own."""
    package = tmp_path / "outsider_plugin"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import sys\nfrom models import REGISTRY\n"
        "REGISTRY.declare('outsider', 'outsider_plugin.method')\n"
        "assert 'torch' not in sys.modules\n")
    (package / "method.py").write_text(MODEL)
    (package / "outsider.yaml").write_text("seq-digits: {lr: 0.01, zest: 2}\n")
    info = tmp_path / "outsider_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outsider-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{plugins.GROUP}]\noutsider = outsider_plugin\n")
    return tmp_path


def run(path, *words):
    return subprocess.run([sys.executable, str(MAIN), *map(str, words)], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(path)})


def test_installed_plugin_is_listed_without_being_imported(installed_plugin):
    page = run(installed_plugin, "--help")
    assert page.returncode == 0, page.stderr
    assert "outsider" in page.stdout


def test_installed_plugin_trains_with_its_own_settings(installed_plugin, tmp_path):
    done = run(installed_plugin, "--model", "outsider", "--dataset", "seq-digits",
               "--debug_mode", 1, "--verbose", 1, "--base_path", tmp_path / "d")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["--zest", "2.0", "published:", "seq-digits"] in lines
    assert ["--optimizer", "adam", "outsider's", "default"] in lines


def test_checkout_that_is_not_installed_declares_plugins_in_setup_cfg(tmp_path):
    (tmp_path / "setup.cfg").write_text(
        f"[options.entry_points]\n{plugins.GROUP} =\n    one = pkg_one\n    two = pkg.two\n")
    assert plugins.declared_in_checkout(tmp_path) == {"one": "pkg_one", "two": "pkg.two"}
    assert plugins.declared_in_checkout(tmp_path / "nowhere") == {}


def test_broken_plugin_is_named(monkeypatch):
    monkeypatch.setattr(plugins, "declared_in_checkout", lambda: {"bad": "no_such_package"})
    with pytest.raises(UsageError, match="The plugin `bad` .no_such_package. cannot be imported"):
        plugins.load_plugins()
