"""Benchmarks of one's own images: what follows from them, and what is refused."""
import os

import numpy as np
import pytest
import torch
from PIL import Image
from runs import experiment

from asking import load_model
from datasets.utils.digits import load_digits
from datasets.utils.own_data import class_tasks
from engine.errors import UsageError
from main import initialize, parse_args

NAMES = ["zero", "one", "two", "three", "four", "five"]


def small_digits(train=True, count=240):
    images, labels = load_digits(train)
    known = labels < len(NAMES)
    return images[known].numpy()[:count], labels[known].numpy()[:count]


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    images, labels = small_digits(count=900)
    return npz(tmp_path_factory.mktemp("arrays") / "digits.npz", train_x=images, train_y=labels,
               class_names=np.array(NAMES))


def folder_of(path, images, labels, size=None):
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        (path / NAMES[label]).mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(image)
        (picture if size is None else picture.resize(size)).save(
            path / NAMES[label] / f"{number}.png")
    return path


def built(*words):
    """The benchmark of a command line."""
    return initialize(parse_args(["--model", "er", "--buffer_size", "20", "--seed", "0",
                                  *map(str, words)]))[1]


def test_npcl_learns_a_small_data_set_without_tuning(arrays, tmp_path):
    run = experiment(tmp_path, "--model", "npcl", "--dataset", "arrays", "--data", arrays,
                     "--buffer_size", 100, "--n_epochs", 5, "--n_global", 8, "--validation", 20)
    assert run.run()["accuracy"]["class-il"] > 60
    assert run.args.latent_size == 32 and run.args.warmup == 20


def test_arrays_become_a_benchmark(arrays):
    dataset = built("--dataset", "arrays", "--data", arrays, "--classes_per_task", 2)
    assert (dataset.N_TASKS, dataset.N_CLASSES_PER_TASK, dataset.N_CLASSES) == (3, 2, 6)
    assert dataset.get_class_names() == NAMES and dataset.SIZE == (8, 8)
    train, test = dataset.get_data_loaders()
    assert set(train.dataset.targets.tolist()) == {0, 1}
    image, _, plain = train.dataset[0]
    assert torch.allclose(image * dataset.STD[0] + dataset.MEAN[0], plain, atol=1e-6)
    held_out, total = len(test.dataset), len(test.dataset) + len(train.dataset)
    assert held_out / total == pytest.approx(0.2, abs=0.01)
    images = np.load(arrays)["train_x"] / 255
    assert dataset.MEAN[0] == pytest.approx(images.mean(), abs=0.01)
    text = dataset.describe()
    assert "[zero, one] [two, three] [four, five]" in text and "8x8 grey" in text


def test_given_test_images_are_the_test_set(tmp_path):
    (x, y), (test_x, test_y) = small_digits(), small_digits(False, 60)
    path = npz(tmp_path / "a.npz", train_x=x, train_y=y, test_x=test_x, test_y=test_y)
    dataset = built("--dataset", "arrays", "--data", path, "--classes_per_task", 3)
    tested = sum(len(dataset.get_data_loaders()[1].dataset) for _ in range(2))
    assert tested == 60 and dataset.get_class_names() == [str(n) for n in range(6)]


@pytest.mark.parametrize("shape", ["hwc", "chw", "float", "names", "sparse"])
def test_arrays_of_every_form_hold_the_same(shape, tmp_path):
    images, labels = small_digits()
    forms = {"hwc": (images[..., None].repeat(3, -1), labels),
             "chw": (images[:, None].repeat(3, 1), labels), "float": (images / 255, labels),
             "names": (images, np.array(list("abcdef"))[labels]), "sparse": (images, labels * 7)}
    x, y = forms[shape]
    dataset = built("--dataset", "arrays", "--data", npz(tmp_path / "a.npz", train_x=x, train_y=y))
    data, numbers = dataset.load_split(True)
    expected = images.shape[1:] if shape in ("float", "names", "sparse") else (8, 8, 3)
    assert data.shape[1:] == expected and data.max() == 255 and set(numbers.tolist()) == {*range(6)}
    if shape == "sparse":
        assert dataset.get_class_names()[1] == "7"


