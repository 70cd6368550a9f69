"""Finding, reading and refusing dataset files."""
import gzip
import io
import os
import pickle
import shutil
import struct
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch

from datasets.utils import cifar, files, idx, tiny_imagenet
from engine.errors import UsageError
from utils.conf import base_path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty base path, without downloads, with benchmarks of 20 + 10 images."""
    before = base_path()
    base_path(str(tmp_path))
    monkeypatch.setattr(files, "_download", lambda wanted: "no network in tests")
    for module in (idx, cifar):
        monkeypatch.setattr(module, "_COUNTS", {True: 20, False: 10})
    monkeypatch.setattr(tiny_imagenet, "_COUNTS", {"train": 40, "val": 20})
    yield tmp_path
    base_path(before)


def write_idx(path: Path, array: np.ndarray, packed: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    content += array.tobytes()
    if packed:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)


def write_mnist(raw: Path, train: bool, packed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    count, stem = (20, "train") if train else (10, "t10k")
    rng = np.random.default_rng(count)
    images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    labels = rng.integers(0, 10, count, dtype=np.uint8)
    write_idx(raw / f"{stem}-images-idx3-ubyte", images, packed)
    write_idx(raw / f"{stem}-labels-idx1-ubyte", labels, packed)
    return images, labels


def write_cifar10(target: Path) -> np.ndarray:
    target.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 3072), dtype=np.uint8)
    for i in range(5):
        part = {"data": pixels[4 * i:4 * i + 4], "labels": [i] * 4}
        (target / f"data_batch_{i + 1}").write_bytes(pickle.dumps(part, protocol=2))
    test = {"data": pixels[:10], "labels": list(range(10))}
    (target / "test_batch").write_bytes(pickle.dumps(test))
    return pixels


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("train_raw, test_raw", [
    ("MNIST/raw", "MNIST/raw"), ("MNIST/MyMNIST/raw", "MNIST/MNIST/raw")])
def test_mnist_is_found_in_both_layouts(folder, packed, train_raw, test_raw):
    for train, raw in ((True, train_raw), (False, test_raw)):
        images, labels = write_mnist(folder / raw, train, packed)
        ours, classes = idx.load_idx(idx.MNIST, train)
        assert np.array_equal(ours, images) and np.array_equal(classes, labels)
        assert ours.dtype == torch.uint8 and classes.dtype == torch.int64


def test_arrays_are_read_once_in_a_process(folder):
    write_mnist(folder / "MNIST/raw", True)
    assert idx.load_idx(idx.MNIST, True)[0] is idx.load_idx(idx.MNIST, True)[0]


def test_missing_files_are_named_with_their_folder(folder):
    write_mnist(folder / "MNIST/raw", True)
    with pytest.raises(UsageError) as error:
        idx.load_idx(idx.MNIST, False)
    text = str(error.value)
    assert "t10k-images-idx3-ubyte" in text and "train-images" not in text
    assert str(folder / "MNIST/raw") in text and "--base_path" in text and "no network" in text


def test_truncated_idx_is_named(folder):
    write_mnist(folder / "MNIST/raw", True)
    path = folder / "MNIST/raw/train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UsageError, match="train-images-idx3-ubyte is damaged"):
        idx.load_idx(idx.MNIST, True)


@pytest.mark.parametrize("content", [b"", b"\0\0\x08", b"<html>", gzip.compress(b"x" * 99)[:-9]],
                         ids=["empty", "header", "page", "gzip"])
def test_rubbish_instead_of_idx_is_named(folder, content):
    write_mnist(folder / "MNIST/raw", True)
    (folder / "MNIST/raw/train-labels-idx1-ubyte").unlink()
    name = "train-labels-idx1-ubyte.gz" if content[:1] == b"\x1f" else "train-labels-idx1-ubyte"
    (folder / "MNIST/raw" / name).write_bytes(content)
    with pytest.raises(UsageError, match="train-labels-idx1-ubyte"):
        idx.load_idx(idx.MNIST, True)


@pytest.mark.parametrize("images, labels", [
    (np.zeros((19, 28, 28), np.uint8), np.zeros(20, np.uint8)),
    (np.zeros((20, 28, 28), np.uint8), np.zeros(19, np.uint8)),
    (np.zeros((20, 28, 28), np.uint8), np.full(20, 10, np.uint8))])
def test_wrong_counts_and_labels_are_refused(folder, images, labels):
    write_idx(folder / "MNIST/raw/train-images-idx3-ubyte", images)
    write_idx(folder / "MNIST/raw/train-labels-idx1-ubyte", labels)
    with pytest.raises(UsageError, match="expected"):
        idx.load_idx(idx.MNIST, True)


@pytest.mark.parametrize("place", ["cifar-10-batches-py", "CIFAR10/cifar-10-batches-py"])
def test_cifar10_is_found_in_both_layouts(folder, place):
    pixels = write_cifar10(folder / place)
    images, labels = cifar.load_cifar(cifar.CIFAR10, True)
    assert images.shape == (20, 32, 32, 3) and labels.tolist() == [i // 4 for i in range(20)]
    assert np.array_equal(images.permute(0, 3, 1, 2).reshape(20, -1), pixels)
    assert cifar.load_cifar(cifar.CIFAR10, False)[1].tolist() == list(range(10))


def test_cifar100_uses_fine_labels(folder):
    place = folder / "CIFAR100/cifar-100-python"
    place.mkdir(parents=True)
    content = {"data": np.zeros((20, 3072), np.uint8), "fine_labels": list(range(80, 100)),
               "coarse_labels": [0] * 20}
    (place / "train").write_bytes(pickle.dumps(content))
    assert cifar.load_cifar(cifar.CIFAR100, True)[1].tolist() == list(range(80, 100))


class _Malice:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (os.mkdir, (str(self.target),))


def test_malicious_pickle_is_refused_and_not_run(folder):
    write_cifar10(folder / "cifar-10-batches-py")
    proof = folder / "executed"
    evil = {"data": np.zeros((4, 3072), np.uint8), "labels": _Malice(proof)}
    (folder / "cifar-10-batches-py/data_batch_3").write_bytes(pickle.dumps(evil))
    with pytest.raises(UsageError, match="data_batch_3.*mkdir is not allowed"):
        cifar.load_cifar(cifar.CIFAR10, True)
    assert not proof.exists()


@pytest.mark.parametrize("module, name", [
    ("builtins", "eval"), ("os", "system"), ("numpy", "load"), ("numpy.core.multiarray", "scalar"),
    ("builtins", "getattr"), ("codecs", "decode")])
def test_unpickler_allows_nothing_but_arrays(module, name):
    evil = f"c{module}\n{name}\n.".encode()
    with pytest.raises(pickle.UnpicklingError):
        cifar.ArrayUnpickler(io.BytesIO(evil)).load()


@pytest.mark.parametrize("spoil", [
    lambda content: content[:-50], lambda content: b"", lambda content: content[:1],
    lambda content: pickle.dumps([1, 2]),
    lambda content: pickle.dumps({"data": np.zeros((3, 3072), np.uint8), "labels": [0] * 3}),
    lambda content: pickle.dumps({"data": np.zeros((4, 3072), np.uint8), "labels": [0, 1, 2, 10]}),
    lambda content: pickle.dumps({"data": np.zeros((4, 3072), np.uint8), "labels": ["a"] * 4})])
def test_spoiled_cifar_file_is_named(folder, spoil):
    write_cifar10(folder / "cifar-10-batches-py")
    path = folder / "cifar-10-batches-py/data_batch_2"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(UsageError, match="data_batch_2 is damaged"):
        cifar.load_cifar(cifar.CIFAR10, True)


def test_tiny_imagenet_parts_are_joined_and_scaled(folder):
    place = folder / "TINYIMG/processed"
    place.mkdir(parents=True)
    values = np.random.default_rng(0).integers(0, 256, (20, 1, 64, 64, 3))
    for part in range(20):
        np.save(place / f"x_val_{part + 1:02d}.npy", values[part] / 255)
        np.save(place / f"y_val_{part + 1:02d}.npy", np.array([part * 10]))
    images, labels = tiny_imagenet.load_tiny_imagenet(False)
    assert np.array_equal(images, values.reshape(20, 64, 64, 3))
    assert labels.tolist() == list(range(0, 200, 10))
    with pytest.raises(UsageError, match="x_train_01.npy.*36 more.*TINYIMG"):
        tiny_imagenet.load_tiny_imagenet(True)
    tiny_imagenet._read_split.cache_clear()
    (place / "x_val_07.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(UsageError, match="x_val_07.npy is damaged"):
        tiny_imagenet.load_tiny_imagenet(False)


def test_download_is_tried_once_and_its_files_are_used(folder, monkeypatch):
    calls = []

    def bring(wanted):
        calls.append(wanted.title)
        write_mnist(folder / "MNIST/raw", True)
        return ""

    monkeypatch.setattr(files, "_download", bring)
    assert len(idx.load_idx(idx.MNIST, True)[0]) == 20
    with pytest.raises(UsageError, match="did not bring"):
        idx.load_idx(idx.MNIST, False)
    assert calls == ["MNIST", "MNIST"]


@pytest.mark.parametrize("error, reason", [
    (URLError("name not known"), "is there a network"), (RuntimeError("Tried ..."), "a network"),
    (PermissionError(13, "Permission denied"), "Permission denied")])
def test_download_failure_becomes_a_short_reason(monkeypatch, error, reason):
    import torchvision.datasets

    def fail(root, download):
        raise error

    monkeypatch.setattr(torchvision.datasets, "MNIST", fail)
    assert reason in files._download(idx.MNIST)
    assert "no automatic download" in files._download(tiny_imagenet.TINY_IMAGENET)


def test_real_files_match_torchvision(real_data, tmp_path):
    import torchvision.datasets

    before = base_path()
    base_path(real_data)
    try:
        images, labels = idx.load_idx(idx.MNIST, False)
    finally:
        base_path(before)
    shutil.copytree(Path(real_data, "MNIST"), tmp_path / "MNIST")
    reference = torchvision.datasets.MNIST(str(tmp_path), train=False)
    assert torch.equal(images, reference.data) and torch.equal(labels, reference.targets)
