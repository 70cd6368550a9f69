"""The comparison's table: ranks, the paired test, the paper's figures, four formats."""
import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from experiments.tables.comparison import (
    Column,
    as_csv,
    as_latex,
    as_markdown,
    as_text,
    compare,
    latex_escape,
    paired_p,
)


def result(accuracy, ece=None, setting="domain-il", transfer=True):
    found = {"accuracy": {setting: accuracy}, "seconds": 10.0,
             "transfer": {"backward_transfer": {setting: -accuracy / 10},
                          "forgetting": {setting: accuracy / 10}} if transfer else {}}
    return found | ({"uncertainty": {"headline": {"ece": ece}}} if ece is not None else {})


@pytest.fixture
def columns():
    results = {"er": {0: result(70.0, 0.4), 1: result(72.0, 0.42)},
               "der_x": {0: result(80.0, 0.2), 1: result(81.0, 0.3)},
               "npcl": {0: result(75.0)}, "joint": {}}
    return compare(results, lambda measure, model: [72.37, 0.87]
                   if (measure, model) == ("accuracy", "er") else [])


def cells(columns, title):
    return next(c for c in columns if c.title == title).texts()


def test_columns_hold_what_was_measured(columns):
    titles = [column.title for column in columns]
    assert titles == ["method", "Domain-IL %", "paper %", "BWT", "forgetting", "ECE",
                      "seconds a run", "p", "seeds"]
    assert cells(columns, "Domain-IL %") == ["71.00 ± 1.41", "80.50 ± 0.71", "75.00", "-"]
    assert cells(columns, "paper %") == ["72.37 ± 0.87", "-", "-", "-"]
    assert cells(columns, "ECE")[0] == "0.410 ± 0.014" and cells(columns, "ECE")[2] == "-"
    assert cells(columns, "seeds") == ["2", "2", "1", "0"]
    assert cells(columns, "p")[0] == cells(columns, "p")[2] == "-"


def test_best_and_second_best_are_marked_in_the_right_direction(columns):
    ranks = {column.title: column.ranks() for column in columns if column.better}
    assert ranks["Domain-IL %"] == [0, 1, 2, 0]
    assert ranks["BWT"] == [1, 0, 2, 0] and ranks["forgetting"] == [1, 0, 2, 0]
    assert ranks["ECE"] == [0, 1, 0, 0], "no second best of two"


@given(st.lists(st.lists(st.floats(-100, 100), max_size=3), max_size=5),
       st.sampled_from([1, -1]))
def test_the_best_rank_has_the_best_mean(values, better):
    column = Column("x", values, better)
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


def test_text_is_aligned_and_marked(columns):
    lines = as_text(columns).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "80.50 ± 0.71 *" in lines[3] and "75.00 +" in lines[4]


def test_markdown_and_csv(columns):
    markdown = as_markdown(columns).splitlines()
    assert "**80.50 ± 0.71**" in markdown[3] and "<u>75.00</u>" in markdown[4]
    rows = list(csv.DictReader(io.StringIO(as_csv(columns))))
    assert rows[0]["Domain-IL % mean"] == "71" and float(rows[0]["Domain-IL % sd"]) > 1.41
    assert rows[2]["Domain-IL % sd"] == "" and rows[3]["Domain-IL % mean"] == ""


def test_latex_is_escaped_and_whole(columns):
    text = as_latex(columns)
    assert r"der\_x & \textbf{80.50 $\pm$ 0.71}" in text and r"Domain-IL \% &" in text
    assert r"\textbf{$-$7.10 $\pm$ 0.14}" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len({line.count("&") for line in rows}) == 1 and len(rows) == 5
    assert latex_escape(r"a\b{c}~^<$#&") == (
        r"a\textbackslash{}b\{c\}\textasciitilde{}\textasciicircum{}$<$\$\#\&")
