"""Tiny-ImageNet from the official folder or zip, made small."""
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from datasets.utils import tiny_imagenet, tiny_imagenet_official
from engine.errors import UsageError
from utils.conf import base_path

CLASSES = ["n03", "n01", "n02"]  # the order of wnids.txt, not the alphabet's


def colour(label: int, row: int) -> tuple[int, int, int]:
    return 80 * label, 10 * row, 200


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of 3 classes with 2 images each, and 3 for validation; the last is grey."""
    for name, value in (("CLASSES", 3), ("IMAGES_PER_CLASS", 2), ("VALIDATION_IMAGES", 3)):
        monkeypatch.setattr(tiny_imagenet_official, name, value)
    tiny_imagenet._official_split.cache_clear()
    base_path(str(tmp_path))
    root = tmp_path / "tiny-imagenet-200"
    for label, wnid in enumerate(CLASSES):
        place = root / "train" / wnid / "images"
        place.mkdir(parents=True)
        for row in range(2):
            Image.new("RGB", (64, 64), colour(label, row)).save(place / f"{wnid}_{row}.JPEG")
    (root / "val/images").mkdir(parents=True)
    (root / "wnids.txt").write_text("\n".join(CLASSES) + "\n")
    lines = []
    for row, wnid in enumerate(reversed(CLASSES)):
        image = Image.new("RGB", (64, 64), colour(2 - row, row))
        (image.convert("L") if row == 2 else image).save(root / f"val/images/val_{row}.JPEG")
        lines.append(f"val_{row}.JPEG\t{wnid}\t0\t0\t9\t9\n")
    (root / "val/val_annotations.txt").write_text("".join(lines))
    return root


def check() -> None:
    images, labels = tiny_imagenet.load_tiny_imagenet(True)
    assert images.shape == (6, 64, 64, 3)
    assert labels.tolist() == [0, 0, 1, 1, 2, 2]
    for row, image in enumerate(images):
        expected = np.array(colour(row // 2, row % 2))
        assert np.abs(image[5, 7].numpy().astype(int) - expected).max() < 6
    images, labels = tiny_imagenet.load_tiny_imagenet(False)
    assert images.shape == (3, 64, 64, 3)
    assert labels.tolist() == [2, 1, 0]
    assert (images[2, ..., 0] == images[2, ..., 1]).all()


def test_folder_is_read_once(folder, tmp_path):
    check()
    assert [path.name for path in (tmp_path / "TINYIMG").iterdir()] == [
        "tiny-imagenet-200-uint8.npz"]
    shutil.rmtree(folder)
    tiny_imagenet._official_split.cache_clear()
    check()


@pytest.mark.parametrize("place", ["", "TINYIMG"])
def test_zip_is_read(folder, tmp_path, place):
    (tmp_path / place).mkdir(exist_ok=True)
    shutil.make_archive(str(tmp_path / place / "tiny-imagenet-200"), "zip", tmp_path,
                        "tiny-imagenet-200")
    shutil.rmtree(folder)
    check()


@pytest.mark.parametrize(("damage", "sentence"), [
    (lambda root: (root / "wnids.txt").write_text("n01\n"), "expected 3 classes, got 1"),
    (lambda root: (root / "val/val_annotations.txt").unlink(), "missing or no text"),
    (lambda root: (root / "val/val_annotations.txt").write_text("val_0.JPEG\tn01\n"),
     "known class"),
    (lambda root: (root / "train/n01/images/n01_1.JPEG").unlink(), "n01_1.JPEG is damaged"),
    (lambda root: (root / "train/n01/images/n01_1.JPEG").write_bytes(b"x"), "no JPEG image"),
    (lambda root: Image.new("RGB", (9, 9)).save(root / "val/images/val_1.JPEG"), "64 x 64"),
])
def test_what_is_damaged_is_named_and_nothing_is_kept(folder, tmp_path, damage, sentence):
    damage(folder)
    with pytest.raises(UsageError, match=sentence):
        tiny_imagenet.load_tiny_imagenet(True)
    assert not (tmp_path / "TINYIMG").exists()


def test_damaged_decoded_file_is_named(folder, tmp_path):
    check()
    path = tmp_path / "TINYIMG/tiny-imagenet-200-uint8.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    tiny_imagenet._official_split.cache_clear()
    with pytest.raises(UsageError, match="checksums do not fit"):
        tiny_imagenet.load_tiny_imagenet(True)


def test_nothing_there_names_both_forms(tmp_path):
    base_path(str(tmp_path))
    with pytest.raises(UsageError, match="official folder tiny-imagenet-200 or its zip"):
        tiny_imagenet.load_tiny_imagenet(True)


@pytest.mark.real_data
def test_classes_are_numbered_as_upstream_numbers_them(real_data):
    """Upstream names its classes 0, 1, ..., 198, 199 so; words.txt names those of wnids.txt."""
    folder = Path(real_data, "tiny-imagenet-200")
    if not folder.is_dir():
        pytest.skip("there is no tiny-imagenet-200 among the real datasets")
    words = dict(line.split("\t") for line in (folder / "words.txt").read_text().splitlines())
    names = [words[wnid].lower() for wnid in (folder / "wnids.txt").read_text().split()]
    assert len(names) == 200
    for number, name in {0: "egyptian cat", 1: "reel", 2: "volleyball", 19: "organ", 20: "oboe",
                         100: "slug", 101: "hog", 198: "cauliflower", 199: "african elephant"
                         }.items():
        assert name in names[number]
