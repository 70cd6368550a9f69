"""How many threads a run takes."""
import os

import pytest
import torch
from torch import nn

from backbone import get_backbone_class
from engine import threads
from engine.errors import UsageError
from main import parse_args


@pytest.mark.parametrize(("name", "shape", "batch", "shared"), [
    ("mnistmlp", (1, 1, 28, 28), 128, False), ("resnet18", (1, 3, 32, 32), 32, True),
    ("reduced-resnet18", (1, 3, 32, 32), 32, True), ("mnistmlp", (1, 1, 28, 28), 10**5, True)])
def test_small_layers_are_not_shared(monkeypatch, name, shape, batch, shared):
    monkeypatch.setattr(threads, "usable_cores", lambda: 7)
    net = get_backbone_class(name)(num_classes=10)
    assert threads.fastest(net, torch.zeros(shape), batch) == (7 if shared else 1)
    assert net.training


def test_layers_keep_the_mode_that_they_were_in():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3).eval())
    threads.multiplications(net, torch.zeros(1, 3))
    assert [layer.training for layer in net.modules()] == [True, True, False]


def test_multiplications_are_counted_by_layer():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, groups=1), nn.Flatten(), nn.Linear(4 * 2 * 2, 5))
    assert threads.multiplications(net, torch.zeros(2, 3, 4, 4)) == \
        2 * (4 * 2 * 2 * 3 * 9 + 16 * 5)


@pytest.mark.parametrize(("files", "cores"), [
    ({"cpu.max": "150000 50000\n"}, 3), ({"cpu.max": "max 100000\n"}, 8),
    ({"cpu.max": "20000 100000\n"}, 1), ({"cpu/cpu.cfs_quota_us": "200000\n",
                                           "cpu/cpu.cfs_period_us": "100000\n"}, 2),
    ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8), ({}, 8),
    ({"cpu.max": "190000 100000\n"}, 1), ({"slice/cpu.max": "200000 100000\n",
                                           "slice/job/cpu.max": "max 100000\n"}, 2),
    ({"cpu/batch/cpu.cfs_quota_us": "300000\n",
      "cpu/batch/cpu.cfs_period_us": "100000\n"}, 3)])
def test_a_container_and_the_environment_limit_the_cores(tmp_path, monkeypatch, files, cores):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(threads, "_CGROUP", tmp_path)
    (tmp_path / "own").write_text("4:memory:/elsewhere\n3:cpu,cpuacct:/batch\n0::/slice/job\n")
    monkeypatch.setattr(threads, "_OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(16), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert threads.usable_cores() == cores
    for wish in ("1", "1,4"):
        monkeypatch.setenv("OMP_NUM_THREADS", wish)
        assert threads.usable_cores() == 1


def test_threads_are_no_part_of_a_runs_identity():
    words = ["--model", "sgd", "--dataset", "seq-digits", "--seed", "1", "--threads"]
    assert parse_args([*words, "2"]).conf_key == parse_args([*words, "auto"]).conf_key
    for wrong, wish in (("0", "lie in 1"), ("-1", "lie in 1"), ("many", "be auto or a whole"),
                        ("1.5", "be auto or a whole")):
        with pytest.raises(UsageError, match=f"Expected --threads to {wish}"):
            parse_args([*words, wrong])


def test_a_run_says_how_many_threads_it_takes(tmp_path, capsys):
    from main import run

    run(parse_args(["--model", "sgd", "--dataset", "seq-digits", "--debug_mode", "1",
                    "--disable_log", "1", "--base_path", str(tmp_path)]))
    assert "with mnistmlp on cpu (1 thread)" in capsys.readouterr().out
