"""Settings are resolved in one place: layers, `extends`, switches, and the key that follows."""
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from engine.config import read_yaml
from engine.errors import UsageError
from engine.plugins import load_plugins
from engine.settings import Layer, Query, SettingsError, file_layers, fold
from main import parse_args

NPCL = ["--model", "npcl", "--dataset", "seq-digits", "--buffer_size", "200", "--seed", "1"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the family's settings files that the models read instead of their own."""
    load_plugins()
    from models import get_model_class

    # All of them first: a class that is imported later would take its path from a changed one.
    family = [get_model_class(name) for name in
              ("npcl", "npcl_plus", "anp", "np", "cnp", "st_npcl")]
    for kind in family:
        shutil.copy(kind.CONFIG_PATH, tmp_path)
        monkeypatch.setattr(kind, "CONFIG_PATH", tmp_path / Path(kind.CONFIG_PATH).name)
    return tmp_path


def change(path, section, **values):
    content = yaml.safe_load(path.read_text())
    content.setdefault(section, {}).update(values)
    path.write_text(yaml.safe_dump(content))


def write(folder, **files):
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return folder


def resolve(path, **query):
    asked = Query(**{"method": "m", "benchmark": "seq-x", "setting": "class-il", **query})
    return {name: value for name, (value, _) in fold(file_layers(path, asked, read_yaml),
                                                     {}).items()}


def test_settings_of_a_name_stand_over_the_rest_of_their_file(tmp_path):
    write(tmp_path, m={"default": {"a": 1, "b": 1, "c": 1}, "seq-x": {"b": 2, 100: {"c": 2}},
                       "config other": {"b": 3, "c": 3}},
          child={"extends": "m", "default": {"c": 4}, "config own": {"a": 5}})
    path, child = tmp_path / "m.yaml", tmp_path / "child.yaml"
    assert resolve(path, buffer_size=100) == {"a": 1, "b": 2, "c": 2}
    assert resolve(path, buffer_size=100, which="other") == {"a": 1, "b": 3, "c": 3}
    assert resolve(child, which="other") == {"a": 1, "b": 3, "c": 4}
    assert resolve(child, which="own") == {"a": 5, "b": 2, "c": 4}
    with pytest.raises(SettingsError, match="takes default, base, best, other, own"):
        resolve(child, which="none")
    with pytest.raises(SettingsError, match="called `other`; --model_config takes default, base"):
        file_layers(None, Query("m", "seq-x", "class-il", which="other"), read_yaml)


def test_each_layer_wins_over_the_one_before(tmp_path):
    write(tmp_path, m={
        "default": {"a": 1, "b": 1, "c": 1, "d": 1}, "class-il": {"b": 2, "c": 2, "d": 2},
        "seq-x": {"c": 3, "d": 3, 100: {"d": 4}, 1000: {"d": 5}}})
    path = tmp_path / "m.yaml"
    assert resolve(path, buffer_size=150) == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert resolve(path, buffer_size=1000)["d"] == 5
    assert resolve(path) == {"a": 1, "b": 2, "c": 3, "d": 3}
    assert resolve(path, setting="domain-il") == {"a": 1, "b": 1, "c": 3, "d": 3}
    assert resolve(path, benchmark="other") == {"a": 1, "b": 2, "c": 2, "d": 2}
    assert resolve(path, which="base", buffer_size=100) == {"a": 1, "b": 2, "c": 2, "d": 2}


def test_a_file_that_extends_another_holds_only_what_differs(tmp_path):
    write(tmp_path, m={"default": {"a": 1}, "seq-x": {"b": 2, "c": 2, 100: {"d": 3}}},
          child={"extends": "m", "default": {"b": 0}, "seq-x": {"d": 9}},
          grandchild={"extends": "child", "class-il": {"a": 7}})
    assert resolve(tmp_path / "child.yaml", buffer_size=100) == {"a": 1, "b": 0, "c": 2, "d": 9}
    assert resolve(tmp_path / "grandchild.yaml", buffer_size=100) == \
        {"a": 7, "b": 0, "c": 2, "d": 9}


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)), max_size=5))
def test_fold_takes_the_last_word_and_its_source(values):
    layers = [Layer(str(i), dict(found)) for i, found in enumerate(values)]
    for name, (value, source) in fold(layers, {}).items():
        last = max(i for i, found in enumerate(values) if name in found)
        assert (value, source) == (values[last][name], str(last))


@pytest.mark.parametrize(("typed", "expected"), [
    ({}, 10), ({"on": 0}, 10), ({"on": 0.5}, 1), ({"on": True, "also": 1}, 2)])
def test_a_switched_layer_applies_where_its_argument_is_on(typed, expected):
    layers = [Layer("plain", {"cap": 10, "on": 0}), Layer("on", {"cap": 1}, "on"),
              Layer("also", {"cap": 2}, "also")]
    assert fold(layers, typed)["cap"][0] == expected


@pytest.mark.parametrize(("content", "sentence"), [
    ({"extends": "nobody"}, "extends `nobody`, which has no settings file"),
    ({"extends": ["m"]}, "Expected `extends` in .* to name a method"),
    ({"extends": "m"}, "extends it in turn"),
    ({"default": [1, 2]}, "Expected the section `default` of .* to map arguments to values"),
    ({"seq-x": {"with b": 3}}, "Expected `with b` in the settings"),
    ({"seq-x": {2.5: 3}}, "Expected the names of arguments in the settings"),
    ({"seq-x": {100: 3}}, "Expected the section `seq-x, 100` of"),
])
def test_files_that_make_no_sense_are_refused_in_one_sentence(tmp_path, content, sentence):
    write(tmp_path, m=content)
    with pytest.raises(SettingsError, match=sentence) as caught:
        resolve(tmp_path / "m.yaml", buffer_size=100)
    assert "\n" not in str(caught.value)


