"""Checkpoints: what they hold, what they refuse, and that going on from them is exact."""
import pickle
import time

import numpy as np
import pytest
import torch
from runs import experiment

from engine.checkpoint_schema import form
from engine.errors import UsageError
from engine.model_state import capture, restore
from utils.checkpoints import load_checkpoint, newest_checkpoint

ER = ("--model", "der", "--dataset", "seq-digits", "--buffer_size", 30, "--n_epochs", 2)


def saved_run(folder, *more):
    run = experiment(folder, *ER, "--savecheck", "task", *more)
    return run, run.run()


def files_of(folder):
    return sorted((folder / "checkpoints").glob("*.pt"))


def test_checkpoint_has_mammoths_keys_and_loads_with_weights_only(tmp_path):
    run, _ = saved_run(tmp_path)
    path = files_of(tmp_path)[-1]
    state = torch.load(path, weights_only=True)
    assert {"model", "optimizer", "scheduler", "args", "results", "buffer"} <= set(state)
    assert all(key.startswith("net.") for key in state["model"])
    assert state["args"]["model"] == "der" and len(state["results"][0]) == 5
    assert isinstance(state["results"][0][0][0], float)
    assert len(state["buffer"]["examples"]) == 30
    assert path.name.startswith("der_seq-digits_None_30_2_") and path.name.endswith("_4.pt")


def test_upstreams_resume_recipe_loadcheck_and_start_from(tmp_path):
    run, result = saved_run(tmp_path)
    middle = files_of(tmp_path)[2]
    again = experiment(tmp_path, *ER, "--loadcheck", middle, "--start_from", 3)
    end = again.run()
    rows = end["accuracy_matrix"]["class-il"]
    assert rows[:3] == result["accuracy_matrix"]["class-il"][:3]
    assert len(rows) == 5 and len(rows[-1]) == 5
    assert again.model.current_task == 5
    assert again.model.buffer.num_seen_examples == run.model.buffer.num_seen_examples


def test_inference_only_repeats_the_last_evaluation(tmp_path):
    _, result = saved_run(tmp_path)
    for index in (1, 4):
        path = files_of(tmp_path)[index]
        seen = experiment(tmp_path, "--loadcheck", path, "--inference_only", 1).run()
        assert seen["accuracy_matrix"]["class-il"][-1] == \
            result["accuracy_matrix"]["class-il"][index]


def test_bare_state_dict_of_a_network_is_refused_with_a_sentence(tmp_path):
    run = experiment(tmp_path, *ER)
    path = tmp_path / "weights.pt"
    torch.save({"model": {"other.weight": torch.zeros(2)}}, path)
    with pytest.raises(UsageError, match="do not fit this model"):
        experiment(tmp_path, *ER, "--loadcheck", path).run()
    torch.save({"model": run.model.state_dict()}, path)
    experiment(tmp_path, *ER, "--loadcheck", path, "--stop_after", 1).run()


def test_checkpoint_of_older_code_is_refused_with_that_cause(tmp_path):
    """As those of the neural processes whose parts have other names by now."""
    saved_run(tmp_path, "--stop_after", 1)
    path, = files_of(tmp_path)
    content = load_checkpoint(path)
    content["model"]["net.former_name"] = content["model"].pop("net.classifier.weight")
    content["run"]["form"] = form(content)
    torch.save(content, path)
    with pytest.raises(UsageError, match="2 differ, `net.classifier.weight` first.*: another "
                                         "version of this code wrote it"):
        experiment(tmp_path, "--loadcheck", path, "--inference_only", 1).run()


def test_damaged_checkpoint_is_refused_by_name_and_the_one_before_is_used(tmp_path, caplog):
    run, _ = saved_run(tmp_path, "--stop_after", 2)
    first, second = files_of(tmp_path)
    content = bytearray(second.read_bytes())
    content[len(content) // 2] ^= 255
    time.sleep(0.01)
    second.write_bytes(bytes(content))
    with pytest.raises(UsageError, match=f"{second.name} is damaged"):
        load_checkpoint(second)
    found = newest_checkpoint(run.key)
    assert found[0] == first
    assert second.name in caplog.text


def test_truncated_file_and_foreign_pickle_are_refused_unexecuted(tmp_path):
    saved_run(tmp_path, "--stop_after", 1)
    path = files_of(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UsageError, match="no checkpoint that loads safely"):
        load_checkpoint(path)

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "pwned"), "w"))

    torch.save({"model": Evil()}, path)
    with pytest.raises(UsageError, match="no checkpoint that loads safely"):
        load_checkpoint(path)
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(UsageError, match="no checkpoint that loads safely"):
        load_checkpoint(path)
    assert not (tmp_path / "pwned").exists()


class Keeper(torch.nn.Module):
    """A method with state of every kind."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(2, 2)
        self.fisher = None
        self.seen = []
        self.table = np.zeros((2, 2))
        self.names = {}

    def learn(self):
        self.fisher = torch.rand(3)
        self.seen = [1, (2.5, "x"), {"deep": torch.ones(2)}]
        self.table = np.random.rand(2, 2)
        self.names = {3: {1, 2}}
        self.old_net = torch.nn.Linear(2, 2)
        return self


def test_capture_and_restore_cover_plain_state_arrays_and_late_copies():
    old = Keeper().learn()
    new = Keeper()
    restore(new, capture(old))
    assert torch.equal(new.fisher, old.fisher) and np.array_equal(new.table, old.table)
    assert new.seen[1] == (2.5, "x") and torch.equal(new.seen[2]["deep"], torch.ones(2))
    assert new.names == {3: {1, 2}}
    assert torch.equal(new.old_net.weight, old.old_net.weight)
    assert not new.old_net.weight.requires_grad


def test_state_that_cannot_be_saved_is_named(caplog):
    model = Keeper()
    model.function = print
    assert "function" not in capture(model)["plain"]
    assert "Keeper.function" in caplog.text


def test_resume_mid_epoch_in_process_gives_identical_weights(tmp_path):
    calm = experiment(tmp_path / "calm", *ER)
    calm.run()
    cut = experiment(tmp_path / "cut", *ER)
    steps = iter(range(100))
    observe = cut.model.observe

    def interrupted(*args, **kwargs):
        if next(steps) == 31:
            cut.stop.number = 15
        return observe(*args, **kwargs)

    cut.model.observe = interrupted
    with pytest.raises(Exception, match="Interrupted after task 2, epoch 2, batch"):
        cut.run()
    del cut.model.observe
    path = files_of(tmp_path / "cut")[0]
    again = experiment(tmp_path / "cut", *ER, "--resume", path)
    again.run()
    for name, value in calm.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name
    assert again.logger.accs == calm.logger.accs
    assert torch.equal(again.model.buffer.logits, calm.model.buffer.logits)
