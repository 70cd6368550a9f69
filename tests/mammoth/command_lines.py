"""A generator of command lines: all methods and benchmarks, right and wrong values, odd words."""
import argparse
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from datasets import REGISTRY as DATASETS
from engine.argument_types import Range
from engine.errors import UsageError
from engine.parsing import SettingsBuilder
from engine.plugins import load_plugins
from models import REGISTRY as MODELS

WHOLE = ("0", "1", "2", "3", "7", "-1", "-0", "1.5", "1e3", "", "x", "١", "0x10", "1_0", "nan",
         str(10**12), str(2**63), str(2**64), "9" * 30, "-" + "9" * 30, "9" * 5000)
REAL = ("0", "1", "0.5", "-0.5", "1e-300", "1e300", "-1e300", "nan", "inf", "-inf", "1e-8", "1e30",
        "", "1,5", "x", "0.1.2", "½", "1e", "9" * 400)
SWITCH = ("0", "1", "true", "False", "yes", "2", "", "maybe", "-1")
WORDS = ("", " ", "x", "é", "日本語", "a b", "%s %d", "{}", "$HOME", "`id`", "None", "-", "--",
         "-x", "x" * 300, "x" * 5000, "a\nb", "\t", "'", '"', "\\", "..", "a/../b", "\udcff", "🙂",
         "0", "1,2", "4,3,2,1,0", "1-0-2-3-4", "9,8,7,6,5,4,3,2,1,0")
PATHS = ("", ".", "there", "a/b/c", "é", "x" * 300, "/dev/null", "/dev/null/x", "/proc/nope",
         "rubbish.pt", "empty", "folder", "a\nb")
PATH_NAMES = ("base_path", "results_path", "checkpoint_path", "loadcheck", "resume", "features",
              "features_weights", "cache_path_noisy_labels")
SMALL = ("seq-digits", "perm-digits", "rot-digits")
SETTINGS_OF_LENGTH = {"n_epochs", "n_iters"}


@dataclass
class Sandbox:
    """Folders that a generated command may write to."""

    folder: Path

    def prepare(self) -> None:
        """Files that are not what commands may take them for."""
        (self.folder / "folder").mkdir()
        (self.folder / "empty").write_bytes(b"")
        (self.folder / "rubbish.pt").write_bytes(bytes(range(256)) * 9)

    def words(self) -> list[str]:
        """What keeps a command short and within the folder."""
        return ["--debug_mode", "1", "--non_verbose", "1", "--seed", "3", "--stop_after", "1",
                "--base_path", str(self.folder / "data"),
                "--checkpoint_path", str(self.folder / "checkpoints")]


@cache
def arguments(model: str, dataset: str) -> dict[str, argparse.Action]:
    """Every argument that exists for this pair; none where the two do not go together."""
    try:
        words = ["--model", model, "--dataset", dataset, "--buffer_size", "20"]
        return SettingsBuilder(words).parser.actions_by_dest()
    except UsageError:
        return {}


def value(name: str, action: argparse.Action, chance: random.Random) -> str:
    """A value, right or wrong, for an argument; a run's deeper parts see the right ones only."""
    odd = chance.random() < 0.3
    if name in PATH_NAMES:
        pool: tuple = PATHS
    elif name == "device":
        pool = ("cpu", "CPU", "cuda", "0", "999", "xla", "meta", "mps", "cpu:0", "cpu,1", *WORDS)
    elif action.choices is not None:
        pool = WORDS if odd else tuple(map(str, action.choices))
    elif isinstance(action.type, Range):
        pool = (WHOLE if action.type.kind is int else REAL) if odd else edges(action.type)
    elif isinstance(action.default, bool):
        pool = SWITCH if odd else ("0", "1")
    else:
        pool = WORDS
    return chance.choice(pool)


def edges(kind: Range) -> tuple[str, ...]:
    """Values at the ends of a range and within it."""
    inside = (1, 2, 5, 20, 10**12) if kind.kind is int else (0.1, 0.5, 0.9, 1e-7, 1.0, 3.0, 1e6)
    bounds = [bound for bound in (kind.least, kind.most) if bound is not None]
    if kind.below is not None:
        bounds.append(kind.below * 0.9999)
    if kind.above is not None:
        bounds.append(kind.above + 1e-6)
    return tuple(str(kind.kind(number)) for number in (*inside, *bounds))


def basis(model: str, dataset: str, chance: random.Random) -> list[str]:
    """A command that works, if the two go together."""
    words = ["--model", model, "--dataset", dataset]
    if "buffer_size" in arguments(model, dataset) and chance.random() < 0.95:
        words += ["--buffer_size", "20"]
    for name, action in arguments(model, dataset).items():
        if action.required and name not in ("model", "dataset", "buffer_size"):
            words += [f"--{name}", "0.1"]
    return words


def mutated(words: list[str], chance: random.Random) -> list[str]:
    """The same words with a slip of the hand."""
    slip, at = chance.randrange(8), chance.randrange(len(words))
    if slip == 0:
        return words[:at] + words[at + 1:]
    if slip == 1:
        return words[:at] + [words[at]] + words[at:]
    if slip == 2:
        return [*words, chance.choice(("--nope", "--lrr", "stray", "-q", "--", "--help"))]
    if slip == 3:
        return words[:at] + [chance.choice(WORDS)] + words[at + 1:]
    if slip == 4 and at + 1 < len(words) and words[at].startswith("--"):
        return words[:at] + [f"{words[at]}={words[at + 1]}"] + words[at + 2:]
    return words


def command_line(chance: random.Random, sandbox: Sandbox) -> list[str]:
    """One command line."""
    load_plugins()
    model = chance.choice(MODELS.names())
    dataset = chance.choice(SMALL if chance.random() < 0.85 else DATASETS.names())
    if not arguments(model, dataset) and chance.random() < 0.9:
        dataset = "seq-digits"
    words = basis(model, dataset, chance)
    known = arguments(model, dataset) or arguments("er", "seq-digits")
    fixed = dict(zip(sandbox.words()[::2], sandbox.words()[1::2], strict=True))
    for name in chance.sample(sorted(known), chance.choice((1, 1, 1, 2, 3, 4))):
        if name in ("help", "model", "dataset", "debug_mode", "non_verbose"):
            continue
        fixed.pop(f"--{name}", None)
        words = [w for pair in zip(words[::2], words[1::2], strict=True) if pair[0] != f"--{name}"
                 for w in pair]
        words += [f"--{name}"] + ([] if known[name].nargs == 0 else [
            value(name, known[name], chance)])
        if len(words) % 2:  # a switch without a value: keep the pairs
            words += ["--notes", "x"] if "--notes" not in words else []
            break
    if chance.random() < 0.7:
        fixed["--disable_log"] = "1"
    words += [word for pair in fixed.items() if pair[0] not in words for word in pair]
    return mutated(words, chance) if chance.random() < 0.2 else words
