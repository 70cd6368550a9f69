"""Generators of damaged, hostile and enormous input for the commands, from a seed."""
import copy
import json
import os
import random

from report_fixture import summary, write_run

DEEP = "[" * 5000 + "]" * 5000
VALUES = [None, True, False, 0, -1, -1e308, 1e308, 1e-320, float("nan"), float("inf"), 10 ** 400,
          2 ** 70, "", "x" * 5000, "\n\x1b[31m", "\u2028", "<b>", "../..", [], {}, [[]], [None],
          ["a"], [1, "a", None], {"a": 1}, {"": {"": []}}, [[1, 2], [3]], [0.5] * 3000,
          [[1.0] * 40] * 40, {"class-il": [[150.0]]}, {"domain-il": "90"}]
BYTES = [b"", b"{", b"null", b"[]", b"3", b'"text"', b"\xff\xfe\x00", b"\x00" * 100, b"{}" * 3,
         b'\xef\xbb\xbf{"model": "er"}', b'{"model": "\\ud800"}', DEEP.encode(),
         b'{"a": ' + b"9" * 6000 + b"}", b"[" + b"1," * 100_000 + b"1]"]
GRID = {"dataset": "seq-digits", "model": "sgd", "n_epochs": 1, "seed": [0, 1]}
GRID_VALUES = [None, True, -1, 1e400, float("nan"), "", "x" * 3000, "a\nb", "\x00", [], [[]],
               [[[1]]], {}, {"a": 1}, [{"a": 1}], [1, [2, 3]], list(range(20_000)), "--help",
               "--resume", "*", "../../x", 2 ** 80, "1 2 3", ["er", "nosuch"], b"bytes"]
GRID_TEXTS = [
    "", "null", "3", "[1, 2]", "{", "a: b: c", "\t", "&a [*a]", "? [a]\n: 1", "a: !!python/name:os",
    "a: 2020-13-45", "a: " + "[" * 3000, "runs: [{}]", "runs: {a: 1}", "runs: [1]", "runs: null",
    "exclude: 3", "exclude: [{}]", "1: 2", "null: 3", "true: 1", "[a]: 1", "model: er\nmodel: sgd",
    "model: sgd\ndataset: seq-digits\n" + "\n".join(
        f"{name}: {list(range(10))}" for name in ("seed", "n_epochs", "lr", "batch_size", "notes",
                                                  "optim_wd", "optim_mom")),
    "x: &x [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + "\n".join(
        f"x{i}: &x{i} [{', '.join([f'*x{i - 1}' if i else '*x'] * 9)}]" for i in range(9)),
    "exclude: [" + ", ".join(["{seed: 1}"] * 3000) + "]\nmodel: sgd\ndataset: seq-digits"]


def places(value, path=()):
    """Every place inside nested lists and mappings."""
    yield path
    inner = value.items() if isinstance(value, dict) else \
        enumerate(value[:3]) if isinstance(value, list) else ()
    for name, part in inner:
        yield from places(part, (*path, name))


def damaged(document, chance):
    """A copy in which one place is missing or holds something else."""
    whole = copy.deepcopy(document)
    found = [path for path in places(whole) if path]
    if not found:
        return chance.choice(VALUES)
    path = chance.choice(found)
    holder = whole
    for name in path[:-1]:
        holder = holder[name]
    if isinstance(holder, dict) and chance.random() < 0.2:
        del holder[path[-1]]
    else:
        holder[path[-1]] = chance.choice(VALUES)
    return whole


def damage_file(path, chance):
    """Put something else in the place of a file."""
    kind = chance.choice(["value"] * 6 + ["bytes"] * 4 + ["cut", "pipe", "folder", "loop", "device",
                                                          "gone", "huge"])
    text = path.read_text()
    if kind == "value":
        path.write_text(json.dumps(damaged(json.loads(text), chance)))
        return
    path.unlink()
    if kind == "bytes":
        path.write_bytes(chance.choice(BYTES))
    elif kind == "cut":
        path.write_text(text[:chance.randrange(len(text))])
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 33)


def hostile_folder(folder, seed):
    """A whole run, and one with a damaged file; odd things around them."""
    chance = random.Random(seed)
    write_run(folder, seed=0, name="whole", measures=summary(2, 4, np_family=seed % 3 == 0))
    other = write_run(folder, seed=1, name=chance.choice(["other", "o\nther", "\udcff", "x" * 200]),
                      measures=summary(2, 4, np_family=seed % 3 != 1))
    files = [other / "result.json", other / "args.json", other / "uncertainty" / "summary.json",
             other / "metrics.jsonl"]
    target = chance.choice(files[:3] * 3 + files[3:])
    if target.name == "metrics.jsonl":
        (other / "result.json").unlink()
        target.unlink()
        os.mkfifo(target)
    else:
        damage_file(target, chance)
    if seed % 5 == 0:
        (folder / "runs" / "back").symlink_to("..")


def hostile_compact(path, seed):
    """A compact file of two records, one of them damaged, or no such file at all."""
    chance = random.Random(seed)
    if seed % 4 == 3:
        path.write_text("[]")
        damage_file(path, chance) if seed % 8 == 3 else path.write_bytes(chance.choice(BYTES))
        return
    kept = summary(2, 4)
    record = {"model": chance.choice(["er", "npcl"]), "dataset": "perm-mnist",
              "setting": "domain-il", "buffer_size": 200, "seed": 0, "settings": {"n_epochs": "2"},
              "accuracy": {"domain-il": 70.0}, "backward_transfer": -1.0, "forgetting": 1.0,
              "final_accuracies": [70.0], "seconds": 5.0, "n_parameters": 10,
              "command": "python mammoth/main.py --model er --dataset perm-mnist --seed 0",
              "arguments": {"lr": 0.1}, "versions": {"torch": "2"},
              "uncertainty": {name: kept[name] for name in ("headline", "novelty", "confidence",
                                                            "cost", "transfer")}}
    if seed % 4 == 1:
        record["settings"] = {"validation": "10", "lr": "0.1"}
    entries = [record, damaged({**record, "seed": 1}, chance)]
    if chance.random() < 0.2:
        entries.append(chance.choice(VALUES))
    path.write_text(json.dumps(entries))


def hostile_grid(path, seed):
    """A grid file in which something is odd."""
    import yaml

    chance = random.Random(seed)
    if seed % 3 == 0:
        text = GRID_TEXTS[(seed // 3) % len(GRID_TEXTS)]
        path.write_bytes(text.encode() if chance.random() < 0.8 else b"\xff" + text.encode())
        return
    if seed % 17 == 1:
        damaging = chance.choice([os.mkfifo, os.mkdir, lambda p: os.symlink(p.name, p),
                                  lambda p: os.symlink("/dev/zero", p)])
        damaging(path)
        return
    grid = {**GRID, chance.choice([*GRID, "lr", "exclude", "runs", "name", "buffer_size?", "x\ny",
                                   "results_path", "?"]): chance.choice(GRID_VALUES)}
    path.write_text(yaml.safe_dump(grid, allow_unicode=True))
