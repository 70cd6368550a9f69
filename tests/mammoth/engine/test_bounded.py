"""Files that are damaged, endless or meant to exhaust their reader are refused at once."""
import os
import time

import pytest

from engine.bounded import Unreadable, read_json, read_text, read_yaml_value
from engine.config import read_yaml
from engine.errors import UsageError

BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True))


def refused(read, path, **options):
    started = time.process_time()
    with pytest.raises(Unreadable) as caught:
        read(path, **options)
    assert time.process_time() - started < 2
    words = str(caught.value)
    assert words and "\n" not in words
    return words


@pytest.mark.parametrize("text, words", [
    ("a: " + "[" * 100_000, "nested more than 20 levels"), (BOMB, "aliases counted each time"),
    ("a: &x [*x]", "aliases counted each time"), ("a: 2020-13-45", "not valid YAML"),
    ("a: " + "9" * 5000, "not valid YAML"), ("a: !!python/object:os.system x", "not valid YAML"),
    ("? [a]\n: 1", "not valid YAML"), ("# " + "x" * 2_000_000, "larger than 1 MB")])
def test_yaml_that_would_exhaust_or_break_its_reader(text, words, tmp_path):
    (tmp_path / "a.yaml").write_text(text)
    assert words in refused(read_yaml_value, tmp_path / "a.yaml")
    with pytest.raises(UsageError, match="mend or remove it"):
        read_yaml(tmp_path / "a.yaml")


@pytest.mark.parametrize("content, words", [
    (b"[" * 100_000, "nested too deeply"), (b"{", "not valid JSON"), (b"\xff\xfe\x00", "UTF-8"),
    (b'["\\ud800"]', "not Unicode"), (b"9" * 5000, "not valid JSON"),
    (b" " * 1001, "larger than")])
def test_json_that_cannot_be_used(content, words, tmp_path):
    (tmp_path / "a.json").write_bytes(content)
    limit = 1000 if b" " in content else 8 << 20
    assert words in refused(read_json, tmp_path / "a.json", limit=limit)


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    os.symlink("loop", tmp_path / "loop")
    (tmp_path / "text").write_text("words")
    os.symlink("text", tmp_path / "link")
    for name in ("pipe", "loop", "/dev/zero", ".", "a\0b"):
        refused(read_text, tmp_path / name, limit=100)
    assert read_text(tmp_path / "link", 100) == "words"
    with pytest.raises(FileNotFoundError):
        read_text(tmp_path / "absent", 100)
