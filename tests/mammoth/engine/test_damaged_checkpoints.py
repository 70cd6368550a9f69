"""Checkpoints with missing, wrong or hostile entries are refused in one sentence."""
import copy
import itertools

import pytest
import torch
from runs import experiment

from engine.errors import UsageError
from main import initialize, parse_args
from utils.training import Experiment

pytestmark = pytest.mark.long

WRONG = (None, "text", -3, 2.5, [], {}, [[1]], torch.zeros(2, 3))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """(folder, content of a checkpoint in the middle of a task)"""
    folder = tmp_path_factory.mktemp("saved")
    run = experiment(folder, "--model", "derpp", "--dataset", "seq-digits", "--buffer_size", 10,
                     "--n_epochs", 2, "--stop_after", 2, "--lr_scheduler", "multisteplr",
                     "--lr_milestones", 1, "--optim_mom", "0.9")
    step = run.model.observe
    count = itertools.count()

    def observe(*args, **kwargs):
        run.stop.number = 15 if next(count) == 25 else 0
        return step(*args, **kwargs)

    run.model.observe = observe
    with pytest.raises(Exception, match="Interrupted after task 2"):
        run.run()
    path = next((folder / "checkpoints").glob("*paused*.pt"))
    return folder, torch.load(path, weights_only=True)


def places(value, depth=4, where=()):
    """The keys that lead to every entry of nested mappings."""
    for name, entry in value.items():
        yield (*where, name)
        if isinstance(entry, dict) and depth > 1:
            yield from places(entry, depth - 1, (*where, name))


def changed(state, where, value=None, drop=False):
    """A copy with one entry replaced or dropped."""
    state = copy.deepcopy(state)
    inner = state
    for name in where[:-1]:
        inner = inner[name]
    if drop:
        del inner[where[-1]]
    else:
        inner[where[-1]] = value
    return state


def resumed(folder, state):
    """Resume from a content as the command line does, for one step; the sentence or None."""
    path = folder / "changed.pt"
    torch.save(state, path)
    try:
        args = parse_args(["--resume", str(path), "--base_path", str(folder / "data"),
                           "--checkpoint_path", str(folder / "checkpoints"), "--non_verbose", "1",
                           "--disable_log", "1", "--save_after_interrupt", "0"])
        run = Experiment(*initialize(args))
        run.stop.number = 15
        run.run()
    except UsageError as error:
        assert str(error).count("\n") == 0
        return str(error)
    except Exception as error:
        if "Interrupted after" in str(error):
            return None
        raise
    return None


def test_the_untouched_file_resumes(saved):
    assert resumed(*saved) is None


def test_every_missing_entry_is_one_sentence(saved):
    folder, state = saved
    count = 0
    for where in places(state):
        if where[0] == "args" or where == ("run", "form"):
            continue
        said = resumed(folder, changed(state, where, drop=True))
        assert said is not None, where
        count += 1
    assert count > 60


def test_every_entry_of_a_wrong_kind_is_one_sentence(saved):
    folder, state = saved
    wrong = itertools.cycle(WRONG)
    count = 0
    for where in places(state):
        if where[0] == "args" or where == ("run", "form"):
            continue
        for value in itertools.islice(wrong, 3):
            inner = state
            for name in where:
                inner = inner[name]
            if type(value) is not type(inner):
                assert resumed(folder, changed(state, where, value)) is not None, (where, value)
                count += 1
    assert count > 150


def test_a_file_without_a_fingerprint_is_checked_by_what_it_must_have(saved):
    folder, state = saved
    older = changed(state, ("run", "form"), drop=True)
    assert resumed(folder, older) is None
    method = {"plain", "stateful"}
    for where in places(older, depth=4):
        if where[0] in ("args", "buffer", "optimizer", "scheduler") \
                or (where[0] == "run" and len(where) > 2 and where[1] in method):
            continue
        if where[0] != "results":
            said = resumed(folder, changed(older, where, drop=True))
            assert said is not None or where == ("run", "loader", "position"), where
        resumed(folder, changed(older, where, "text"))


def test_a_file_without_a_fingerprint_fails_by_its_own_fault(saved):
    """What a method keeps has no schema: a wrong piece is found when the method uses it."""
    folder, state = saved
    older = changed(state, ("run", "form"), drop=True)
    said = []
    for where in places({"run": {name: older["run"][name] for name in ("plain", "stateful")},
                         "optimizer": older["optimizer"], "scheduler": older["scheduler"]}):
        said += [resumed(folder, changed(older, where, value)) for value in ("text", None, {})]
        said.append(resumed(folder, changed(older, where, drop=True)))
    assert sum(sentence is not None for sentence in said) > 40


@pytest.mark.parametrize(("where", "value"), [
    (("run", "progress", "position", "task"), 99), (("run", "progress", "position", "batch"), 999),
    (("run", "progress", "position", "epoch"), -1), (("run", "plain", "_current_task"), 7),
    (("run", "plain", "observe"), 3), (("run", "plain", "device"), "cpu"),
    (("run", "stateful", "nothing"), {}), (("run", "stateful", "buffer", "tensors"), {}),
    (("results", 0), [[1.0], [2.0]]), (("args", "lr"), "fast"), (("args", "n_epochs"), [1]),
    (("args", "fitting_mode"), "forever"), (("args", "model"), 5), (("args", "dataset"), None),
    (("args", "model"), "../er"), (("args", "batch_size"), -1), (("args", "seed"), "x"),
    (("model", "net.fc1.weight"), torch.zeros(3)), (("optimizer", "param_groups"), [])])
def test_wrong_values_are_one_sentence(saved, where, value):
    folder, state = saved
    state = changed(state, ("run", "form"), drop=True)
    assert resumed(folder, changed(state, where, value)) is not None


HOSTILE = ["../../evil", "/tmp/evil", "a\0b", "", ".", "..", "x/../../evil", "~evil", ".hidden",
           "a" * 300, 5, None, ["a"], "a\nb"]


@pytest.mark.parametrize("where", [("run", "folder"), ("args", "ckpt_name")])
def test_paths_in_a_checkpoint_are_not_trusted(saved, tmp_path, where):
    _, state = saved
    state = changed(state, ("run", "form"), drop=True)
    names = [*HOSTILE, *(f"runs/seq-digits/derpp/{name}" for name in HOSTILE[:10])]
    for name in names:
        torch.save(changed(state, where, name), tmp_path / "evil.pt")
        with pytest.raises(UsageError, match="tampered|wrong kind"):
            Experiment(*initialize(parse_args([
                "--resume", str(tmp_path / "evil.pt"), "--base_path", str(tmp_path / "data"),
                "--checkpoint_path", str(tmp_path / "checkpoints"), "--non_verbose", "1"]))).run()
    assert {path.name for path in tmp_path.rglob("*")} <= {"evil.pt", "data", "results",
                                                           "checkpoints"}


def test_wrong_files_are_named(tmp_path):
    (tmp_path / "text.pt").write_text("no checkpoint at all")
    (tmp_path / "empty.pt").write_bytes(b"")
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save({"a": 1}, tmp_path / "dict.pt")
    for name in ("text.pt", "empty.pt", "list.pt", "dict.pt", "missing.pt", "", "a\0b"):
        with pytest.raises(UsageError):
            parse_args(["--model", "er", "--dataset", "seq-digits", "--buffer_size", "9",
                        "--loadcheck", str(tmp_path / name)])
    with pytest.raises(UsageError, match="no regular file"):
        parse_args(["--model", "er", "--dataset", "seq-digits", "--loadcheck", "/dev/zero"])