def test_a_section_for_no_benchmark_is_a_mistake(folder):
    change(folder / "npcl.yaml", "seq-digit", lr=0.1)
    with pytest.raises(UsageError, match="settings for `seq-digit`.*did you mean `seq-digits`"):
        parse_args(NPCL)


def test_a_changed_yaml_value_is_another_run_for_the_neural_processes_too(folder):
    before = parse_args(NPCL)
    change(folder / "npcl.yaml", "class-il", gamma=0.3)
    after = parse_args(NPCL)
    assert (before.gamma, after.gamma) == (0.2, 0.3) and before.conf_key != after.conf_key
    typed = parse_args([*NPCL, "--gamma", "0.2"])
    assert typed.conf_key == before.conf_key  # the same experiment, however it was asked for


def test_a_changed_variant_is_another_run(tmp_path, monkeypatch):
    from engine import config

    words = ["--model", "er", "--dataset", "perm-mnist", "--buffer_size", "200", "--seed", "1",
             "--dataset_config", "some"]
    monkeypatch.setattr(config, "ROOT", tmp_path)
    variants = tmp_path / "datasets" / "configs" / "perm-mnist"
    variants.mkdir(parents=True)
    keys = []
    for tasks in (3, 4):
        (variants / "some.yaml").write_text(f"N_TASKS: {tasks}\nlr: 0.1\nbatch_size: 7\n")
        args = parse_args(words)
        assert args.batch_size == 7
        keys.append(args.conf_key)
    assert keys[0] != keys[1]
    (variants / "some.yaml").write_text("N_TASK: 3\n")
    with pytest.raises(UsageError, match="`N_TASK`, which is no argument of perm-mnist"):
        parse_args(words)


def test_a_variant_wins_over_the_settings_of_the_benchmark():
    args = parse_args(["--model", "er", "--dataset", "seq-cifar10", "--buffer_size", "200",
                       "--dataset_config", "online"])
    assert (args.batch_size, args.n_epochs) == (10, 1)
    assert args.conf_sources["n_epochs"] == "variant online"


@pytest.mark.parametrize(("model", "expected"), [
    ("npcl", (0.05, 0.01, 0.2, 0.1)), ("st_npcl", (0.05, 0, 0, 0.1)), ("anp", (0, 0.01, 0, 0)),
    ("np", (0, 0.01, 0, 0)), ("cnp", (0, 0, 0, 0)), ("npcl_plus", (0, 0.01, 0, 0))])
def test_the_family_differs_in_what_its_files_say(model, expected):
    args = parse_args(["--model", model, "--dataset", "seq-cifar10", "--buffer_size", "200"])
    assert (args.alpha, args.beta, args.gamma, args.delta) == expected
    assert args.latent_size == 256 and args.lr == (0.05 if model == "npcl_plus" else 0.1)


@pytest.mark.parametrize(("words", "cap"), [
    ([], 10000), (["--dark_replay", "1"], 0.5), (["--task_marginal", "1"], 2),
    (["--dark_replay", "1", "--grad_cap", "7"], 7), (["--dark_replay", "0"], 10000)])
def test_extensions_lower_the_cap_where_they_are_on(words, cap):
    args = parse_args(["--model", "npcl", "--dataset", "perm-mnist", "--buffer_size", "9", *words])
    assert args.grad_cap == cap


def test_an_argument_that_no_file_gives_a_value_is_one_sentence(folder):
    content = yaml.safe_load((folder / "npcl.yaml").read_text())
    del content["default"]["divergence"]
    (folder / "npcl.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(UsageError, match="--divergence is needed.*npcl.yaml"):
        parse_args(NPCL)


@pytest.mark.parametrize(("name", "value", "sentence"), [
    ("gamma", "much", "--gamma"), ("divergence", "product", "one of sum"),
    ("latent_size", [1], "a single value"), ("gama", 1, "`gama`, which is no argument")])
def test_a_value_that_could_not_be_typed_is_refused(folder, name, value, sentence):
    change(folder / "npcl.yaml", "seq-digits", **{name: value})
    with pytest.raises(UsageError, match=sentence) as caught:
        parse_args(NPCL)
    assert "\n" not in str(caught.value)


def test_help_shows_the_defaults_of_this_pair(capsys):
    with pytest.raises(SystemExit):
        parse_args(["--model", "npcl", "--dataset", "perm-mnist", "--buffer_size", "9", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for shown in ("(paper: γ); 0 ablates it (default: 0.1)", "(default: mean)", "(default: 0.2)"):
        assert shown in text
    assert "towards uniform (default: 0" in text


def test_minibatch_size_means_the_same_in_the_family():
    for flag in ("--minibatch_size", "--replay_size"):
        assert parse_args([*NPCL, flag, "8"]).minibatch_size == 8
    assert parse_args(NPCL).minibatch_size == 32
    with pytest.raises(UsageError, match="given twice"):
        parse_args([*NPCL, "--minibatch_size", "8", "--replay_size", "9"])


def test_the_result_keeps_every_resolved_value(tmp_path):
    from runs import experiment

    result = experiment(tmp_path, "--model", "anp", "--dataset", "seq-digits", "--buffer_size", 20,
                        "--debug_mode", 1, "--n_global", 2).run()
    kept = result["args"]
    assert (kept["gamma"], kept["beta"], kept["latent_size"], kept["lr"]) == (0, 0.01, 32, 0.2)
    assert kept["minibatch_size"] == 32 and "conf_key" not in kept
