"""The paper's figures are consistent, and tables show measured and published cells side by side."""
import json
import re
import sys
from pathlib import Path

import pytest
import warm_python

from experiments.compact import read_compact
from experiments.identity import by_row, protocol, variant
from experiments.run import run_of_record
from experiments.tables.headline import headline
from experiments.tables.page import all_sections, documents, pages
from experiments.tables.paper import main_results
from experiments.tables.published import cell
from experiments.tables.search import search
from experiments.tables.sections import MeasuredRuns
from npcl_plugin.report import PAPER

ROOT = Path(__file__).resolve().parents[3]
TASKS = {"seq-cifar10": 5, "seq-cifar100": 10, "seq-tinyimg": 10, "perm-mnist": 20,
         "rot-mnist": 20}
CLASSES = {"seq-cifar10": 10, "seq-cifar100": 100, "seq-tinyimg": 200, "perm-mnist": 10,
           "rot-mnist": 10}


def read_paper():
    return json.loads(PAPER.read_text())


def read_records(folder):
    return [run for path in sorted(folder.glob("*.json")) for run in read_compact(path)[0]]


def run(*names, **more):
    return run_of_record(record(*names, **more))


def record(model="er", dataset="perm-mnist", size=200, seed=0, value=70.0, **more):
    settings = more.pop("settings", {})
    words = " ".join(f"--{name} {v}" for name, v in settings.items())
    buffer = f"--buffer_size {size} " if size else ""
    domain = dataset.startswith(("perm", "rot"))
    setting = "domain-il" if domain else "class-il"
    return {"model": model, "dataset": dataset, "setting": setting, "buffer_size": size,
            "seed": seed, "accuracy": {setting: value}, "backward_transfer": -value / 10,
            "seconds": 1.0, "n_parameters": 89610,
            "command": f"python mammoth/main.py --model {model} --dataset {dataset} {buffer}"
                       f"{words} --seed {seed} --base_path DATA", **more}


def known(**more):
    """An uncertainty record, as collect.py keeps it."""
    by_class = {"label": [0, 1], "accuracy": [0.8, 0.9], "piw_correct": [0.5, 0.6],
                "piw_incorrect": [0.7, None], "accuracy_rejected": [0.85, 0.9],
                "accuracy_not_rejected": [0.1, None]}
    scores = {"variance_softmax": [1e-6, 2e-6], "variance_entropy": [1e-5, 3e-5]}
    return {"headline": {"ece": 0.25, "ace_classwise": 0.01, "ace_top_equal_mass": 0.2},
            "novelty": {"data": "fmnist", "mean_id": scores, "mean_ood": scores},
            "confidence": {"true_head": {"by_class": by_class}},
            "cost": {"parameters": 100, "storage": {"stored": 1544, "der": 2000,
                                                    "gain_percent": 22.8},
                     "answer": {"images": 2000, "seconds": 1.5},
                     "context": {"size": [5, 200], "accuracy": [0.5, 0.75], "entropy": [1.0, 0.5],
                                 "seconds": [0.1, 0.2]},
                     "draws": {"N": [1, 10], "M": [1, 2], "accuracy": [[0.5, 0.6], [0.7, 0.8]],
                               "seconds": [[1, 1], [1, 1]]}}} | more


def section(text, title):
    return text.split(f"## {title}\n")[1].split("\n## ")[0]


def cells(text, *start):
    """The cells of the row that begins with `start`."""
    for line in text.splitlines():
        row = [cell.strip() for cell in line.split("|")[1:-1]]
        if tuple(row[:len(start)]) == start:
            return row
    raise AssertionError(f"no row {start}")


def test_storage_of_the_paper_follows_from_its_own_formula():
    for dataset, sizes in read_paper()["storage"].items():
        latent = 32 if "mnist" in dataset else 256
        for size, row in sizes.items():
            assert row["der"] == int(size) * CLASSES[dataset]
            assert row["npcl"] == (2 * TASKS[dataset] + 2) * latent + int(size)
            # 87.746 is printed where 87.736 follows
            assert row["gain_percent"] == pytest.approx(100 * (1 - row["npcl"] / row["der"]),
                                                        abs=0.011)


