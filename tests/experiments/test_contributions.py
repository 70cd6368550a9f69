"""Plugins add measures, figures and tables; the package itself knows no method in particular."""
import re
from pathlib import Path
from types import ModuleType

import pytest
from report_fixture import write_run

from engine import plugins
from experiments import contributions, measures
from experiments.commands.report import main
from experiments.report import figure
from experiments.tables.page import all_sections

ROOT = Path(__file__).resolve().parents[2]
# What another plugin takes for a measure with a figure: this file, and its hook.
PLUGIN = '''
from experiments.measures import Measure, register
from experiments.report.figure import Figure, run_figure
from experiments.report.svg import Plot


def add_experiments():
    register(Measure("spread_of_tasks", "Spread", "Best minus worst setting.",
                     lambda run: max(run.accuracy.values()) - min(run.accuracy.values()), digits=1,
                     better=-1, compared=True))

    @run_figure()
    def spread_of_tasks(shown):
        row = shown.run.matrix[shown.run.setting][-1]
        plot = Plot((0, len(row)), (0, 100), "task", "accuracy, %")
        yield Figure("spread", "Spread of the tasks", plot.line(list(enumerate(row)), 0).svg(),
                     "The flatter, the better.", "Accuracy")
'''


@pytest.fixture
def other_plugin(monkeypatch):
    """A second plugin beside ours; forgotten afterwards."""
    module = ModuleType("other_plugin")
    exec(PLUGIN, module.__dict__)
    monkeypatch.setitem(plugins._loaded, "other", module)
    monkeypatch.setattr(contributions, "_called", {"npcl"})
    monkeypatch.setattr(measures, "_REGISTRY", dict(measures._REGISTRY))
    monkeypatch.setattr(figure, "_OF_RUNS", list(figure._OF_RUNS))


def test_measure_and_figure_of_another_plugin_are_shown(other_plugin, tmp_path, capsys):
    write_run(tmp_path)
    assert main([str(tmp_path)]) == 0, capsys.readouterr().err
    page = (tmp_path / "report.html").read_text()
    assert 'data-key="spread"' in page and ">Spread</button>" in page
    assert 'title="Best minus worst setting."' in page


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="`seconds` is taken"):
        measures.register(measures.Measure("seconds", "s", "Another thing.", lambda run: 1.0))


def test_every_measure_has_a_label_and_a_definition():
    for measure in measures.registered().values():
        assert measure.label and measure.definition.endswith("."), measure.name
        assert measure.better in (-1, 0, 1)


def test_sections_keep_the_order_of_the_page():
    assert list(all_sections()) == [
        "headline", "rivals", "main", "bwt", "calibration", "objectives", "few-shot",
        "noisy-context", "storage", "features", "parameters", "time", "novelty", "confidence",
        "draws", "context", "search", "reproduction"]


def test_the_package_knows_no_method_in_particular():
    words = re.compile(r"\b(npcl\w*|latents?|heads?|attention|neural process\w*)\b", re.IGNORECASE)
    for path in (ROOT / "experiments").rglob("*.py"):
        text = path.read_text().replace("ray start --head", "")
        assert not words.search(text), f"{path}: {words.search(text)}"


def test_one_module_reads_result_files():
    names = re.compile(r'"(result\.json|args\.json|summary\.json|metrics\.jsonl)"')
    for path in (ROOT / "experiments").rglob("*.py"):
        if path.name != "run.py":
            assert not names.search(path.read_text()), path
            assert "json.load" not in path.read_text(), path


def test_example_of_the_documentation_is_shown(monkeypatch, tmp_path, capsys):
    text = (ROOT / "docs" / "harness.md").read_text()
    code = re.search(r"```python\n(from experiments\.measures.*?)```", text, re.DOTALL).group(1)
    monkeypatch.setattr(measures, "_REGISTRY", dict(measures._REGISTRY))
    monkeypatch.setattr(figure, "_OF_RUNS", list(figure._OF_RUNS))
    exec(code, {})
    write_run(tmp_path)
    assert main([str(tmp_path)]) == 0, capsys.readouterr().err
    assert 'data-key="last-task"' in (tmp_path / "report.html").read_text()