def test_folders_of_classes(tmp_path):
    images, labels = small_digits()
    path = folder_of(tmp_path / "photos", images, labels)
    (path / "zero" / ".hidden.png").write_text("no image")
    (path / "zero" / "notes.txt").write_text("no image")
    (path / ".cache").mkdir()
    outside = folder_of(tmp_path / "outside", images[labels == 5], labels[labels == 5])
    for file in (path / "five").iterdir():
        file.unlink()
    (path / "five").rmdir()
    (path / "five").symlink_to(outside / "five")
    dataset = built("--dataset", "folder", "--data", path)
    assert dataset.get_class_names() == sorted(NAMES)
    data, _ = (torch.cat(parts) for parts in zip(dataset.load_split(True),
                                                  dataset.load_split(False), strict=True))
    assert len(data) == len(images) and int(data.sum()) == int(images.sum())


def test_folders_that_divide_themselves_and_sizes_that_differ(tmp_path):
    images, labels = small_digits(count=60)
    folder_of(tmp_path / "d" / "train", images, labels, size=(30, 20))
    folder_of(tmp_path / "d" / "test", images[:40], labels[:40], size=(12, 12))
    dataset = built("--dataset", "folder", "--data", tmp_path / "d")
    assert dataset.SIZE == (20, 20) and dataset.FACTS["test"] == 40
    assert "from 2 different sizes" in dataset.describe()
    assert built("--dataset", "folder", "--data", tmp_path / "d", "--image_size", 9).SIZE == (9, 9)


def test_folders_of_domains_are_tasks(tmp_path):
    images, labels = small_digits(count=120)
    for name, part in (("bright", images), ("dark", 255 - images)):
        folder_of(tmp_path / "d" / name, part, labels)
    run = experiment(tmp_path, "--model", "npcl", "--dataset", "folder", "--data", tmp_path / "d",
                     "--buffer_size", 50, "--n_global", 4, "--n_epochs", 8)
    dataset = run.dataset
    assert dataset.SETTING == "domain-il" and (dataset.N_TASKS, dataset.N_CLASSES) == (2, 6)
    assert run.run()["accuracy"]["domain-il"] > 50
    means = [loader.dataset.fetch(slice(0, 20))[0].mean() for loader in dataset.test_loaders]
    assert means[1] > means[0] + 0.5
    with pytest.raises(UsageError, match="leave out --classes_per_task"):
        built("--dataset", "folder", "--data", tmp_path / "d", "--classes_per_task", 2)
    with pytest.raises(UsageError, match="joint"):
        built("--dataset", "folder", "--data", tmp_path / "d", "--joint", 1)


def test_tasks_by_number_or_by_file(tmp_path):
    assert class_tasks(NAMES, 4, None) == [NAMES[:4], NAMES[4:]]
    assert [len(task) for task in class_tasks(NAMES, None, None)] == [2, 2, 2]
    assert class_tasks(["a", "b", "c"], None, None) == [["a"], ["b"], ["c"]]
    plan = tmp_path / "tasks.yaml"
    plan.write_text("- [five, one]\n- [zero, two, three, four]\n")
    images, labels = small_digits()
    path = npz(tmp_path / "a.npz", train_x=images, train_y=labels, class_names=np.array(NAMES))
    dataset = built("--dataset", "arrays", "--data", path, "--tasks", plan)
    assert dataset.get_class_names() == ["five", "one", "zero", "two", "three", "four"]
    train, _ = dataset.get_data_loaders()
    five = torch.from_numpy(images[labels == 5].mean(0) / 255)
    shown = torch.stack([train.dataset[i][2][0] for i in range(len(train.dataset))
                         if train.dataset[i][1] == 0]).mean(0)
    assert torch.allclose(shown, five.float(), atol=0.1)
    assert dataset.get_offsets(1) == (2, 6)


@pytest.mark.parametrize("text, said", [
    ("- [zero, ten]", "names the class `ten`"), ("- [zero, zero]", "`zero` twice"),
    ("- [zero]\n- [one]", "puts no task to the class `two`"), ("zero: 1", "list the class names"),
    ("- [zero, one, two, three, four, five]", "single task"), ("- [", "not valid YAML")])
def test_wrong_plans_of_tasks_are_refused(text, said, tmp_path):
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(UsageError, match=said):
        class_tasks(NAMES, None, str(tmp_path / "t.yaml"))


def test_other_wrong_plans_are_refused():
    for names, per_task, file, said in ((NAMES, 2, "x", "leave one"), (NAMES, None, "x", "no file"),
                                        (["a"], None, None, "two classes"),
                                        (NAMES, 6, None, "single task")):
        with pytest.raises(UsageError, match=said):
            class_tasks(names, per_task, file)


