"""Grid files become runs, and mistakes in them one sentence before anything starts."""
import math
import re
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UsageError
from experiments.command_line import from_words, to_words
from experiments.paths import ROOT
from experiments.sweeps.grid import combinations, label, plan, read_grid, shorten_labels
from experiments.sweeps.specification import Folders, RunSpec, check, without_duplicates

NUMBERS = st.integers(-2 ** 63, 2 ** 63)


@pytest.fixture
def folders(tmp_path):
    return Folders.of(str(tmp_path), "results/")


def grid(tmp_path, text):
    path = tmp_path / "grid.yaml"
    path.write_text(text)
    return path


def refused(tmp_path, folders, text, **options):
    with pytest.raises(UsageError) as caught:
        plan(grid(tmp_path, text), folders, **options)
    message = str(caught.value)
    assert "\n" not in message and message.endswith((".", "?"))
    return message


def test_lists_multiply_and_blocks_add(tmp_path):
    runs = read_grid(grid(tmp_path, """
        dataset: seq-digits
        seed: [0, 1]
        runs:
          - {name: replay, model: [er, der], buffer_size: [50, 100]}
          - {name: bounds, model: sgd, lr_milestones: [[3, 5]], seed: 7}
        exclude:
          - {model: der, buffer_size: 100}
        """))
    assert [name for name, _ in runs] == ["replay"] * 6 + ["bounds"]
    assert {"model": "der", "buffer_size": 100} not in [
        {k: r[k] for k in ("model", "buffer_size")} for _, r in runs[:-1]]
    assert runs[-1][1] == {"dataset": "seq-digits", "seed": 7, "model": "sgd",
                           "lr_milestones": [3, 5]}


@given(st.dictionaries(st.text("abc", min_size=1), st.lists(NUMBERS, min_size=1, max_size=3)
                       | NUMBERS, max_size=4))
def test_number_of_combinations_is_the_product(values):
    found = list(combinations(values, "grid.yaml"))
    assert len(found) == math.prod(len(v) if isinstance(v, list) else 1 for v in values.values())
    assert all(run.keys() == values.keys() for run in found)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
                       st.from_regex(r"[a-z0-9.]{1,5}", fullmatch=True)
                       | st.lists(st.from_regex(r"[0-9]{1,3}", fullmatch=True), min_size=2,
                                  max_size=3)))
def test_words_and_arguments_are_the_same_thing(arguments):
    assert from_words(to_words(arguments)) == arguments


def test_duplicates_are_one_run_and_null_leaves_an_argument_out(tmp_path, folders):
    specs, twice = without_duplicates(plan(grid(tmp_path, """
        dataset: seq-digits
        buffer_size: 50
        runs:
          - {model: er, seed: [0, 0, 1]}
          - {model: er, seed: 1, lr: 0.0625}
          - {model: sgd, buffer_size: null, seed: 0}
        """), folders))
    assert len(twice) == 1 and len(specs) == len({spec.key for spec in specs}) == 4
    assert "buffer_size" not in specs[-1].given and specs[-1].args.model == "sgd"


def test_question_mark_gives_an_argument_to_the_methods_that_have_it(tmp_path, folders):
    specs, twice = without_duplicates(plan(grid(tmp_path, """
        dataset: seq-digits
        buffer_size?: [50, 100]
        seed: 0
        runs:
          - {model: [sgd, er]}
          - {model: der, buffer_size: 9}
        """), folders))
    found = [(spec.given["model"], spec.given.get("buffer_size")) for spec in specs]
    assert found == [("sgd", None), ("er", 50), ("er", 100), ("der", 9)] and len(twice) == 2


def test_exclusions_know_both_spellings_of_a_method(tmp_path, folders):
    specs = plan(grid(tmp_path, """
        {model: [er, npcl_plus], dataset: seq-digits, buffer_size: 50, seed: [0, 1],
         exclude: [{model: npcl-plus, seed: 1}]}"""), folders)
    assert [(s.given["model"], s.given["seed"]) for s in specs] == [
        ("er", 0), ("er", 1), ("npcl_plus", 0)]


def test_grid_of_the_documentation_excludes_what_it_says(tmp_path, folders):
    """Among it arguments with a question mark, which are known only when the method is."""
    page = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    example = re.search(r"^## Grid files\n\n((?:    .*\n)+)", page, re.MULTILINE).group(1)
    specs, _ = without_duplicates(plan(grid(tmp_path, textwrap.dedent(example)), folders))
    found = {(s.given["model"], s.given.get("buffer_size"), s.given["seed"]) for s in specs
             if s.group == "replay"}
    assert found == {("sgd", None, 0), *((model, size, seed) for seed in range(3) for model, size in
                                         (("er", 200), ("er", 500), ("der", 200)))}
    assert len([s for s in specs if s.group == "low rate"]) == 12