def test_cells_that_the_paper_prints_twice_agree():
    paper = read_paper()
    for dataset in ("seq-cifar10", "seq-tinyimg"):
        row = paper["objectives"][dataset]["200"]
        main = paper["accuracy"][dataset]["200"]
        assert row["er"][0] == main["er"][0] and row["both"][0] == main["npcl"][0]
    for size, row in paper["noisy_context"]["seq-cifar10"].items():
        for name in ("st_npcl", "npcl"):
            assert row[name] == paper["accuracy"]["seq-cifar10"][size][name]


def test_paper_has_every_table_whole():
    paper = read_paper()
    assert {d: len(v) for d, v in paper["accuracy"].items()} == dict.fromkeys(TASKS, 3)
    for sizes in paper["accuracy"].values():
        assert {"er", "der", "np", "anp", "st_npcl", "naive_npcl", "npcl"} <= sizes["500"].keys()
    for lists in paper["novelty"].values():
        assert len({len(v) for k, v in lists.items() if k != "data"}) == 1
        for score in ("softmax", "entropy"):
            assert all(a < b for a, b in zip(lists[f"id_{score}"], lists[f"ood_{score}"],
                                             strict=True))
    assert {len(v) for v in paper["confidence"]["seq-cifar10"].values()} == {10}
    for dataset, row in paper["parameters"].items():
        assert row["npcl"] > row["er"] and dataset in TASKS


def test_variants_and_protocols_are_told_apart():
    naive = run("npcl", settings={"head_inference": "naive", "uncertainty": 1})
    assert (variant(naive), protocol(naive)) == ("naive_npcl", "")
    assert variant(run("npcl", settings={"gamma": 0, "delta": "0.0"})) == "none"
    assert variant(run("er", settings={"lr": 0.5})) == "er, lr 0.5"
    assert variant(run("st-npcl")) == "st_npcl"
    reduced = run("npcl", "seq-cifar10", settings={"n_epochs": 3, "n_global": 10,
                                                      "backbone": "reduced-resnet18"})
    assert protocol(reduced) == "backbone reduced-resnet18, n_epochs 3"
    assert variant(reduced) == "npcl, n_global 10", "what ER does not have is named in the row"
    fewer_draws = run("npcl", settings={"n_global": 10, "n_epochs": 1})
    assert (variant(fewer_draws), protocol(fewer_draws)) == ("npcl", "n_global 10")
    usual = run("er", "seq-cifar10", settings={"n_epochs": 50})
    assert protocol(usual) == "", "the published value, typed in"
    features = run("er", "seq-cifar10", settings={"features": "efficientnet-lite0"})
    assert protocol(features) == "features efficientnet-lite0"
    assert variant(features) == "er", "the same method, apart from what learns from scratch"


def test_a_seed_counts_once_and_the_better_informed_run_wins():
    runs = [run(), run(uncertainty=known(), value=71.0), run(seed=1), run(size=500)]
    found = by_row(runs)
    group = found["", "perm-mnist", 200, "er"]
    assert [r.seed for r in group] == [0, 1] and group[0].accuracy["domain-il"] == 71.0
    assert cell([1, 0.5]) == "1.00 ± 0.50" and cell(None) == cell([]) == ""


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    runs = [record(seed=s, value=70.0 + 4 * s) for s in (0, 1)]
    runs += [record("npcl", seed=s, uncertainty=known(), value=80.0) for s in (0, 1)]
    runs += [record("npcl", settings={"gamma": 0}, value=60.0),
             record("npcl", settings={"noisy_context": 1}, value=50.0),
             record("npcl", "seq-cifar10", 10, settings={"n_epochs": 3}, value=33.0),
             record("er", "seq-cifar10", 200, settings={"n_epochs": 3}, value=44.0),
             record("npcl", "seq-mnist", 200, settings={"joint": 1}, value=90.0),
             record("er", "seq-mnist", 5, value=30.0, uncertainty=known())]
    (folder / "some.json").write_text(json.dumps(runs))
    return pages(MeasuredRuns.of(read_records(folder)), all_sections())


def test_main_table_has_ours_the_papers_and_empty_cells(text):
    main = section(text, "Main results")
    mnist = main.split("**Accuracy, %, P-MNIST**")[1]
    assert cells(mnist, "er", "200") == ["er", "200", "72.00 ± 2.83 (2)", "72.37 ± 0.87"]
    assert cells(mnist, "der", "200") == ["der", "200", "", "81.74 ± 1.07"]
    assert cells(main.split("S-MNIST**")[1], "joint NPCL")[2:] == ["90.00 (1)", ""]
    assert "60.00" not in mnist and "50.00" not in mnist, "ablations are elsewhere"


