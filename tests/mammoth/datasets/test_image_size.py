"""Colour benchmarks with smaller images: averaged once, cropped by less, part of a run's name."""
import pickle
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from runs import experiment

import main
from asking import load_model
from datasets.utils import cifar
from datasets.utils.images import average_pooled
from datasets.utils.pipelines import augmented, for_smaller_images
from engine.errors import UsageError
from npcl_plugin.uncertainty.novel_data import novel_for

SMALL = ("--model", "er", "--dataset", "seq-cifar10-small", "--buffer_size", 10, "--batch_size", 10,
         "--n_epochs", 1, "--num_filters", 4)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder with 100 + 50 images in CIFAR-10's files, and 30 of CIFAR-100's."""
    monkeypatch.setattr(cifar, "_COUNTS", {True: 100, False: 50})
    rng = np.random.default_rng(0)
    ten, hundred = tmp_path / "data/cifar-10-batches-py", tmp_path / "data/cifar-100-python"
    for folder in (ten, hundred):
        folder.mkdir(parents=True)
    for name, count in (*((f"data_batch_{i}", 20) for i in range(1, 6)), ("test_batch", 50)):
        content = {"data": rng.integers(0, 256, (count, 3072), dtype=np.uint8),
                   "labels": [i % 10 for i in range(count)]}
        (ten / name).write_bytes(pickle.dumps(content))
    content = {"data": rng.integers(0, 256, (50, 3072), dtype=np.uint8),
               "fine_labels": [i % 20 for i in range(50)]}
    (hundred / "test").write_bytes(pickle.dumps(content))
    return tmp_path / "data"


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
def test_pooling_is_the_rounded_average(factor, height, width, seed):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (2, height * factor, width * factor, 3), dtype=np.uint8)
    pooled = average_pooled(torch.from_numpy(images), factor)
    assert pooled.shape == (2, height, width, 3) and pooled.dtype == torch.uint8
    for n in range(2):
        for row in range(height):
            for column in range(width):
                block = images[n, row * factor:(row + 1) * factor,
                               column * factor:(column + 1) * factor]
                mean = block.reshape(-1, 3).mean(0)
                assert np.array_equal(pooled[n, row, column], np.floor(mean + 0.5))


def test_crop_and_padding_shrink_with_the_images():
    half = for_smaller_images(augmented(32, (0.5,) * 3, (0.2,) * 3), 2)
    assert half.transforms[0].size == (16, 16) and half.transforms[0].padding == 2
    assert [type(step).__name__ for step in half.transforms] == [
        "RandomCrop", "RandomHorizontalFlip", "ToTensor", "Normalize"]


def test_benchmark_shows_pooled_images(data, tmp_path):
    dataset = experiment(tmp_path, *SMALL).dataset
    train, test = dataset.get_data_loaders()
    full, labels = cifar.load_cifar(cifar.CIFAR10, True)
    augmented_images, _, images = next(iter(train))
    assert images.shape == augmented_images.shape == (10, 3, 16, 16)
    expected = average_pooled(full[labels < 2], 2)
    assert torch.equal(train.dataset.data, expected)
    assert test.dataset.data.shape[1:] == (16, 16, 3)
    pooled = dataset.load_split(True)[0]
    assert pooled.data_ptr() == dataset.load_split(True)[0].data_ptr(), "computed once"


def test_size_is_part_of_a_run_and_full_size_is_no_size():
    def key(dataset, *words):
        return main.parse_args(["--model", "er", "--dataset", dataset, "--buffer_size", "200",
                                "--seed", "0", *words]).conf_key

    plain = key("seq-cifar10")
    assert key("seq-cifar10", "--image_size", "32") == plain
    assert key("seq-cifar10", "--image_size", "16") != plain
    small = key("seq-cifar10-small")
    assert key("seq-cifar10-small", "--image_size", "16") == small
    assert key("seq-cifar10-small", "--image_size", "32") != small


def test_every_colour_benchmark_takes_a_size(tmp_path):
    for name, size in (("seq-cifar100", 8), ("seq-tinyimg", 32), ("seq-cifar10-small", 32)):
        dataset = experiment(tmp_path, "--model", "sgd", "--dataset", name, "--lr", 0.1,
                             "--image_size", size, "--backbone", "mnistmlp").dataset
        assert (size, size) == dataset.SIZE and dataset.args.input_size == 3 * size**2


@pytest.mark.parametrize("size, sentence", [
    ("15", r"--image_size to divide the 32 pixels of seq-cifar10 \(32, 16, 8, 4\), but got 15"),
    ("64", "but got 64"), ("0", "at least 1"), ("many", "whole number")])
def test_sizes_that_make_no_sense_are_refused(tmp_path, capsys, size, sentence):
    words = ("--model", "sgd", "--dataset", "seq-cifar10", "--lr", 0.1, "--image_size", size)
    with pytest.raises((UsageError, SystemExit)) as caught:
        experiment(tmp_path, *words)
    said = str(caught.value) + capsys.readouterr().err
    assert re.search(sentence, said)


def test_novel_images_become_as_small(data, tmp_path):
    dataset = experiment(tmp_path, *SMALL).dataset
    dataset.get_data_loaders()
    novel = novel_for("auto", dataset)
    full, labels = cifar.load_cifar(cifar.CIFAR100, False)
    assert novel.name == "cifar100"
    assert torch.equal(novel.data.data, average_pooled(full[labels < 10], 2))
    inverted = novel_for("inverted", dataset)
    assert torch.equal(inverted.data.data, 255 - dataset.load_split(False)[0])


@pytest.mark.parametrize("model", ["er", "npcl"])
def test_run_is_saved_asked_and_measured(data, tmp_path, model):
    extra = ("--n_global", 2, "--latent_size", 8) if model == "npcl" else ()
    words = ("--model", model, *SMALL[2:], *extra, "--uncertainty", 1, "--savecheck", "last")
    result = experiment(tmp_path, *words).run()
    assert result is not None
    [checkpoint] = (tmp_path / "checkpoints").glob("*_last.pt")
    images, _ = cifar.load_cifar(cifar.CIFAR10, False)
    learner = load_model(str(checkpoint))
    assert learner.dataset.SIZE == (16, 16)
    small, large = learner.ask(average_pooled(images, 2).numpy()), learner.ask(images.numpy())
    assert small.probabilities.shape == (50, 10)
    assert np.array_equal(small.probabilities, large.probabilities), "averaged as in training"
    assert learner.ask(images[:, :30].numpy()).probabilities.shape == (50, 10), "resized"
