"""What an argument takes is declared with it, and everything else is refused in one sentence."""
import argparse

import pytest

from backbone import REGISTRY as BACKBONES
from datasets import REGISTRY as DATASETS
from engine.argument_types import Range, at_least, finite, folder, plain_name, positive_int, share
from engine.errors import UsageError
from engine.parsing import general_parser
from engine.plugins import load_plugins
from main import initialize, parse_args
from models import REGISTRY as MODELS
from utils.args import ArgumentParser

ON = ["--dataset", "seq-digits", "--seed", "0"]
NPCL = ["--model", "npcl", *ON, "--buffer_size", "20"]
SGD = ["--model", "sgd", *ON]
JOINT = ["--model", "joint", *SGD[2:]]


def all_numbers():
    """(who declares it, argument) of everything that takes numbers, anywhere."""
    load_plugins()
    found = [("general", action) for action in general_parser()._actions]
    for name in MODELS.names():
        own = MODELS.entry(name)["class"].get_parser(ArgumentParser(add_help=False))
        found += [(name, action) for action in own._actions]
    return [(who, action) for who, action in found
            if action.type in (int, float) or isinstance(action.type, Range)]


def test_every_number_of_every_method_declares_its_range():
    undeclared = [f"{who} --{action.dest}" for who, action in all_numbers()
                  if not isinstance(action.type, Range) and action.choices is None]
    assert len(all_numbers()) > 100 and undeclared == []


def test_every_number_of_a_constructor_declares_its_range():
    load_plugins()
    for registry in (BACKBONES, DATASETS):
        for name in registry.names():
            for argument, spec in registry.entry(name)["parsable_args"].items():
                assert spec["type"] not in (int, float), f"{name} --{argument}"


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "1e300", "-1e300", "", "x", "1,5",
                                  "9" * 400, "9" * 5000])
def test_no_number_takes_what_is_no_finite_number(word):
    for who, action in all_numbers():
        if isinstance(action.type, Range):
            with pytest.raises(argparse.ArgumentTypeError, match="expected the value to be"):
                action.type(word)
            assert who


@pytest.mark.parametrize("value", [True, None, [1], {"a": 1}, 2.5, float("nan")])
def test_values_of_yaml_files_are_not_bent_into_numbers(value):
    with pytest.raises(argparse.ArgumentTypeError):
        positive_int(value)
    assert positive_int(2.0) == 2 and finite("1e-3") == 0.001


def test_ranges_read_as_sentences():
    assert at_least(1).wish == "to be at least 1"
    assert share.wish == "to lie in [0, 1]"
    assert Range(int, least=0, most=9).wish == "to lie in 0..9"
    assert Range(float, above=0, most=1).wish == "to be above 0 and at most 1"


