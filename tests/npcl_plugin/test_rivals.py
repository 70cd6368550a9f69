"""NPCL+ beside its rivals, and the picture of the paper's limitations."""
import json

import pytest
from scipy.stats import ttest_rel

from experiments.run import Run
from experiments.tables.sections import MeasuredRuns
from npcl_plugin.report import limitations
from npcl_plugin.report.rivals import rivals

OURS, THEIRS = [80.0, 82.0, 81.5], [79.0, 80.0, 81.0]


def run(model, seed, accuracy, **headline):
    return Run(model=model, dataset="seq-mnist", setting="class-il", buffer_size=200, seed=seed,
               accuracy={"class-il": accuracy}, headline=headline,
               command=f"python mammoth/main.py --model {model} --dataset seq-mnist "
                       f"--buffer_size 200 --seed {seed}")


def test_the_best_is_bold_and_tested_against_the_best_rival():
    runs = [run("npcl_plus", seed, value, ece=0.05, auroc_distance=0.8, auroc_energy=0.9)
            for seed, value in enumerate(OURS)]
    runs += [run("derpp", seed, value, ece=0.02, auroc_energy=0.7, auroc_entropy=0.75)
             for seed, value in enumerate(THEIRS)]
    runs += [run("er", seed, 70.0) for seed in range(3)]
    accuracy, ece, novelty = rivals(MeasuredRuns.of(runs))
    rows = [dict(zip(table.header, table.rows[0], strict=True))
            for table in (accuracy, ece, novelty)]
    assert rows[0]["npcl_plus"] == "**81.17 ± 1.04**" and rows[0]["seeds"] == "3"
    assert float(rows[0]["p"]) == pytest.approx(ttest_rel(OURS, THEIRS).pvalue, abs=1e-3)
    assert rows[1]["derpp"].startswith("**0.020") and rows[1]["er"] == ""
    assert rows[2]["npcl_plus"].startswith("**0.800") and rows[2]["derpp"].startswith("0.750")


def test_the_picture_is_made_from_records(tmp_path, capsys):
    records = [{"model": model, "dataset": name, "buffer_size": 200,
                "settings": {"decoder_depth": "0"} if model == "npcl" and name[0] in "pr" else {},
                "accuracy": {"class-il": 70.0},
                "uncertainty": {"headline": {"own_task_share": share}}}
               for model, share in (("npcl", 0.2), ("npcl_plus", 0.56), ("npcl_plus", 0.58))
               for name in ("seq-mnist", "seq-fmnist", "perm-mnist", "rot-mnist")]
    drawn = limitations.picture(json.loads(json.dumps(records))).standalone()
    assert drawn.count(">57<") == 2 and drawn.count(">chance<") == 1 and ">19.5<" in drawn
    assert limitations.main(["picture.png"]) == 2 and "ends in .svg" in capsys.readouterr().err
    assert limitations.main([str(tmp_path / "picture.svg")]) == 0
    assert (tmp_path / "picture.svg").read_text().startswith("<?xml")
