"""Asking a trained model: answers, images of every kind, abstaining, learning on, saving."""
import json
import sys
import types

import numpy as np
import pytest
import torch
from PIL import Image
from runs import experiment

from asking import load_model
from asking.abstaining import Curve, judge
from asking.images import prepare
from datasets.utils.digits import load_digits
from datasets.utils.image_files import Shape
from engine.errors import UsageError
from engine.model_state import capture
from experiments.commands.ask import main as command
from utils.evaluate import evaluate

SHORT = {"npcl": ("--buffer_size", 60, "--n_global", 4), "er": ("--buffer_size", 60), "sgd": (),
         "slda": (), "icarl": ("--buffer_size", 60)}
GREY, COLOUR = Shape(8, 8, 1), Shape(8, 8, 3)


def trained(folder, model, *more):
    """The experiment and the checkpoint of a method that has learned three tasks of digits."""
    run = experiment(folder, "--model", model, "--dataset", "seq-digits", "--n_epochs", 1,
                     "--lr", 0.1, "--savecheck", "last", "--stop_after", 3, *SHORT[model], *more) \
        if model != "slda" else experiment(folder, "--model", model, "--dataset", "seq-digits",
                                           "--savecheck", "last", "--stop_after", 3)
    run.run()
    return run, next((folder / "checkpoints").glob("*_last.pt"))


@pytest.fixture(scope="module")
def npcl(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("npcl"), "npcl")


@pytest.fixture(scope="module")
def er(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("er"), "er")


def known_digits():
    images, labels = load_digits(False)
    return images[labels < 6], labels[labels < 6].numpy()


def test_answers_are_those_of_the_evaluation(npcl, er):
    images, labels = known_digits()
    for run, path in (npcl, er):
        answer = load_model(path).ask(images)
        accuracies = evaluate(run.model, run.dataset)[0]
        measured = [100 * (answer.label == labels)[labels // 2 == task].mean() for task in range(3)]
        assert measured == pytest.approx(accuracies)
        assert answer.probabilities.shape == (len(images), 6)
        assert answer.probabilities.sum(1) == pytest.approx(np.ones(len(images)))
        assert answer.name == [str(label) for label in answer.label]


def test_np_family_adds_draws_intervals_and_heads(npcl, er):
    images, _ = known_digits()
    answer = load_model(npcl[1]).ask(images)
    low, high = answer.interval.T
    assert (low <= high).all() and (answer.variance >= 0).all()
    assert set(answer.head) <= {0, 1, 2} and answer.task[0].startswith(f"task {answer.head[0] + 1}")
    plain = load_model(er[1]).ask(images)
    assert plain.head is plain.task is plain.interval is plain.variance is None
    assert (plain.novel >= 0).all() and (plain.novel <= 1).all()


def test_where_all_heads_answer_the_draws_are_theirs_together(npcl):
    images, _ = known_digits()
    answer = load_model(npcl[1], head_inference="mixture").ask(images)
    low, high = answer.interval.T
    assert ((low <= answer.probability) & (answer.probability <= high)).mean() > 0.95
    assert answer.head is None and answer.variance is not None


@pytest.mark.parametrize("method", ["npcl", "er"])
def test_one_image_gets_the_same_answer_as_in_a_batch(method, request):
    images, _ = known_digits()
    model = load_model(request.getfixturevalue(method)[1])
    together = model.ask(images)
    for row in (0, 7, 70):
        alone = model.ask(images[row])
        assert alone.probabilities == pytest.approx(together[row].probabilities, abs=1e-6)


def test_asking_changes_nothing(npcl):
    model = load_model(npcl[1])
    model.model.train()
    images, _ = known_digits()
    before, numbers = capture(model.model), torch.get_rng_state()
    answer = model.ask(images)
    answer.sure()
    after = capture(model.model)
    assert torch.equal(torch.get_rng_state(), numbers) and model.model.net.training
    assert all(torch.equal(before["weights"][name], after["weights"][name])
               for name in before["weights"])
    assert str(before["stateful"]) == str(after["stateful"])
    assert not any(p.grad is not None for p in model.model.parameters())
    assert isinstance(answer.probabilities, np.ndarray)


def test_loading_leaves_the_generators_alone_and_reads_no_data(npcl, monkeypatch):
    monkeypatch.setattr("datasets.utils.digits._read_table", lambda: pytest.fail("data was read"))
    monkeypatch.setattr("datasets.utils.digits.load_digits", lambda train: pytest.fail("read"))
    torch.manual_seed(5)
    numbers = torch.get_rng_state()
    load_model(npcl[1])
    assert torch.equal(torch.get_rng_state(), numbers)


@pytest.mark.parametrize("method", ["sgd", "slda", "icarl"])
def test_every_method_that_gives_probabilities_can_be_asked(method, tmp_path):
    images, labels = known_digits()
    model = load_model(trained(tmp_path, method)[1])
    answer = model.ask(images)
    assert np.isfinite(answer.probabilities).all() and answer.head is None
    assert (answer.label == labels).mean() > 0.25
    verdict = answer.sure(0.5)
    assert len(verdict) == len(images)
    assert ("at its word" in str(verdict)) == (method != "icarl")


def test_table_rows_dict_and_parts(npcl):
    images, _ = known_digits()
    answer = load_model(npcl[1]).ask(images)
    lines = str(answer[:3]).splitlines()
    assert lines[0].split()[:3] == ["image", "answer", "probability"] and len(lines) == 5
    assert len({len(line) for line in lines}) == 1
    assert str(answer).endswith(f"... and {len(images) - 20} more")
    rows = answer[[4, 2]].rows()
    assert [row["image"] for row in rows] == ["4", "2"] and len(rows[0]["probabilities"]) == 6
    assert json.loads(json.dumps(answer.to_dict()))["label"] == answer.label.tolist()
    mask = answer.label == 1
    assert set(answer[mask].name) <= {"1"}


def test_data_frame_needs_pandas_and_says_so(er, monkeypatch):
    answer = load_model(er[1]).ask(known_digits()[0][:2])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        answer.to_frame()
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=dict))
    frame = answer.to_frame()
    assert frame["p(0)"] == answer.probabilities[:, 0].tolist() and "head" not in frame


