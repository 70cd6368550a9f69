"""From a command line to a namespace in which every value knows where it came from.

Weakest to strongest: the argument's own default, the benchmark's, its variant's, the
method's (`set_defaults`), the published settings, a checkpoint's, the command line's.
"""
import argparse
import textwrap
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from utils.args import (
    ArgumentParser,
    add_dynamic_args,
    add_experiment_args,
    add_initial_args,
    add_management_args,
    check_no_duplicates,
    given_on_command_line,
)
from utils.argument_rules import refuse_incompatible
from utils.config import dataset_settings, model_config_path, model_settings
from utils.errors import UsageError
from utils.loggers import plain_args
from utils.plugins import add_plugin_arguments

COMMAND_LINE = "command line"
_CLASS_FIELDS = {"SETTING", "N_CLASSES_PER_TASK", "N_TASKS", "SIZE", "N_CLASSES", "AVAIL_SCHEDS",
                 "MEAN", "STD", "TRANSFORM", "TEST_TRANSFORM"}
_NOT_INHERITED = {"device", "resume", "loadcheck", "savecheck", "inference_only", "ckpt_name",
                  "start_from", "stop_after", "notes", "seed", "base_path", "results_path",
                  "checkpoint_path", "debug_mode", "non_verbose", "disable_log"}
_MISSING_HINTS = {
    "lr": "there is no published learning rate of {model} on {dataset}",
    "buffer_size": "{model} replays samples from a buffer",
}


def peek(cmd: Sequence[str]) -> Namespace:
    """What decides which arguments exist, read before the full parser can be built."""
    parser = ArgumentParser(add_help=False)
    add_initial_args(parser)
    parser.add_argument("--buffer_size", type=_size_or_none)
    parser.add_argument("-h", "--help", action="store_true")
    for action in parser._actions:
        action.required = False
    return parser.parse_known_args(list(cmd))[0]


def _size_or_none(word: str) -> int | None:
    """A buffer size as far as it chooses settings; the full parser says what is wrong with one."""
    return int(word) if word.isdecimal() and len(word) < 20 else None


def general_parser() -> ArgumentParser:
    """The arguments that every run has."""
    parser = ArgumentParser(prog="main.py", add_help=False,
                            usage="main.py --model NAME --dataset NAME [arguments]",
                            description="Train and evaluate a continual-learning method.")
    parser.add_argument("-h", "--help", action="help",
                        help="this page; with --model and --dataset also theirs")
    add_initial_args(parser)
    add_experiment_args(parser)
    add_management_args(parser)
    add_plugin_arguments(parser)
    return parser


