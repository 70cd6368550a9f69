"""`bench.py npcl` on embedded data and tiny sizes: every member, budgets, growth."""
import json

import pytest

from experiments.commands.bench import main
from npcl_plugin import bench, growth

pytestmark = pytest.mark.long


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(bench, "MLP", "perm-digits")
    monkeypatch.setattr(bench, "RESNET", "seq-digits")
    monkeypatch.setattr(bench, "RECORDED", bench.PLAIN)  # recording takes seconds
    monkeypatch.setattr(growth, "SIZES", {"buffer": (20, 40), "tasks": (2, 3),
                                          "classes": (5, 10), "draws": (1, 2)})


def test_every_member_has_a_budget_and_growth_is_told(tiny, tmp_path, capsys):
    found = tmp_path / "figures.json"
    assert main(["npcl", "--steps", "3", "--images", "100", "--base_path", str(tmp_path),
                 "--json", str(found)]) == 0
    rows = json.loads(found.read_text())
    budgets = {row["what"]: row["budget"] for row in rows if "budget" in row}
    for name, budget in bench.STEP_BUDGETS.items():
        assert budgets[f"training step, MLP, N = 50, {name}"] == budget
        assert budgets[f"end-of-task pass ÷ training, MLP, {name}"] == 0.1
    assert all(row.get("ratio", row.get("time", 0)) > 0 for row in rows)
    points = [row for row in rows if "memory" in row]
    assert {point["what"] for point in points} == {
        "buffer, answer", "tasks, step", "tasks, answer", "classes, step", "classes, answer",
        "draws, step"}
    printed = capsys.readouterr().out
    assert "÷ ER" in printed and "memory" in printed


def test_growth_faster_than_the_size_is_marked(capsys):
    growth.print_growth([growth.Point("tasks, step", 2, 1.0, 1.0),
                         growth.Point("tasks, step", 4, 2.5, 1.0),
                         growth.Point("tasks, step", 8, 3.0, 1.0)])
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert [line.endswith("faster than linear") for line in lines] == [False, True, False]