def test_images_of_every_kind_are_the_same_image(tmp_path):
    pixels = load_digits(False)[0][0].numpy()
    Image.fromarray(pixels).save(tmp_path / "a.png")
    Image.fromarray(pixels).convert("RGBA").save(tmp_path / ".hidden.png")
    Image.fromarray(pixels.astype(np.uint16) * 257).save(tmp_path / "deep.png")
    (tmp_path / "notes.txt").write_text("no image")
    kinds = [pixels, pixels[None], pixels[..., None], torch.from_numpy(pixels),
             torch.from_numpy(pixels / 255), pixels.astype(np.int64), Image.fromarray(pixels),
             tmp_path / "a.png", str(tmp_path / "a.png"), tmp_path / "deep.png",
             [tmp_path / "a.png"], [pixels], np.stack([pixels] * 3)]
    for kind in kinds:
        ready = prepare(kind, GREY)
        assert (ready.rows.numpy() == pixels).all() and ready.notes == ()
    folder = prepare(tmp_path, GREY)
    assert [name.rsplit("/", 1)[1] for name in folder.names] == ["a.png", "deep.png"]


def test_images_are_resized_and_converted_and_that_is_said():
    grey = prepare(np.full((30, 20, 3), 200, np.uint8), GREY)
    assert grey.rows.shape == (1, 8, 8)
    assert grey.notes == ("Images were resized from 20x30 to 8x8.",
                          "Colours were turned into grey.")
    colour = prepare([Image.new("L", (8, 8), 7), torch.rand(3, 8, 8)], COLOUR)
    assert colour.rows.shape == (2, 8, 8, 3)
    assert colour.notes == ("Grey images were given three equal channels.",)
    assert prepare(torch.rand(5, 3, 8, 8), COLOUR).rows.shape == (5, 8, 8, 3)
    assert prepare(torch.rand(5, 1, 8, 8), GREY).rows.shape == (5, 8, 8)
    clear = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    assert (prepare(clear, GREY).rows == 255).all()


@pytest.mark.parametrize("images, said", [
    (np.full((8, 8), 3.0), "undo any normalisation"),
    (np.full((8, 8), np.nan), "lie in nan"),
    (np.zeros((2, 2, 2, 2, 2), np.uint8), "but got"),
    (np.zeros((0, 8, 8), np.uint8), "no image"),
    (np.array([["a"]]), "array of numbers"),
    ([], "no image"),
    (3, "but got a int"),
    ("nowhere.png", "There is no file nowhere.png"),
    ("", "an empty one"),
])
def test_what_is_no_image_is_refused(images, said):
    with pytest.raises(UsageError, match=said):
        prepare(images, GREY)


