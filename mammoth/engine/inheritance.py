"""What a run takes over from a checkpoint, and where the command must not contradict it.

    --resume FILE                   the very same run goes on: everything that counts is taken over
    --loadcheck FILE --inference_only 1
                                    the trained model is asked again: its seed and settings
    --loadcheck FILE                training goes on with the next task, in a new run: seed and
                                    settings, of which the command may change what steers training

What the command does not say is taken over; what it says must agree.
"""
import sys
from argparse import Namespace
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from engine.checkpoint_schema import is_file_name
from engine.errors import UsageError
from engine.identity import Role, differences, file_digest, observations, role

_NEVER = {Role.PLACE, Role.PROCESS, Role.BOOKKEEPING}
_BUILT_FROM = ("model", "dataset", "backbone", "dataset_config")


class Purpose(Enum):
    """Why a checkpoint is read."""

    RESUME = "go on with the same run"
    ANSWER = "evaluate what was trained"
    TRAIN = "train further in a run of its own"


# The roles that are not taken over, and those in which the command may differ.
_LEFT = {Purpose.RESUME: _NEVER,
         Purpose.ANSWER: _NEVER | {Role.PART, Role.OBSERVATION},
         Purpose.TRAIN: _NEVER | {Role.PART, Role.OBSERVATION}}
_FREE = {Purpose.RESUME: _NEVER | {Role.FILE},
         Purpose.ANSWER: _NEVER | {Role.FILE, Role.PART, Role.OBSERVATION},
         Purpose.TRAIN: _NEVER | {Role.FILE, Role.PART, Role.OBSERVATION, Role.STEERING}}


@dataclass(frozen=True)
class Origin:
    """The checkpoint that a run starts from.

    Args:
        path: as the command has it.
        args: the arguments in it.
        complete: whether an argument without a value had none (files of older code, and of
            upstream, leave open what was decided later).
    """

    path: str
    purpose: Purpose
    args: Mapping[str, Any]
    complete: bool = True

    def settings(self) -> dict[str, Any]:
        """The arguments that the run takes over unless the command says otherwise."""
        looking = observations()
        return {name: value for name, value in self.args.items()
                if role(name, looking) not in _LEFT[self.purpose]
                and (self.complete or value is not None)}

    def check(self, typed: Mapping[str, Any], free: Collection[str] = ()) -> None:
        """Compare what the command says with what the checkpoint was made with.

        Args:
            typed: the arguments on the command line, with their values.
            free: arguments that only concern how the method answers; they may differ, unless
                the very same run shall go on.

        Raises:
            UsageError: they contradict each other; every such argument is named.
        """
        if self.purpose is Purpose.RESUME:
            free = ()
            if typed.get("loadcheck") is not None:
                raise UsageError("--resume FILE goes on from that file; leave out --loadcheck.")
        looking = observations()
        named = {name for name in typed if name in self.args and name not in free
                 and role(name, looking) not in _FREE[self.purpose]}
        wrong = differences({name: self.args[name] for name in named},
                            {name: typed[name] for name in named})
        if wrong:
            said = ", ".join(f"--{name} is {_show(there)} there and {_show(here)} here"
                             for name, (there, here) in wrong.items())
            remedy = "leave that out, or start a run without --resume" \
                if self.purpose is Purpose.RESUME else "leave that out to use what it was made with"
            raise UsageError(f"The checkpoint {self.path} does not belong to this command: {said}; "
                             f"{remedy}.")

    def check_features(self, digest: str | None) -> None:
        """Compare the content of the features that the run learns on (None: it has images).

        Raises:
            UsageError: the checkpoint was made on others.
        """
        there = self.args.get("features_digest")
        if self.args and there != digest:
            raise UsageError(f"The checkpoint {self.path} was made on "
                             f"{f'the features {there}' if there else 'images'}, not on "
                             f"{f'the features {digest}' if digest else 'images'}; give the same "
                             "--features, or leave it out to use what it was made with.")

    def check_names(self, first: Namespace) -> None:
        """`check` of what decides which other arguments exist, before these are looked at."""
        typed = {name: getattr(first, name) for name in _BUILT_FROM
                 if getattr(first, name, None) is not None}
        self.check(typed)

    def weights_digest(self) -> str | None:
        """What tells the weights apart that the run began with; None if it began afresh."""
        if self.purpose is Purpose.RESUME:
            return self.args.get("loadcheck_digest")
        return file_digest(self.path)

    def checkpoint_name(self) -> str:
        """What the checkpoints of the run are called.

        Raises:
            UsageError: the file names something that cannot be one of ours.
        """
        name = self.args.get("ckpt_name")
        if not is_file_name(name):
            raise UsageError(f"The checkpoint {self.path} says that its run's files are called "
                             f"{name!r}, which is no name of a file; it was tampered with.")
        return str(name)

    def seed(self) -> int:
        """The seed of the run.

        Raises:
            UsageError: the file has none.
        """
        seed = self.args.get("seed")
        if not isinstance(seed, int):
            raise UsageError(f"The checkpoint {self.path} does not say the seed of its run; use "
                             "--loadcheck.")
        return seed

    def report_gaps(self, args: Namespace, typed: Collection[str]) -> None:
        """Say on stderr what the checkpoint leaves open, so that nothing is guessed in silence."""
        looking = observations()
        gaps = [name for name, value in vars(args).items()
                if value is not None and name not in typed
                and (name not in self.args or (self.args[name] is None and not self.complete))
                and name != "loadcheck_digest"
                and role(name, looking) in {Role.SETTING, Role.STEERING, Role.SEED}]
        if gaps:
            print(f"The checkpoint {self.path} does not say what it was made with in: "
                  f"{', '.join(sorted(gaps))}. The values of this command are used.",
                  file=sys.stderr)


def find_origin(first: Namespace) -> Origin | None:
    """The checkpoint that a command names, read and checked.

    Args:
        first: `parsing.peek`.

    Raises:
        UsageError: it is missing, damaged, or cannot serve this purpose.
    """
    from utils.checkpoints import load_checkpoint

    resuming = first.resume not in (None, "auto")
    path = first.resume if resuming else first.loadcheck
    if path is None:
        return None
    state = load_checkpoint(path)
    if resuming and "run" not in state:
        raise UsageError(f"{path} was not written by this harness and holds weights only; use "
                         "--loadcheck.")
    purpose = Purpose.RESUME if resuming else \
        Purpose.ANSWER if first.inference_only else Purpose.TRAIN
    origin = Origin(path, purpose, state.get("args") or {}, "form" in state.get("run", {}))
    origin.check_names(first)
    return origin


def _show(value: Any) -> str:
    if value is None:
        return "not set"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
