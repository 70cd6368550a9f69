"""Files that are whole or not there."""
import io
import os
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine import files
from engine.errors import RunError, UsageError


def test_failed_write_keeps_the_old_file_and_leaves_no_rubbish(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    files.atomic_write(path, b"old")

    def no_space(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(RunError, match="No space left on device"):
        files.atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.json"]


@given(st.binary(max_size=300))
def test_checksum_round_trip(content):
    assert files.without_checksum(files.with_checksum(content)) == content


@given(st.binary(min_size=1, max_size=200), st.data())
def test_any_changed_byte_of_the_content_is_noticed(content, data):
    stored = bytearray(files.with_checksum(content))
    position = data.draw(st.integers(0, len(content) - 1))
    stored[position] ^= data.draw(st.integers(1, 255))
    assert files.without_checksum(bytes(stored)) is None


def test_torch_reads_a_file_with_a_checksum(tmp_path):
    stream = io.BytesIO()
    torch.save({"x": torch.arange(3)}, stream)
    path = tmp_path / "c.pt"
    path.write_bytes(files.with_checksum(stream.getvalue()))
    assert torch.load(path, weights_only=True)["x"].tolist() == [0, 1, 2]


def test_concurrent_lines_never_mix(tmp_path):
    path = tmp_path / "logs.pyd"

    def write(letter):
        for _ in range(50):
            files.append_line(path, letter * 3000)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = path.read_text().splitlines()
    assert len(lines) == 200
    assert all(len(line) == 3000 and len(set(line)) == 1 for line in lines)


def test_unwritable_folder_is_a_usage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="choose another folder with --results_path"):
        files.ensure_writable(tmp_path / "file" / "below", "--results_path")
