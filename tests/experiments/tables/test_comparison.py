"""The comparison's table: ranks, the paired test, the paper's figures, four formats."""
import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from experiments.run import Run
from experiments.tables.comparison import compare, paired_p
from experiments.tables.table import Column, Table, latex_escape


def run(accuracy, ece=None, setting="domain-il"):
    return Run("er", "perm-mnist", setting, {setting: accuracy}, "", seconds=10.0,
               transfer={"backward_transfer": {setting: -accuracy / 10},
                         "forgetting": {setting: accuracy / 10}},
               headline={} if ece is None else {"ece": ece})


@pytest.fixture
def table():
    results = {"er": {0: run(70.0, 0.4), 1: run(72.0, 0.42)},
               "der_x": {0: run(80.0, 0.2), 1: run(81.0, 0.3)},
               "npcl": {0: run(75.0)}, "joint": {}}
    return compare(results, lambda measure, model: [72.37, 0.87]
                   if (measure, model) == ("accuracy", "er") else [])


def cells(table, title):
    return next(c for c in table.columns if c.title == title).cells


def test_columns_hold_what_was_measured(table):
    titles = [column.title for column in table.columns]
    assert titles == ["method", "Domain-IL %", "paper %", "BWT", "forgetting", "ECE",
                      "seconds per run", "p", "seeds"]
    assert cells(table, "Domain-IL %") == ["71.00 ± 1.41", "80.50 ± 0.71", "75.00", "-"]
    assert cells(table, "paper %") == ["72.37 ± 0.87", "-", "-", "-"]
    assert cells(table, "ECE")[0] == "0.410 ± 0.014" and cells(table, "ECE")[2] == "-"
    assert cells(table, "seeds") == ["2", "2", "1", "0"]
    assert cells(table, "p")[0] == cells(table, "p")[2] == "-"


def test_best_and_second_best_are_marked_in_the_right_direction(table):
    ranks = {column.title: column.ranks() for column in table.columns if column.better}
    assert ranks["Domain-IL %"] == [0, 1, 2, 0]
    assert ranks["BWT"] == [1, 0, 2, 0] and ranks["forgetting"] == [1, 0, 2, 0]
    assert ranks["ECE"] == [0, 1, 0, 0], "no second best of two"


@given(st.lists(st.lists(st.floats(-100, 100), max_size=3), max_size=5),
       st.sampled_from([1, -1]))
def test_the_best_rank_has_the_best_mean(values, better):
    column = Column("x", [""] * len(values), values, better)
    for rank, mine in zip(column.ranks(), values, strict=True):
        if rank == 1:
            means = [round(sum(v) / len(v), 2) for v in values if v]
            best = max(means) if better > 0 else min(means)
            assert round(sum(mine) / len(mine), 2) == pytest.approx(best, abs=0.011)


def test_paired_test_is_scipys_over_common_seeds():
    first, other = {0: 70.0, 1: 71.0, 2: 74.0}, {0: 72.5, 1: 72.0, 2: 79.0, 3: 10.0}
    expected = stats.ttest_rel([70.0, 71.0, 74.0], [72.5, 72.0, 79.0]).pvalue
    assert paired_p(first, other) == f"{expected:.3f}"
    assert paired_p(first, {0: 1.0}) == "-" and paired_p(first, first) == "-"
    assert paired_p(first, {s: v + 1 for s, v in first.items()}) == "<0.001"


def test_text_is_aligned_and_marked(table):
    lines = table.text().splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "80.50 ± 0.71 *" in lines[3] and "75.00 +" in lines[4]


def test_markdown_and_csv(table):
    markdown = table.markdown().splitlines()
    assert "**80.50 ± 0.71**" in markdown[3] and "<u>75.00</u>" in markdown[4]
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    assert rows[0]["Domain-IL % mean"] == "71" and float(rows[0]["Domain-IL % sd"]) > 1.41
    assert rows[2]["Domain-IL % sd"] == "" and rows[3]["Domain-IL % mean"] == ""


def test_latex_is_escaped_and_whole(table):
    text = table.latex()
    assert r"der\_x & \textbf{80.50 $\pm$ 0.71}" in text and r"Domain-IL \% &" in text
    assert r"\textbf{$-$7.10 $\pm$ 0.14}" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len({line.count("&") for line in rows}) == 1 and len(rows) == 5
    assert latex_escape(r"a\b{c}~^<$#&") == (
        r"a\textbackslash{}b\{c\}\textasciitilde{}\textasciicircum{}$<$\$\#\&")


def test_ranks_are_among_peers():
    column = Column("x", ["", "", "", ""], [[1.0], [2.0], [3.0], [9.0]], better=1)
    assert column.ranks(["a", "a", "b", None]) == [0, 1, 0, 0]
    assert column.ranks() == [0, 0, 2, 1]


def test_table_of_rows_is_one_of_columns():
    table = Table.of_rows("T", ["a", "b"], [["1", "2"], ["3", "4"]])
    assert table.header == ["a", "b"] and table.rows == [["1", "2"], ["3", "4"]]
    assert Table.of_rows("T", ["a", "b"], []).rows == [] and str(table).startswith("**T**\n\n| a |")