class SettingsBuilder:
    """The full parser of one model and one benchmark, filled layer by layer.

    Args:
        cmd: the words after `main.py`.
        checkpoint_args: arguments found in the file of `--loadcheck` (weaker than `cmd`).
    """

    def __init__(self, cmd: Sequence[str], checkpoint_args: dict[str, Any] | None = None) -> None:
        from datasets import get_dataset_class
        from models import get_model_class

        self.cmd = list(cmd)
        self.sources: dict[str, str] = {}
        inherited = checkpoint_args or {}
        first = peek(cmd)
        self.model = first.model or inherited.get("model")
        self.dataset = first.dataset or inherited.get("dataset")
        if self.model is None or self.dataset is None:
            missing = "--model" if self.model is None else "--dataset"
            raise UsageError(f"{missing} is needed, e.g. main.py --model er --dataset seq-digits "
                             "--buffer_size 200; --help lists all.")
        self.dataset_class, own_args = get_dataset_class(self.dataset, return_args=True)
        self.model_class = get_model_class(self.model)
        refuse_incompatible(self.model, self.model_class, self.dataset, self.dataset_class)
        self.parser = general_parser()
        model_defaults = self._add_model_args()
        add_dynamic_args(self.parser, f"Arguments of {self.dataset}", own_args)
        layers = self._layers(first, model_defaults, inherited)
        self._add_backbone_args(first, layers)
        for label, values, strict in layers:
            self._apply(label, values, strict)

    def parse(self) -> Namespace:
        """Read the command line over all defaults; the namespace has `sources` too."""
        check_no_duplicates(self.cmd, self.parser)
        self._check_unknown()
        needed = self.parser.actions_by_dest()
        # The size of the buffer chooses among published settings: what else is missing follows.
        for dest in sorted(needed, key=lambda dest: dest != "buffer_size"):
            if needed[dest].required and dest not in given_on_command_line(self.cmd, self.parser):
                why = _MISSING_HINTS.get(dest, "{model} asks for it").format(
                    model=self.model, dataset=self.dataset)
                raise UsageError(f"--{dest} is needed: {why}; give one.")
        args = self.parser.parse_args(self.cmd)
        for dest in given_on_command_line(self.cmd, self.parser):
            self.sources[dest] = COMMAND_LINE
        return args

    def _check_unknown(self) -> None:
        """A mistyped flag is the mistake to name, before anything that it left missing."""
        known = self.parser._option_string_actions
        for word in self.cmd:
            if word.startswith("--") and word.split("=")[0] not in known:
                self.parser.error(f"unrecognized arguments: {word}")

    def _add_model_args(self) -> dict[str, Any]:
        """The method's own arguments; returns what it set with `set_defaults`."""
        own = ArgumentParser(add_help=False)
        own = self.model_class.get_parser(own) or own
        group = self.parser.add_argument_group(f"Arguments of {self.model}")
        known = self.parser.actions_by_dest()
        for action in own._actions:
            if action.dest == "help":
                continue
            if action.dest in known:
                if action.default is not None:
                    self._default(known[action.dest], action.default, f"{self.model}'s default")
            else:
                group._add_action(action)
        return dict(own._defaults)

    def _layers(self, first: Namespace, model_defaults: dict[str, Any],
                inherited: dict[str, Any]) -> list[tuple[str, dict[str, Any], bool]]:
        """(where from, values, whether an unknown name is an error), weakest first."""
        from datasets.utils import default_args

        wanted = "best" if first.load_best_args else first.model_config
        size = first.buffer_size or model_defaults.get("buffer_size") \
            or inherited.get("buffer_size")
        published, label = model_settings(self.model, self.dataset, size, wanted,
                                          self._settings_file())
        variant_name = first.dataset_config or published.get("dataset_config")
        variant, variant_label = dataset_settings(self.dataset, variant_name)
        self.dataset_class.set_default_from_config(variant, self.parser)
        kept = {k: v for k, v in inherited.items()
                if k not in _NOT_INHERITED and k in self.parser.actions_by_dest()}
        return [
            (self.dataset, default_args(self.dataset_class), False),
            (variant_label, {k: v for k, v in variant.items()
                             if k.upper() not in _CLASS_FIELDS}, False),
            (f"{self.model}'s default", model_defaults, False),
            (label, published, True),
            ("checkpoint", kept, False),
        ]

    def _settings_file(self) -> Path | None:
        """The model's YAML: in `models/config`, or beside the plugin that brings the model."""
        own = getattr(self.model_class, "CONFIG_PATH", None)
        return Path(own) if own else model_config_path(self.model)

    def _add_backbone_args(self, first: Namespace, layers: list) -> None:
        from backbone import get_backbone_class

        name = first.backbone
        for _, values, _ in layers:
            name = first.backbone or values.get("backbone") or name
        if name is not None:
            _, own_args = get_backbone_class(name, return_args=True)
            add_dynamic_args(self.parser, f"Arguments of {name}", own_args)

    def _apply(self, label: str, values: dict[str, Any], strict: bool) -> None:
        actions = self.parser.actions_by_dest()
        for name, value in values.items():
            if name in actions:
                self._default(actions[name], value, label)
            elif strict:
                raise UsageError(f"The settings of {self.model} ({label}) name `{name}`, which is "
                                 f"no argument of {self.model}; mend the YAML file.")

    def _default(self, action: argparse.Action, value: Any, label: str) -> None:
        if value is not None and action.type is not None:
            value = self.parser.converted(action, value, label)
        action.default = value
        action.required = False
        self.sources[action.dest] = label


def describe_settings(args: Namespace, sources: dict[str, str]) -> str:
    """An aligned table of the values that somebody chose; plain defaults in one line below."""
    chosen = {name: source for name, source in sources.items()
              if hasattr(args, name) and source}
    rows = [(f"--{name}", _show(getattr(args, name)), source)
            for name, source in sorted(chosen.items(), key=lambda pair: (pair[1], pair[0]))]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    lines = [f"  {flag:<{widths[0]}}  {value:<{widths[1]}}  {source}"
             for flag, value, source in rows]
    rest = ", ".join(f"{name}={_show(value)}" for name, value in sorted(plain_args(args).items())
                     if name not in chosen and value not in (None, False, [], "")
                     and not name.startswith(("conf_", "ckpt_name")))
    defaults = textwrap.fill(f"defaults: {rest}", 100, initial_indent="  ",
                             subsequent_indent="    ")
    return "\n".join(["Settings and where they come from", *lines, defaults])


def _show(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