def test_only_buffer_key_may_have_a_question_mark_and_be_excluded_by(tmp_path, folders):
    specs, _ = without_duplicates(plan(grid(tmp_path, """
        {dataset: seq-digits, model: [er, sgd], buffer_size?: [50, 100], seed: 0,
         exclude: [{buffer_size: 100}]}"""), folders))
    assert [(s.given["model"], s.given.get("buffer_size")) for s in specs] == [("er", 50),
                                                                              ("sgd", None)]


def test_spellings_of_a_run_share_its_lock(folders):
    names = set()
    for model, dataset in (("er_ace", "seq-digits"), ("er-ace", "seq_digits")):
        spec = RunSpec({"model": model, "dataset": dataset, "buffer_size": 9, "seed": 0}, folders)
        check(spec, "test")
        names.add(spec.name)
    assert len(names) == 1


@pytest.mark.parametrize("given", [
    {"model": "er", "dataset": "seq-digits", "buffer_size": 50, "seed": 3},
    {"model": "npcl", "dataset": "perm-digits", "buffer_size": 50, "seed": 0},
    {"model": "sgd", "dataset": "seq-digits", "n_epochs": 2},
])
def test_key_is_the_one_that_main_computes(given, folders):
    from main import parse_args

    first = RunSpec({**given, "seed": 99}, folders)
    check(first, "test")  # fills the cache that runs of other seeds share
    spec = RunSpec(given, folders)
    check(spec, "test")
    theirs = parse_args([*to_words(given), *folders.words(), "--resume", "--non_verbose", "1"])
    assert spec.key == theirs.conf_key
    assert spec.key != first.key and spec.n_tasks == 5


def test_unknown_key_is_told_with_the_nearest(tmp_path, folders):
    message = refused(tmp_path, folders, "{model: er, dataset: seq-digits, bufer_size: 50}")
    assert message == ("grid.yaml: `bufer_size` is no argument of er on seq-digits; did you mean "
                       "`buffer_size`?")
    message = refused(tmp_path, folders, "{model: sgd, dataset: seq-digits, buffer_size: 50}")
    assert message == "grid.yaml: `buffer_size` is no argument of sgd on seq-digits."


@pytest.mark.parametrize("text, words", [
    ("{model: er, dataset: seq-digits}", "--buffer_size is needed"),
    ("{model: err, dataset: seq-digits}", "There is no model `err`: did you mean `er`"),
    ("{dataset: seq-digits}", "gives no `model`"),
    ("{model: icarl, dataset: perm-digits, buffer_size: 9, lr: 1}", "icarl works in"),
    ("{model: er, dataset: seq-digits, buffer_size: many}", "to be a whole number"),
    ("{model: er, dataset: seq-digits, buffer_size: []}", "empty list"),
    ("{model: er, dataset: seq-digits, buffer_size: {a: 1}}", "several grids go under `runs`"),
    ("{model: sgd, dataset: seq-digits, results_path: x}", "give --results_path instead"),
    ("{model: sgd, dataset: seq-digits, resume: x}", "leave it out"),
    ("{model: sgd, dataset: seq-digits, runs: 3}", "a list of mappings"),
    ("{model: sgd, dataset: seq-digits, exclude: [{modle: er}]}", "excludes by `modle`"),
    ("{model: sgd, dataset: seq-digits, seed: [0, 1], exclude: [{seed: 1}, {seed: 2}]}",
     "excludes {seed: 2}, which leaves out none"),
    ("[1, 2]", "to hold a YAML mapping"),
    ("{model: [", "not valid YAML"),
    ("model: er\nseed: ]", "not valid YAML (ParserError in line 2)"),
    ("{runs: []}", "holds no run"),
])
def test_mistakes_are_one_sentence(tmp_path, folders, text, words):
    assert words in refused(tmp_path, folders, text)


def test_only_chooses_blocks_and_runs(tmp_path, folders):
    text = """
        dataset: seq-digits
        runs:
          - {name: replay, model: er, buffer_size: 50, seed: [0, 1]}
          - {name: bounds, model: sgd, seed: [0, 1]}
        """
    path = grid(tmp_path, text)
    assert [s.given["model"] for s in plan(path, folders, only="bound*")] == ["sgd", "sgd"]
    assert [s.given["model"] for s in plan(path, folders, only="*seed 1")] == ["er", "sgd"]
    message = refused(tmp_path, folders, text, only="nothing")
    assert "its blocks are replay, bounds" in message


def test_labels_say_what_differs(folders):
    specs = [RunSpec({"model": m, "dataset": "seq-digits", "lr": 1, "seed": s}, folders)
             for m in ("er", "der") for s in (0, 1)]
    shorten_labels(specs)
    assert [s.label for s in specs] == ["er seed 0", "er seed 1", "der seed 0", "der seed 1"]
    assert label(specs[0].given) == "er seq-digits lr 1 seed 0"