def test_headline_sets_methods_against_benchmarks_and_marks_the_best():
    runs = [run("er", seed=s, value=70.0 + 4 * s) for s in (0, 1)]
    runs += [run("npcl", size=500, value=75.0), run("er", size=500, value=60.0),
             run("joint", size=None, value=95.0), run("gss", value=99.0),
             run("npcl", settings={"alpha": 0}, value=98.0),
             run("er", "seq-cifar10", settings={"n_epochs": 1}, value=30.0),
             run("npcl", "seq-cifar10", settings={"n_epochs": 1, "n_global": 5}, value=20.0)]
    full, reduced = map(str, headline(MeasuredRuns.of(runs)))
    assert cells(full, "method") == ["method", "P-MNIST 200", "paper", "P-MNIST 500", "paper"]
    assert cells(full, "er") == ["er", "**72.00 ± 2.83**", "72.37 ± 0.87", "60.00", "80.60 ± 0.86"]
    assert cells(full, "npcl")[1:4] == ["", "83.11 ± 0.90", "**75.00**"]
    assert cells(full, "joint")[1:] == ["95.00", "94.33 ± 0.17"] * 2, "in every buffer's column"
    assert "gss" not in full and "98.00" not in full
    assert reduced.startswith("**Class-IL accuracy, % (reduced protocol: n_epochs 1)**")
    assert cells(reduced, "er") == ["er", "**30.00**"], "no figure of the paper's"
    assert cells(reduced, "npcl, n_global 5") == ["npcl, n_global 5", "20.00"]


def test_search_marks_the_best_value_and_shares_the_published_run():
    def tried(value, seed=0, **settings):
        return run("npcl", value=value, seed=seed, settings={"validation": 10, **settings})

    # 0.1 is P-MNIST's published alpha: the run stands for every argument's published value.
    runs = [tried(80.0, alpha=0.1), tried(82.0, seed=1, alpha="0.10"), tried(85.0, alpha=0.4),
            tried(70.0, alpha=0), tried(60.0, n_global=5), run("npcl", value=99.0),
            tried(50.0, lr_milestones="3 4"), tried(40.0, lr=0.1, beta=0)]
    book = MeasuredRuns.of(runs)
    assert not any("validation" in ending for ending, _, _ in book.parts("accuracy"))
    (table,) = search(book)
    assert table.title == "npcl on P-MNIST, buffer 200, validation 10 % of the training data"
    assert table.rows == [
        ["alpha", "0", "70.00 (1)"], ["alpha", "0.1 (published)", "81.00 ± 1.41 (2)"],
        ["alpha", "0.4", "**85.00 (1)**"],
        ["beta, lr", "0 0.1", "40.00 (1)"],
        ["beta, lr", "0.05 0.2 (published)", "**81.00 ± 1.41 (2)**"],
        ["lr_milestones", "(published)", "**81.00 ± 1.41 (2)**"],
        ["lr_milestones", "3 4", "50.00 (1)"],
        ["n_global", "5", "60.00 (1)"],
        ["n_global", "50 (published)", "**81.00 ± 1.41 (2)**"]]


def test_readings_of_npcl_stand_beside_each_other():
    heads = {"accuracy": 0.7, "true_head_accuracy": 0.71, "other_heads_accuracy": 0.5,
             "head_inference_accuracy": 0.1}
    release = {"model_config": "release"}
    runs = [run("er", value=73.0), run("npcl", value=69.0), run("npcl", value=75.0, seed=9),
            run("npcl", value=72.0, settings=release, uncertainty={"headline": heads}),
            run("npcl", value=74.0, seed=1, settings=release)]
    accuracy, found = all_sections()["reproduction"].build(MeasuredRuns.of(runs))
    assert [row[:2] for row in accuracy.rows] == [
        ["er", "**73.00**"], ["der", ""], ["npcl", "72.00 ± 4.24"],
        ["NPCL, authors' code", "73.00 ± 1.41"]]
    assert found.rows == [["P-MNIST", "NPCL, authors' code", "70.0", "71.0", "50.0", "10.0", "5",
                           "1"]]
    assert not list(all_sections()["reproduction"].build(MeasuredRuns.of(runs[:3])))


def test_committed_pages_show_the_committed_results():
    for path, text in documents(read_records(ROOT / "results")).items():
        assert path.read_text(encoding="utf-8") == text, \
            f"{path.name} is not what the results say; run utils/tables.py --docs"


