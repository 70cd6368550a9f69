"""Novel images pass the same frozen network as the benchmark's own."""
import numpy as np
import pytest
import torch

import main
from datasets.utils.digits import load_digits
from datasets.utils.features import cache
from npcl_plugin.uncertainty.novel_data import novel_for


class Brightness:
    """In the network's place: the mean of each quarter of the image."""

    dim = 4

    def __init__(self, spec, device=None):
        self.device = torch.device("cpu")

    def __call__(self, images):
        return images.float().unflatten(1, (2, -1)).unflatten(3, (2, -1)).mean((2, 4)).flatten(1)


@pytest.fixture
def words(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "FeatureNetwork", Brightness)
    monkeypatch.setattr(cache, "_in_memory", {})
    torch.save({}, tmp_path / "weights.pth")
    return ["--model", "ncm", "--seed", "0", "--disable_log", "1", "--non_verbose", "1",
            "--base_path", str(tmp_path)]


def test_novel_images_become_features(words, tmp_path):
    args = main.parse_args([*words, "--dataset", "seq-digits", "--features", "stub",
                            "--features_weights", str(tmp_path / "weights.pth")])
    _, dataset, _ = main.initialize(args)
    dataset.get_data_loaders()
    novel = novel_for("auto", dataset)
    assert novel.name == "inverted" and novel.description.endswith("as features")
    expected = Brightness(None)(255 - load_digits(False)[0])
    torch.testing.assert_close(novel.data.fetch(slice(None))[0], expected, rtol=1e-3, atol=0.1)


def test_a_file_of_features_has_no_novel_images(words, tmp_path):
    labels = np.repeat(np.arange(4), 5)
    rows = np.random.default_rng(0).normal(size=(20, 3))
    np.savez(tmp_path / "f.npz", train_x=rows, train_y=labels, test_x=rows, test_y=labels)
    args = main.parse_args([*words, "--dataset", "features", "--features",
                            str(tmp_path / "f.npz"), "--classes_per_task", "2"])
    _, dataset, _ = main.initialize(args)
    dataset.get_data_loaders()
    for wanted in ("auto", "inverted", "shuffled"):
        novel = novel_for(wanted, dataset)
        assert novel.data is None and novel.why
