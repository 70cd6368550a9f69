"""Settings files that are damaged or hostile: one sentence with the file's name, at once."""
import datetime
import random
import time
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from engine.config import ROOT, read_yaml
from engine.errors import UsageError
from engine.plugins import load_plugins
from main import parse_args
from models import get_model_class

LAUGHS = "a0: &a0 [1, 1]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 4)}]\n" for i in range(1, 40))
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 4)}]}}\n" for i in range(1, 40))


@pytest.mark.parametrize("text", [
    LAUGHS, MERGES, "a: " + "[" * 100_000, "- " * 100_000, "a: &a [*a]", "a: 2024-99-99",
    "a: " + "9" * 6000, "? [1]\n: 2", "a: !!python/object/apply:os.system [ls]", "a: !!int ''",
    "a: !!bool maybe", "a: 1\n---\nb: 2", "\tx: 1", "a: \x01", "[1, 2]", "just a word", "a: *b",
    "x" * (2**20 + 1),
], ids=lambda text: text[:12].strip())
def test_a_bad_file_is_one_sentence_at_once(tmp_path, text):
    path = tmp_path / "m.yaml"
    path.write_text(text)
    began = time.time()
    with pytest.raises(UsageError) as caught:
        read_yaml(path)
    assert "m.yaml" in str(caught.value) and "\n" not in str(caught.value)
    assert time.time() - began < 5


def test_other_encodings_and_folders_are_named(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_bytes("a: é".encode("latin-1"))
    with pytest.raises(UsageError, match="not UTF-8 text"):
        read_yaml(path)
    with pytest.raises(UsageError, match="Is a directory"):
        read_yaml(tmp_path)
    path.write_text("")
    assert read_yaml(path) == {}


def damaged(text: str, chance: random.Random) -> str:
    """A file of ours with a piece cut, doubled, swapped or overwritten."""
    begin = chance.randrange(len(text))
    end = begin + chance.randrange(1, 60)
    middle = chance.choice(("", text[begin:end] * 2, "\0", ": ", "[", "- {", "&a *a", "é\ud7ff",
                            "!!float x", "1e999", "\t", "'", "*class_il"))
    return text[:begin] + middle + text[end:]


def test_damaged_copies_of_our_files_are_read_or_refused(tmp_path):
    chance, path = random.Random(0), tmp_path / "m.yaml"
    originals = [p.read_text(encoding="utf-8")
                 for p in sorted(Path(ROOT).glob("models/config/*.yaml"))]
    refused = 0
    for _ in range(300):
        path.write_text(damaged(chance.choice(originals), chance), encoding="utf-8")
        try:
            assert isinstance(read_yaml(path), dict)
        except UsageError as error:
            refused += 1
            assert "m.yaml" in str(error)
    assert 20 < refused < 290


JUNK = (None, 3, -1, "x", "", [1], [], {}, {1: 2}, {"lr": {"lr": 1}}, True, float("nan"),
        datetime.date(2024, 1, 1), b"x", 10**30, "extends", ["er", "npcl"])


def with_junk(content: dict, chance: random.Random) -> dict:
    """Settings in which one key or value, at any depth, is replaced."""
    changed = deepcopy(content)
    place = changed
    while True:
        key = chance.choice(list(place))
        if isinstance(place[key], dict) and place[key] and chance.random() < 0.6:
            place = place[key]
            continue
        if chance.random() < 0.7:
            place[key] = chance.choice(JUNK)
        else:
            place[chance.choice(("x", 0, -5, 2.5, True, None, "extends", "default", "seq-digits",
                                 "class-il", "source", "lr"))] = chance.choice(JUNK)
        return changed


@pytest.mark.parametrize("model", ["derpp", "npcl", "npcl_plus"])
def test_settings_with_a_wrong_piece_are_taken_or_refused(tmp_path, monkeypatch, model):
    from engine.config import model_config_path

    load_plugins()
    kind = get_model_class(model)
    original = Path(getattr(kind, "CONFIG_PATH", None) or model_config_path(model))
    content = yaml.safe_load(original.read_text(encoding="utf-8"))
    path, chance, refused = tmp_path / original.name, random.Random(1), 0
    monkeypatch.setattr(kind, "CONFIG_PATH", path, raising=False)
    for _ in range(60):
        path.write_text(yaml.safe_dump(with_junk(content, chance)), encoding="utf-8")
        words = ["--model", model, "--dataset", "seq-digits", "--buffer_size", "20"]
        try:
            parse_args(words)
        except UsageError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 10