def spreads(text):
    """(mean, deviation, digits) of everything that is written `mean ± deviation`."""
    return [(float(mean), float(sd), len(mean.partition(".")[2])) for mean, sd in
            re.findall(r"(\d+\.\d+) ± (\d+\.\d+)", text)]


def test_figures_in_the_words_of_the_report_are_measured():
    docs = ROOT / "docs"
    known = spreads((docs / "tables.md").read_text() + (docs / "results.md").read_text())
    page = (docs / "reproduction.md").read_text()
    words = re.sub(r"<!-- reproduction -->.*<!-- /reproduction -->", "", page, flags=re.DOTALL)
    assert len(spreads(words)) > 15
    for mean, sd, digits in spreads(words):
        assert any(abs(m - mean) < 0.51 * 10 ** -digits and abs(s - sd) < 0.51 * 10 ** -digits
                   for m, s, _ in known), f"{mean} ± {sd}"


def test_reduced_protocol_has_tables_of_its_own(text):
    main = section(text, "Main results")
    full, reduced = main.split("S-CIFAR-10 (reduced protocol: n_epochs 3)**")
    assert "44.00" not in full and cells(reduced, "er", "200") == ["er", "200", "44.00 (1)", ""]
    few = section(text, "Few-shot replay")
    assert cells(few.split("S-CIFAR-10**")[1], "npcl", "10")[2] == ""
    assert "33.00 (1)" in few.split("reduced protocol")[1]


def test_other_tables_are_filled_from_records(text):
    assert cells(section(text, "Backward transfer").split("P-MNIST")[1], "er", "200")[2] == \
        "-7.20 ± 0.28 (2)"
    assert cells(section(text, "Calibration").split("P-MNIST")[1], "npcl")[2] == \
        "0.2500 ± 0.0000 (2)"
    assert cells(section(text, "Learning objectives").split("P-MNIST")[1],
                 "NPCL, TR only")[2] == "60.00 (1)"
    assert cells(section(text, "Few-shot replay").split("S-MNIST")[1], "er", "5")[2:5] == [
        "30.00 (1)", "", "0.2500 (1)"]
    assert cells(section(text, "Noisy context").split("P-MNIST")[1],
                 "NPCL, noisy context")[2] == "50.00 (1)"
    assert cells(section(text, "Storage"), "P-MNIST", "200")[2:] == [
        "2,000", "2,000", "1,544", "1,544", "22.8", "22.8"]
    assert cells(section(text, "Parameters"), "P-MNIST", "er")[2:] == ["89,610", "89,610"]
    assert cells(section(text, "Inference time"), "P-MNIST", "npcl")[3:] == [
        "2,000", "1.500 ± 0.000 (2)", ""]
    assert cells(section(text, "Inference time"), "S-CIFAR-10", "npcl", "1000")[4:] == [
        "", "47.99"]
    assert cells(section(text, "Novel data").split("fmnist")[1], "2")[1] == \
        "2.0e-06 ± 0e+00"
    assert cells(section(text, "Confidence").split("P-MNIST")[1], "2")[1:6] == [
        "90.00 ± 0.00", "", "60.00 ± 0.00", "", ""]
    assert cells(section(text, "Monte-Carlo samples"), "N = 10") == [
        "N = 10", "70.00 ± 0.00", "80.00 ± 0.00"]
    assert cells(section(text, "Context size"), "P-MNIST", "npcl", "200", "200")[4] == \
        "75.00 ± 0.00"


def test_nothing_measured_leaves_the_papers_figures(tmp_path):
    tables = list(main_results(MeasuredRuns.of(read_records(tmp_path))))
    assert len(tables) == 5 and all(row[2] == "" and row[3] for t in tables for row in t.rows)


def test_command_writes_the_committed_results_and_tells_mistakes(tmp_path):
    command = [sys.executable, str(ROOT / "utils" / "tables.py")]
    done = warm_python.run([*command, "--out", tmp_path / "t.md"])
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "t.md").read_text()
    assert cells(text.split("R-MNIST**")[1], "der", "500")[2:] == ["92.75 ± 0.57 (5)",
                                                                 "92.24 ± 1.12"]
    (tmp_path / "bad.json").write_text("[{")
    wrong = warm_python.run([*command, "--results", tmp_path])
    assert wrong.returncode == 2 and "Traceback" not in wrong.stderr
    assert "bad.json is missing or damaged" in wrong.stderr
