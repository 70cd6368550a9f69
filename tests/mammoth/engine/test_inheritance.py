"""A checkpoint brings its settings; a command that contradicts it is refused, by name."""
import pytest
import torch
from runs import experiment

from engine.errors import UsageError
from main import parse_args, run
from models.er import Er
from utils.notebooks import load_runner

PERM = ("--model", "er", "--dataset", "perm-digits", "--buffer_size", 30, "--n_epochs", 1,
        "--lr", "0.2", "--stop_after", 2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(experiment, its result, its last checkpoint)"""
    folder = tmp_path_factory.mktemp("trained")
    done = experiment(folder, *PERM, "--seed", 3, "--savecheck", "last")
    result = done.run()
    return done, result, next((folder / "checkpoints").glob("*.pt"))


def parsed(folder, *words):
    return parse_args([*map(str, words), "--base_path", str(folder), "--checkpoint_path",
                       str(folder / "c"), "--non_verbose", "1"])


def test_inference_is_on_the_data_and_with_the_settings_of_the_checkpoint(trained, tmp_path):
    _, result, path = trained
    args = parsed(tmp_path, "--loadcheck", path, "--inference_only", 1)
    assert (args.seed, args.lr, args.buffer_size) == (3, 0.2, 30)
    assert run(args)["accuracy"] == result["accuracy"]
    assert args.conf_key != trained[0].key, "another run than the one that trained"


def test_width_of_the_network_is_the_checkpoints(tmp_path):
    words = ("--model", "sgd", "--dataset", "seq-digits", "--lr", 0.1, "--debug_mode", 1,
             "--mlp_hidden_size", 7, "--savecheck", "last")
    experiment(tmp_path, *words).run()
    args = parsed(tmp_path, "--loadcheck", next((tmp_path / "checkpoints").glob("*.pt")),
                  "--inference_only", 1)
    assert args.mlp_hidden_size == 7
    run(args)


@pytest.mark.parametrize(("words", "said"), [
    (("--model", "derpp"), ["--model is er there and derpp here"]),
    (("--dataset", "rot-digits"), ["--dataset is perm-digits there and rot-digits here"]),
    (("--lr", "0.3"), ["--lr is 0.2 there and 0.3 here"]),
    (("--seed", 4, "--buffer_size", 31), ["--seed is 3 there and 4 here",
                                          "--buffer_size is 30 there and 31 here"]),
    (("--stop_after", 3), ["--stop_after is 2 there and 3 here"]),
    (("--custom_task_order", "1,0,2,3,4"), ["--custom_task_order is not set there"]),
    (("--eval_epochs", 1), ["--eval_epochs is not set there and 1 here"]),
    (("--loadcheck", "other.pt"), ["leave out --loadcheck"])])
def test_resume_of_another_run_names_every_difference(trained, tmp_path, words, said):
    with pytest.raises(UsageError) as caught:
        parsed(tmp_path, "--resume", trained[2], *words)
    assert all(part in str(caught.value) for part in said), caught.value


def test_resume_of_a_file_takes_over_everything_that_counts(trained, tmp_path):
    args = parsed(tmp_path, "--resume", trained[2], "--notes", "mine")
    assert args.conf_key == trained[0].key and args.notes == "mine"
    assert args.seed == 3 and args.stop_after == 2
    assert str(args.base_path) == str(tmp_path), "places are this process's own"


def test_evaluation_may_change_only_how_the_model_answers(trained, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="--lr is 0.2 there and 0.7 here"):
        parsed(tmp_path, "--loadcheck", trained[2], "--inference_only", 1, "--lr", "0.7")
    monkeypatch.setattr(Er, "INFERENCE_ARGUMENTS", ("lr",), raising=False)
    assert parsed(tmp_path, "--loadcheck", trained[2], "--inference_only", 1,
                  "--lr", "0.7").lr == 0.7
    parsed(tmp_path, "--loadcheck", trained[2], "--inference_only", 1, "--uncertainty", 1)


def test_further_training_may_be_steered_but_keeps_network_and_data(trained, tmp_path):
    args = parsed(tmp_path, "--loadcheck", trained[2], "--lr", "0.01", "--n_epochs", 3)
    assert (args.lr, args.n_epochs, args.seed, args.stop_after) == (0.01, 3, 3, None)
    for words in (("--seed", 4), ("--backbone", "resnet18"), ("--permute_classes", 1),
                  ("--model", "sgd"), ("--buffer_size", 9)):
        with pytest.raises(UsageError, match=f"{words[0]} is"):
            parsed(tmp_path, "--loadcheck", trained[2], *words)


def test_load_runner_gives_the_trained_model_with_its_buffer(trained):
    done, _, path = trained
    model, dataset = load_runner("er", "perm-digits", {"loadcheck": str(path)})
    assert model.current_task == 2 and model.args.seed == 3
    assert len(model.buffer) == 30
    assert torch.equal(model.buffer.examples, done.model.buffer.examples)
    images = torch.rand(4, *done.model.buffer.examples.shape[1:])
    model.eval(), done.model.eval()
    assert torch.equal(model(images), done.model(images))


def test_training_goes_on_from_a_loaded_runner_as_from_the_command_line(trained, tmp_path):
    path = trained[2]
    words = {"loadcheck": str(path), "base_path": str(tmp_path), "stop_after": 3, "non_verbose": 1}
    from utils.training import train
    first = train(*load_runner("er", "perm-digits", words))
    second = experiment(tmp_path, "--loadcheck", path, "--start_from", 2, "--stop_after", 3,
                        "--seed", 3).run()
    assert first["accuracy_matrix"] == second["accuracy_matrix"]
    assert len(first["accuracy_matrix"]["domain-il"]) == 3


def test_files_of_upstream_load_and_say_what_they_lack(trained, tmp_path, capsys):
    done, result, path = trained
    state = torch.load(path, weights_only=True)
    older = {"model": state["model"], "buffer": state["buffer"], "results": state["results"],
             "args": {"model": "er", "dataset": "perm_digits", "seed": 3, "lr": 0.2}}
    torch.save(older, tmp_path / "older.pt")
    words = ("--loadcheck", tmp_path / "older.pt", "--inference_only", 1, "--buffer_size", 30)
    args = parsed(tmp_path, *words)
    said = capsys.readouterr().err
    assert "does not say what it was made with in: " in said and "backbone" in said
    assert "lr" not in said.split(": ", 1)[1].split(". The values")[0].split(", ")
    assert run(args)["accuracy"] == result["accuracy"]
    model, _ = load_runner("er", "perm-digits", {"loadcheck": str(tmp_path / "older.pt"),
                                                 "buffer_size": 30})
    assert model.current_task == 2 and model.n_seen_classes == 10 and len(model.buffer) == 30
    with pytest.raises(UsageError, match="weights only; use --loadcheck"):
        parsed(tmp_path, "--resume", tmp_path / "older.pt")


@pytest.mark.parametrize("model", ["er", "npcl"])
def test_further_training_begins_after_the_tasks_that_were_learned(model, tmp_path):
    words = ("--model", model, "--dataset", "seq-digits", "--buffer_size", 20, "--debug_mode", 1)
    experiment(tmp_path, *words, "--stop_after", 2, "--savecheck", "last").run()
    path = next((tmp_path / "checkpoints").glob("*.pt"))
    more = ("--loadcheck", path, "--debug_mode", 1)
    further = experiment(tmp_path, *more, "--stop_after", 3)
    assert len(further.run()["accuracy_matrix"]["class-il"]) == 3
    assert further.model.current_task == 3
    for wrong, said in ((("--stop_after", 2), "none is left to train"),
                        (("--start_from", 1), "goes on with the next"),
                        (("--start_from", 4), "goes on with the next")):
        with pytest.raises(UsageError, match=said):
            experiment(tmp_path, *more, *wrong).run()
    anew = experiment(tmp_path, *more, "--start_from", 0, "--stop_after", 1)
    assert anew.model.buffer.is_empty()
    assert len(anew.run()["accuracy_matrix"]["class-il"]) == 1
    assert (anew.model.buffer.labels < 2).all(), "nothing of later tasks is replayed"
    loaded, _ = load_runner(model, "seq-digits", {"loadcheck": str(path)})
    assert loaded.current_task == 2 and len(loaded.buffer) == 20