def test_damaged_files_are_refused(tmp_path):
    whole = tmp_path / "whole.png"
    Image.effect_noise((64, 64), 50).save(whole)
    (tmp_path / "cut.png").write_bytes(whole.read_bytes()[:900])
    (tmp_path / "text.png").write_text("hello")
    with pytest.raises(UsageError, match="damaged image"):
        prepare(tmp_path / "cut.png", GREY)
    with pytest.raises(UsageError, match="no image that can be read"):
        prepare(tmp_path / "text.png", GREY)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no images"):
        prepare(tmp_path / "empty", GREY)


def test_threshold_is_the_lowest_that_the_remembered_samples_allow():
    curve = Curve.of(np.array([0.9, 0.8, 0.8, 0.6, 0.5]), np.array([1, 1, 0, 1, 0], bool))
    assert curve.threshold.tolist() == [0.9, 0.8, 0.6, 0.5]
    assert curve.accuracy == pytest.approx([1, 2 / 3, 3 / 4, 3 / 5])
    assert curve.least(0.75) == 0.6 and curve.least(0.76) == 0.9
    verdict = judge(np.array([0.95, 0.7, 0.6, 0.1]), 0.75, curve)
    assert list(verdict) == [True, True, True, False] and np.asarray(verdict).sum() == 3
    assert "3 of 4" in str(verdict) and "80 % have that, and 75 % of these" in str(verdict)
    hopeless = judge(np.array([0.95]), 0.5, Curve.of(np.array([0.9]), np.array([False])))
    assert list(hopeless) == [False] and "0 %" in str(hopeless)


def test_threshold_carries_over_to_new_images(npcl):
    images, labels = known_digits()
    answer = load_model(npcl[1]).ask(images)
    correct = answer.label == labels
    kept = answer.sure(0.9).kept
    assert correct[kept].mean() >= correct.mean()
    with pytest.raises(UsageError, match=r"\[0, 1\]"):
        answer.sure(2)


@pytest.mark.parametrize("method", ["npcl", "er"])
def test_a_model_learns_a_task_of_ones_own_and_survives_saving(method, request, tmp_path):
    model = load_model(request.getfixturevalue(method)[1])
    images, labels = load_digits(True)
    new = (labels == 6) | (labels == 7)
    model.learn(images[new], labels[new], epochs=3)
    assert model.tasks_learned == 4 and model.classes[-2:] == ["6", "7"]
    tested, truth = load_digits(False)
    answer = model.ask(tested[(truth == 6) | (truth == 7)])
    assert set(answer.name) & {"6", "7"} and np.mean([n in "67" for n in answer.name]) > 0.5
    again = load_model(model.save(tmp_path / "mine.pt"))
    assert again.tasks_learned == 4
    assert again.ask(tested).probabilities == pytest.approx(model.ask(tested).probabilities)
    names = ["8"] * 4 + ["9"] * 4
    rows = torch.cat((images[labels == 8][:4], images[labels == 9][:4]))
    again.learn(rows, names)
    with pytest.raises(UsageError, match="All 5 tasks of seq-digits are learned"):
        again.learn(rows, names)


def test_what_cannot_be_learned_is_refused(npcl, tmp_path):
    model = load_model(npcl[1])
    images, _ = known_digits()
    for labels, said in (([6], "a label for each of the 3"), ([6, 7, 8], "one of the labels is 8"),
                         (["6", "x", "7"], "one of the labels is 'x'"),
                         ([6.5, 6, 7], "labels 6 to 7"), ([0, 1, 0], "learns 6, 7")):
        with pytest.raises(UsageError, match=said):
            model.learn(images[:3], labels)
    with pytest.raises(UsageError, match="ends in .pt"):
        model.save(tmp_path / "mine.txt")
    with pytest.raises(UsageError, match="0 to 2"):
        model.ask(images, task=3)