@pytest.mark.parametrize("change, said", [
    ({"train_y": np.zeros(3, int)}, "must have shape"),
    ({"train_y": np.zeros(20)}, "whole numbers"),
    ({"train_x": np.zeros((20, 5))}, "--dataset features"),
    ({"train_x": np.full((20, 8, 8), 7.0)}, "undo any normalisation"),
    ({"train_x": np.zeros((20, 8, 8, 2), np.uint8)}, "but got"),
    ({"test_x": np.zeros((2, 8, 8), np.uint8)}, "both of test_x and test_y"),
    ({"test_x": np.zeros((2, 9, 9), np.uint8), "test_y": np.arange(2)}, "different shapes"),
    ({"test_x": np.zeros((1, 8, 8), np.uint8), "test_y": np.zeros(1, int)}, "no images to test"),
    ({"class_names": np.array(["a"])}, "labels must be numbers from 0 to 0"),
    ({"train_y": np.r_[np.zeros(19, int), 1]}, "single image"),
    ({"train_y": np.zeros(20, int)}, "two classes at least"),
    ({"train_y": np.array([None] * 20)}, "Python objects")])
def test_wrong_arrays_are_refused(change, said, tmp_path):
    good = {"train_x": np.zeros((20, 8, 8), np.uint8), "train_y": np.arange(20) % 2}
    with pytest.raises(UsageError, match=said):
        built("--dataset", "arrays", "--data", npz(tmp_path / "a.npz", **good | change),
              "--classes_per_task", 1)


