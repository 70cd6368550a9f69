"""What makes two runs the same run, or seeds of one experiment."""
from argparse import Namespace

import pytest
import torch

from engine import identity, plugins
from engine.identity import (
    TABLE,
    Role,
    canonical,
    differences,
    experiment_settings,
    names_of,
    role,
    run_key,
    same_experiment,
)
from engine.parsing import general_parser
from main import parse_args

ER = ["--model", "er", "--dataset", "seq-digits", "--buffer_size", "20", "--seed", "1"]


def test_every_listed_argument_exists_and_has_a_reason():
    known = set(general_parser().actions_by_dest()) | {"minibatch_size", "features_weights",
                                                      "data", "tasks", "step_graphs", "kernels"}
    derived = {"conf_*", "class_order", "data_seed", "threads"}
    assert set(TABLE) - known <= derived
    assert all(entry.reason for entry in TABLE.values())


def test_what_does_not_count_leaves_the_key_alone(tmp_path):
    base = parse_args(ER).conf_key
    for more in (["--notes", "x"], ["--base_path", str(tmp_path)], ["--savecheck", "task"],
                 ["--device", "cpu"], ["--num_workers", "2"], ["--resume"], ["--lr", "0.2"],
                 ["--disable_noisy_labels_cache", "1"], ["--uncertainty", "0"]):
        assert parse_args([*ER, *more]).conf_key == base, more
    for more in (["--lr", "0.1"], ["--eval_epochs", "1"], ["--enable_other_metrics", "1"],
                 ["--uncertainty", "1"], ["--stop_after", "2"], ["--permute_classes", "1"],
                 ["--debug_mode", "1"]):
        assert parse_args([*ER, *more]).conf_key != base, more


def test_loaded_weights_count_by_their_content_and_not_by_their_path(tmp_path):
    for name, weight in (("a", 1.0), ("copy", 1.0), ("b", 2.0)):
        torch.save({"model": {"w": torch.tensor(weight)}}, tmp_path / f"{name}.pt")
    (tmp_path / "copy.pt").write_bytes((tmp_path / "a.pt").read_bytes())
    fresh = parse_args(ER).conf_key
    a, copied, b = (parse_args([*ER, "--loadcheck", str(tmp_path / f"{name}.pt")]).conf_key
                    for name in ("a", "copy", "b"))
    assert a == copied and len({fresh, a, b}) == 3


@pytest.mark.parametrize(("one", "other"), [
    (0, False), (0, 0.0), (1, True), (1, 1.0), ((1, 2), [1, 2.0]), (torch.tensor([1, 2]), [1, 2]),
    ({"a": 1}, {"a": 1.0})])
def test_representation_does_not_count(one, other):
    assert canonical(one) == canonical(other)
    assert run_key(Namespace(x=one)) == run_key(Namespace(x=other))


@pytest.mark.parametrize(("one", "other"), [
    (0.1, 0.2), (0.28, 0.29), ("1", 1), ("a_b", "a-b"), (float("nan"), float("inf")), ([1], [2]),
    (0.1, 0.1000000001)])
def test_another_value_is_another_key(one, other):
    assert run_key(Namespace(x=one)) != run_key(Namespace(x=other))


def test_an_argument_without_a_value_and_the_order_say_nothing():
    assert run_key({"a": 1, "b": None, "c": 2}) == run_key({"c": 2, "a": 1})
    assert run_key({"model": "er_ace"}) == run_key({"model": "er-ace"})


def test_seeds_of_one_experiment_share_everything_but_the_seed():
    one = parse_args([*ER, "--notes", "first"])
    other = parse_args([*ER[:-1], "7", "--eval_epochs", "1", "--uncertainty", "1"])
    assert same_experiment(one, other) and one.conf_key != other.conf_key
    assert set(differences(one, other)) == {"seed", "eval_epochs", "uncertainty"}
    settings = experiment_settings(one)
    assert settings["lr"] == 0.2 and settings["model"] == "er"
    assert not set(settings) & {"seed", "base_path", "notes", "conf_jobnum", "uncertainty"}


def test_differences_name_both_values():
    one, other = {"model": "er", "lr": 0.1, "notes": "a"}, {"model": "derpp", "lr": 0.1}
    assert differences(one, other) == {"model": ("er", "derpp")}
    assert differences({"buffer_size": 200}, {}) == {"buffer_size": (200, None)}


def test_a_plugins_arguments_are_observations_as_soon_as_it_is_loaded(monkeypatch):
    def add_arguments(parser):
        parser.add_argument("--toy", type=int, default=0)

    assert role("toy") is Role.SETTING
    monkeypatch.setitem(plugins._loaded, "toy",
                        type("Toy", (), {"add_arguments": staticmethod(add_arguments)}))
    assert role("toy") is Role.OBSERVATION and "toy" in names_of(Role.OBSERVATION)
    assert run_key({"toy": 0}) == run_key({}) != run_key({"toy": 3})


def test_the_scripts_lists_are_questions_to_the_table():
    reserved = names_of(Role.PLACE, Role.PROCESS)
    assert {"resume", "non_verbose", "disable_log", "loadcheck", "base_path", "results_path",
            "checkpoint_path"} <= reserved
    assert "savecheck" not in reserved and "device" not in reserved
    assert identity.role("conf_anything") is Role.PROCESS


@pytest.mark.parametrize("more", [
    "--validation 0", "--lr_scheduler none", "--start_from 0", "--stop_after 5",
    "--label_perc 1.0", "--model er --dataset seq_digits", "--backbone mnistmlp --lr 1e-1"])
def test_what_changes_nothing_does_not_change_the_key(more):
    plain = "--model er --dataset seq-digits --buffer_size 20 --lr 0.1 --seed 1"
    words = {**dict(pair.split() for pair in plain[2:].split(" --")),
             **dict(pair.split() for pair in more[2:].split(" --"))}
    said = [word for name, value in words.items() for word in (f"--{name}", value)]
    assert parse_args(said).conf_key == parse_args(plain.split()).conf_key