def test_a_known_task_narrows_the_race(npcl):
    answer = load_model(npcl[1]).ask(known_digits()[0][:9], task=1)
    assert set(answer.name) <= {"2", "3"} and set(answer.label) <= {2, 3}
    assert answer.classes == ["2", "3"]


def test_a_known_domain_shows_images_as_its_task_does(tmp_path):
    run = experiment(tmp_path, "--model", "er", "--dataset", "perm-digits", "--buffer_size", 50,
                     "--savecheck", "last", "--stop_after", 2)
    run.run()
    model = load_model(next((tmp_path / "checkpoints").glob("*_last.pt")))
    images, labels = load_digits(False)
    accuracies = [100 * (model.ask(images, task=task).label == labels.numpy()).mean()
                  for task in range(2)]
    assert accuracies == pytest.approx(evaluate(run.model, run.dataset)[0])


def test_permuted_classes_keep_their_names(tmp_path):
    _, path = trained(tmp_path, "er", "--permute_classes", 1)
    model = load_model(path)
    images, labels = load_digits(False)
    known = np.isin(labels.numpy(), [int(name) for name in model.classes])
    answer = model.ask(images[torch.from_numpy(known)])
    right = np.array(answer.name) == labels.numpy()[known].astype(str)
    assert right.mean() > 0.5 and answer.classes != [str(n) for n in range(6)]


def test_untrained_models_cannot_be_asked(tmp_path):
    run = experiment(tmp_path, "--model", "sgd", "--dataset", "seq-digits", "--lr", 0.1)
    from asking.learner import Learner
    with pytest.raises(UsageError, match="learned nothing yet"):
        Learner(run.model, run.dataset, "x.pt")


def test_the_command_prints_a_table_or_json(npcl, tmp_path, capsys):
    path = tmp_path / "digit.png"
    Image.fromarray(load_digits(False)[0][0].numpy()).resize((20, 20)).save(path)
    assert command([str(npcl[1]), str(path), "--at_least", "0.5"]) == 0
    shown = capsys.readouterr().out
    assert "probability" in shown and "Images were resized from 20x20 to 8x8." in shown
    assert "answers are sure enough" in shown
    assert command([str(npcl[1]), str(path), "--json", "--task", "1"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["model"] == "npcl" and said["answers"][0]["name"] in ("0", "1")


@pytest.mark.parametrize("words", [["{ck}", "nowhere.png"], ["{ck}", "{text}"], ["{text}", "{ck}"],
                                   ["nowhere.pt", "x.png"], ["{ck}", "{ck}", "--task", "9"],
                                   ["{ck}", "{ck}", "--device", "toaster"]])
def test_the_command_refuses_in_one_sentence(words, npcl, tmp_path, capsys):
    text = tmp_path / "text.png"
    text.write_text("hello")
    assert command([word.format(ck=npcl[1], text=text) for word in words]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: ") and said.err.count("\n") == 1 and not said.out


def test_models_on_features_are_asked_with_features(tmp_path):
    images, labels = load_digits(True)
    rows = images.flatten(1).numpy() / 255
    np.savez(tmp_path / "f.npz", train_x=rows, train_y=labels, test_x=rows, test_y=labels)
    experiment(tmp_path, "--model", "slda", "--dataset", "features", "--features",
               tmp_path / "f.npz", "--classes_per_task", 5, "--savecheck", "last").run()
    model = load_model(next((tmp_path / "checkpoints").glob("*_last.pt")))
    assert (model.ask(rows).label == labels.numpy()).mean() > 0.9
    assert len(model.ask(torch.from_numpy(rows[0]))) == 1
    for wrong in (rows[:, :5], "digit.png", np.full((1, 64), np.nan)):
        with pytest.raises(UsageError, match="features"):
            model.ask(wrong)


def test_a_model_in_the_middle_of_a_task_is_asked_but_not_taught(tmp_path):
    experiment(tmp_path, "--model", "er", "--dataset", "seq-digits", "--buffer_size", 20, "--lr",
               0.1, "--n_epochs", 2, "--savecheck", "epoch", "--stop_after", 2).run()
    model = load_model(next((tmp_path / "checkpoints").glob("*_1e1.pt")))
    images, labels = load_digits(False)
    assert model.ask(images[:3]).classes == ["0", "1", "2", "3"]
    with pytest.raises(UsageError, match="middle of task 2"):
        model.learn(images[:3], [4, 5, 4])
