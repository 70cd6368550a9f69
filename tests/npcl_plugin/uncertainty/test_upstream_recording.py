"""`--uncertainty` through a model's own hooks, as upstream calls them, without upstream."""
import random
from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from experiments.run_folders import find_runs
from npcl_plugin import settings
from npcl_plugin.generators import untouched_generators
from npcl_plugin.uncertainty.upstream import Recording, recording_for
from utils.notebooks import load_runner


def test_generators_go_on_as_if_nothing_had_been_drawn():
    def drawn():
        return random.random(), np.random.rand(), torch.rand(1).item()

    torch.manual_seed(3), np.random.seed(3), random.seed(3)
    expected = drawn()
    torch.manual_seed(3), np.random.seed(3), random.seed(3)
    with pytest.raises(KeyError), untouched_generators():
        drawn()
        raise KeyError
    assert drawn() == expected


def test_without_the_switch_there_is_nothing():
    assert recording_for(None, Namespace(uncertainty=0)) is None


def test_a_folder_is_asked_for_and_tried_first(tmp_path):
    args = Namespace(uncertainty=1, uncertainty_path=None)
    with pytest.raises(Exception, match="give --uncertainty_path"):
        recording_for(None, args)
    (tmp_path / "file").write_text("")
    args = Namespace(uncertainty=1, uncertainty_path=tmp_path / "file", dataset="d", model="m",
                     uncertainty_draws=1, uncertainty_samples=1)
    with pytest.raises(Exception, match="cannot be written"):
        Recording(SimpleNamespace(dataset=None), args)


def test_hooks_of_a_model_leave_a_run_that_the_report_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "_postponed", {"alpha": None, "novel_data": None})
    model, dataset = load_runner("npcl", "seq-digits", {
        "buffer_size": 20, "seed": 0, "n_global": 2, "n_global_eval": 2, "debug_mode": 1,
        "n_epochs": 1, "uncertainty_samples": 10, "uncertainty_draws": 2, "stop_after": 2,
        "base_path": str(tmp_path)})
    model.args.uncertainty, model.args.uncertainty_path = 1, tmp_path / "up"
    model.recording = Recording(model, model.args)
    model.net.train()
    for _ in range(2):
        loader, _ = dataset.get_data_loaders()
        model.meta_begin_task(dataset)
        batch = next(iter(loader))
        model.meta_observe(batch[0], batch[1], batch[2], epoch=0)
        before = torch.get_rng_state()
        model.meta_end_epoch(0, dataset)
        assert torch.equal(before, torch.get_rng_state()) and model.net.training
        model.meta_end_task(dataset)
        model.meta_end_eval(dataset, dataset.evaluate(model, dataset))
    (found,), left_out = find_runs(tmp_path / "up")
    assert not left_out and found.arguments["harness"] == "upstream"
    assert [len(row) for row in found.matrix["class-il"]] == [1, 2]
    assert "novel_data" not in found.arguments and found.arguments["alpha"] is not None
    for part in ("calibration", "heads", "latents", "cost"):
        assert found.section(part), part