def test_missing_and_damaged_data_are_refused(tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty").mkdir()
    (tmp_path / "flat").mkdir()
    Image.new("L", (8, 8)).save(tmp_path / "flat" / "a.png")
    for words, said in ((["arrays"], "--data is needed"), (["folder"], "--data is needed"),
                        (["arrays", tmp_path / "no.npz"], "no file"),
                        (["arrays", tmp_path / "text.npz"], "no complete .npz"),
                        (["arrays", tmp_path], "no file"),
                        (["folder", tmp_path / "text.npz"], "no folder"),
                        (["folder", tmp_path / "empty"], "holds no images"),
                        (["folder", tmp_path / "flat"], "folder per class")):
        more = ["--data", words[1]] if len(words) > 1 else []
        with pytest.raises(UsageError, match=said):
            built("--dataset", words[0], *more)


def test_what_would_fill_the_memory_or_never_end_is_refused(arrays, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    features = ["--dataset", "features", "--classes_per_task", 2, "--features"]
    for words in ([*features, tmp_path / "pipe"], [*features, "/dev/zero"]):
        with pytest.raises(UsageError, match="it is no regular file"):
            built(*words)
    with pytest.raises(UsageError, match="lower --image_size"):
        built("--dataset", "arrays", "--data", arrays, "--image_size", 100_000)
    monkeypatch.setattr("datasets.utils.npz.machine_memory", lambda: 10_000)
    small = npz(tmp_path / "s.npz", train_x=np.zeros((99, 8, 8), np.uint8), train_y=np.arange(99))
    with pytest.raises(UsageError, match="more than half of this machine's"):
        built("--dataset", "arrays", "--data", small)


def test_wrong_folders_are_refused(tmp_path):
    images, labels = small_digits(count=60)
    path = folder_of(tmp_path / "d", images, labels)
    (path / "empty").mkdir()
    with pytest.raises(UsageError, match="empty holds no images"):
        built("--dataset", "folder", "--data", path)
    (path / "empty").rmdir()
    (path / "zero" / "broken.png").write_text("hello")
    with pytest.raises(UsageError, match=r"broken.png is no image"):
        built("--dataset", "folder", "--data", path)
    (path / "zero" / "broken.png").unlink()
    (path / "train").mkdir()
    Image.new("L", (8, 8)).save(path / "train" / "a.png")
    with pytest.raises(UsageError, match="nothing else beside it"):
        built("--dataset", "folder", "--data", path)


def test_the_content_of_the_data_counts_in_the_key_and_its_place_does_not(tmp_path):
    images, labels = small_digits()

    def key(path):
        return parse_args(["--model", "er", "--buffer_size", "20", "--seed", "0", "--dataset",
                           "arrays", "--data", str(path)]).conf_key

    first = npz(tmp_path / "a.npz", train_x=images, train_y=labels)
    (tmp_path / "b.npz").write_bytes(first.read_bytes())
    assert key(first) == key(tmp_path / "b.npz")
    os.utime(first, (1, 1))
    changed = images.copy()
    changed[0, 0, 0] += 1
    assert key(first) != key(npz(tmp_path / "c.npz", train_x=changed, train_y=labels))
    folder = folder_of(tmp_path / "d", images, labels)
    words = ["--model", "er", "--buffer_size", "20", "--seed", "0", "--dataset", "folder", "--data",
             str(folder)]
    before = parse_args(words).conf_key
    Image.fromarray(changed[0]).save(folder / NAMES[labels[0]] / "0.png")
    assert parse_args(words).conf_key != before


def test_a_trained_model_is_asked_and_taught_without_its_data(tmp_path):
    images, labels = small_digits()
    path = npz(tmp_path / "a.npz", train_x=images, train_y=labels, class_names=np.array(NAMES))
    run = experiment(tmp_path, "--model", "er", "--dataset", "arrays", "--data", path, "--n_epochs",
                     5, "--buffer_size", 50, "--savecheck", "last", "--stop_after", 2)
    run.run()
    saved = next((tmp_path / "checkpoints").glob("*_last.pt"))
    for more in ((), ("--data", path)):
        again = experiment(tmp_path, "--loadcheck", saved, "--inference_only", 1, *more)
        assert again.run()["accuracy"]["class-il"] > 50
    plan = tmp_path / "tasks.yaml"
    plan.write_text("- [one, zero, two]\n- [three, four, five]\n")
    with pytest.raises(UsageError, match="leave out --tasks"):
        experiment(tmp_path, "--loadcheck", saved, "--inference_only", 1, "--tasks", plan)
    other = npz(tmp_path / "b.npz", train_x=255 - images, train_y=labels)
    with pytest.raises(UsageError, match="does not hold the images"):
        experiment(tmp_path, "--loadcheck", saved, "--inference_only", 1, "--data", other).run()
    path.unlink()
    model = load_model(saved)
    answer = model.ask(images[:30])
    assert model.classes == NAMES[:4] and set(answer.name) <= set(NAMES)
    new = labels >= 4
    model.learn(images[new], [NAMES[label] for label in labels[new]])
    assert model.classes == NAMES


def test_methods_take_the_settings_of_the_benchmark_that_the_data_are_like(arrays):
    args = parse_args(["--model", "derpp", "--dataset", "arrays", "--data", str(arrays),
                       "--buffer_size", "50"])
    assert args.alpha == 1.0
    assert args.conf_sources["alpha"] == "as seq-digits: ours, validation split"
    assert args.conf_sources["n_epochs"] == "arrays"
    large = parse_args(["--model", "npcl", "--dataset", "arrays", "--data", str(arrays),
                        "--buffer_size", "50", "--backbone", "reduced-resnet18"])
    assert large.latent_size == 256 and large.warmup == 20, "seq-digits says 20"
    wide = parse_args(["--model", "npcl", "--dataset", "seq-cifar10", "--buffer_size", "200",
                       "--backbone", "reduced-resnet18"])
    assert wide.warmup == 100 and wide.latent_size == 256


def test_larger_images_get_a_convolutional_network_and_moving_crops(tmp_path):
    images = np.random.default_rng(0).integers(0, 255, (24, 40, 40, 3), dtype=np.uint8)
    path = npz(tmp_path / "a.npz", train_x=images, train_y=np.arange(24) % 4)
    dataset = built("--dataset", "arrays", "--data", path)
    assert dataset.args.backbone == "reduced-resnet18"
    train, _ = dataset.get_data_loaders()
    assert train.dataset[0][0].shape == (3, 40, 40)
    assert "RandomCrop" in str(dataset.TRANSFORM) and "Flip" not in str(dataset.TRANSFORM)
    flipped = built("--dataset", "arrays", "--data", path, "--augment", "flip")
    assert "Flip" in str(flipped.TRANSFORM)


def test_help_needs_no_data(capsys):
    with pytest.raises(SystemExit):
        parse_args(["--model", "er", "--dataset", "folder", "--help"])
    assert "--classes_per_task" in capsys.readouterr().out