@pytest.mark.parametrize(("words", "sentence"), [
    ([*SGD, "--lr", "1e300"], "Expected --lr to be a finite number"),
    ([*SGD, "--lr", "1e-46"], "Expected --lr to be 0 or at least 1.2e-38 in size"),
    ([*JOINT, "--stop_after", "2"], "joint trains on all tasks together, after the last one"),
    ([*JOINT, "--start_from", "2"], "joint trains on all tasks together, after the last one"),
    ([*JOINT, "--fitting_mode", "iters", "--n_iters", "2"], "joint trains for --n_epochs"),
    ([*JOINT, "--scheduler_mode", "iter"], "joint trains for --n_epochs"),
    ([*SGD, "--features", "x", "--features_size", "100000"], "--features_size to lie in 1..2048"),
    ([*SGD, "--lr", "nan"], "Expected --lr to be a finite number"),
    ([*SGD, "--lr", "-1e-3"], "Expected --lr to be above 0, but got -1e-3."),
    ([*SGD[:-1], "1" * 25], "Expected --seed to be at most"),
    ([*SGD[:-1], "-1"], "Expected --seed to lie in 0.."),
    ([*SGD, "--optim_wd", "-1"], "Expected --optim_wd to be at least 0, but got -1."),
    ([*SGD, "--optim_nesterov", "1"], "needs a momentum"),
    ([*SGD, "--mlp_hidden_size", "0"], "Expected --mlp_hidden_size to be at least 1"),
    ([*SGD, "--input_size", "-4"], "Expected --input_size to be at least 1"),
    ([*SGD, "--num_classes", "0"], "Expected --num_classes to be at least 1"),
    ([*SGD, "--stop_after", "0"], "Expected --stop_after to be at least 1"),
    ([*SGD, "--start_from", "3", "--stop_after", "1"], "There is no task from --start_from 3"),
    ([*SGD, "--inference_only", "1"], "give --loadcheck CHECKPOINT"),
    ([*SGD, "--inference_only", "1", "--start_from", "2"], "evaluates all tasks that were learned"),
    ([*SGD, "--inference_only", "1", "--stop_after", "2"], "evaluates all tasks that were learned"),
    ([*SGD, "--ckpt_name", "../up"], "Expected --ckpt_name to be a plain name"),
    ([*SGD, "--base_path", ""], "Expected --base_path to be a folder"),
    ([*SGD, "--lr_scheduler", "linear"], "--lr_scheduler to be multisteplr or cosine"),
    (["--model", "gss", *ON, "--buffer_size", "9", "--batch_num", "0"], "--batch_num to lie in 1"),
    (["--model", "gem", *ON, "--buffer_size", "9", "--gamma", "nan"], "--gamma to be a finite"),
    ([*NPCL, "--n_global", "0"], "Expected --n_global to lie in 1..10000, but got 0."),
    ([*NPCL, "--n_global", "100000000"], "Expected --n_global to lie in 1..10000"),
    ([*NPCL, "--n_global_eval", "0"], "Expected --n_global_eval to lie in 1..10000"),
    ([*NPCL, "--n_task", "0"], "Expected --n_task to lie in 1..10000"),
    ([*NPCL, "--latent_size", "-1"], "Expected --latent_size to be at least 1"),
    ([*NPCL, "--context_per_class", "0"], "Expected --context_per_class to be at least 1"),
    ([*NPCL, "--context_share", "-2"], "Expected --context_share to be above 0"),
])
def test_what_lies_outside_of_a_range_is_one_sentence(words, sentence):
    with pytest.raises(UsageError) as caught:
        parse_args(words)
    assert sentence in str(caught.value)


def test_attention_heads_divide_the_latent_size():
    from main import initialize

    with pytest.raises(UsageError, match="--attention_heads to divide --latent_size"):
        initialize(parse_args([*NPCL, "--attention_heads", "3", "--latent_size", "32"]))


@pytest.mark.parametrize(("words", "sentence"), [
    (["--model", "npcl", "--dataset", "seq-cifar10"], "--buffer_size is needed"),
    (["--model", "npcl", "--dataset", "mnist-360"], "npcl works in"),
    (["--model", "npcl", "--dataset", "mnist-360", "--n_global", "0"], "npcl works in"),
    (["--model", "derpp", "--dataset", "seq-cifar10"], "--buffer_size is needed"),
    (["--model", "derpp", "--dataset", "seq-cifar99", "--lr", "x"], "There is no dataset"),
    (["--model", "er", "--dataset", "seq-digits", "--buffer_size", "x", "--bufer", "1"],
     "unrecognized arguments: --bufer"),
])
def test_the_cause_that_decides_the_others_is_named_first(words, sentence):
    with pytest.raises(UsageError, match=sentence):
        parse_args(words)


def test_a_yaml_value_outside_of_its_range_names_the_file(tmp_path, monkeypatch):
    from models.er import Er

    path = tmp_path / "er.yaml"
    monkeypatch.setattr(Er, "CONFIG_PATH", str(path), raising=False)
    for value in ("-1", "true", "[1, 2]", "{a: 1}", ".nan", "word"):
        path.write_text(f"default: {{lr: {value}}}\n")
        with pytest.raises(UsageError, match=r"Expected --lr to be .*er\.yaml"):
            parse_args(["--model", "er", *ON, "--buffer_size", "9"])


def test_names_and_folders():
    assert plain_name("mine_1") == "mine_1" and folder("a/b") == "a/b"
    for wrong in ("a/b", "..", "x" * 101, "a\nb"):
        with pytest.raises(argparse.ArgumentTypeError):
            plain_name(wrong)
    for wrong in ("", " ", "x" * 300):
        with pytest.raises(argparse.ArgumentTypeError):
            folder(wrong)


@pytest.mark.parametrize("model", ["icarl", "rpc", "xder_rpc"])
def test_a_memory_too_small_for_the_last_task_is_refused_before_the_first(model):
    with pytest.raises(UsageError, match="--buffer_size to be at least 10, one sample for each"):
        initialize(parse_args(["--model", model, *ON, "--buffer_size", "5", "--lr", "0.1"]))
    initialize(parse_args(["--model", model, *ON, "--buffer_size", "5", "--lr", "0.1",
                           "--stop_after", "2"]))
