"""From a command line to a namespace in which every value knows where it came from.

All settings are resolved here, before anything uses them. Weakest to strongest:

    the argument's own default, or what the benchmark has instead
    the method's default        (`set_defaults` in its parser, `default` in its YAML file)
    the method in this setting  (`class-il`, `domain-il`)
    the method on this benchmark
    the method on this benchmark with this buffer size
    a variant of the benchmark  (`--dataset_config`)
    a checkpoint                (`--loadcheck`)
    the command line
"""
import argparse
import copy
import sys
import textwrap
from argparse import Namespace
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from engine.argument_rules import refuse_incompatible
from engine.config import config_names, dataset_settings, method_layers, model_config_path
from engine.errors import UsageError
from engine.plugins import add_plugin_arguments
from engine.settings import Layer, Query, fold
from utils import binary_to_boolean_type as bool01
from utils.args import (
    ArgumentParser,
    add_dynamic_args,
    add_experiment_args,
    add_features_args,
    add_initial_args,
    add_management_args,
    check_no_duplicates,
    given_on_command_line,
)
from utils.loggers import plain_args

COMMAND_LINE = "command line"
_MISSING_HINTS = {
    "lr": "there is no published learning rate of {model} on {dataset}",
    "buffer_size": "{model} replays samples from a buffer",
    "classes_per_task": "a file of features does not say which classes make a task",
}


def peek(cmd: Sequence[str]) -> Namespace:
    """What decides which arguments exist, read before the full parser can be built."""
    parser = ArgumentParser(add_help=False)
    add_initial_args(parser)
    parser.add_argument("--buffer_size", type=_size_or_none)
    parser.add_argument("--resume", nargs="?", const="auto")
    parser.add_argument("--inference_only", type=bool01, default=False)
    parser.add_argument("-h", "--help", action="store_true")
    for action in parser._actions:
        action.required = False
    return parser.parse_known_args(list(cmd))[0]


def _size_or_none(word: str) -> int | None:
    """A buffer size as far as it chooses settings; the full parser says what is wrong with one."""
    return int(word) if word.isdecimal() and len(word) < 20 else None


def command_name() -> str:
    """The command as it was called: `mammoth` where it is installed, else `main.py`."""
    return "mammoth" if Path(sys.argv[0]).name == "mammoth" else "main.py"


def general_parser() -> ArgumentParser:
    """The arguments that every run has."""
    parser = ArgumentParser(prog=command_name(), add_help=False,
                            usage=f"{command_name()} --model NAME --dataset NAME [arguments]",
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
        checkpoint_args: what is taken over from a checkpoint (`engine.inheritance`).
    """

    def __init__(self, cmd: Sequence[str], checkpoint_args: dict[str, Any] | None = None) -> None:
        from datasets import get_dataset_class
        from models import get_model_class

        self.cmd = list(cmd)
        self.sources: dict[str, str] = {}
        inherited = checkpoint_args or {}
        first = peek(cmd)
        model = first.model or inherited.get("model")
        dataset = first.dataset or inherited.get("dataset")
        if model is None or dataset is None:
            missing = "--model" if model is None else "--dataset"
            raise UsageError(f"{missing} is needed, e.g. {command_name()} --model er --dataset "
                             "seq-digits --buffer_size 200; --help lists all.")
        self.model: str = model
        self.dataset: str = dataset
        self.features = first.features or inherited.get("features")
        _, own_args = get_dataset_class(self.dataset, return_args=True)
        self.dataset_class, own_args = get_dataset_class(Namespace(**{
            **inherited, **self._typed_of(own_args), "dataset": self.dataset,
            "features": self.features, "help": first.help}), return_args=True)
        self.model_class = get_model_class(self.model)
        refuse_incompatible(self.model, self.model_class, self.dataset, self.dataset_class)
        self.parser = general_parser()
        model_defaults = self._add_model_args()
        add_dynamic_args(self.parser, f"Arguments of {self.dataset}", own_args)
        if self.features and self.dataset != "features":
            add_features_args(self.parser)
        self.dataset_fields: dict[str, Any] = {}  # what the variant changes besides arguments
        layers = self._layers(first, model_defaults, inherited)
        self._add_backbone_args(first, layers)
        self._apply(layers)

    def _typed_of(self, specs: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """Values of a benchmark's own arguments, which may decide what the benchmark is."""
        parser = ArgumentParser(add_help=False)
        add_dynamic_args(parser, "", {name: {**spec, "required": False}
                                      for name, spec in specs.items()})
        return vars(parser.parse_known_args(self.cmd)[0])

    @property
    def typed(self) -> set[str]:
        """The arguments on the command line."""
        return given_on_command_line(self.cmd, self.parser)

    def parse(self) -> Namespace:
        """Read the command line over all defaults; `sources` then covers what was typed too."""
        check_no_duplicates(self.cmd, self.parser)
        self._check_unknown()
        needed = self.parser.actions_by_dest()
        # The size of the buffer chooses among published settings: what else is missing follows.
        for dest in sorted(needed, key=lambda dest: dest != "buffer_size"):
            if needed[dest].required and dest not in self.typed:
                why = _MISSING_HINTS.get(dest, self._unnamed()).format(
                    model=self.model, dataset=self.dataset)
                raise UsageError(f"--{dest} is needed: {why}; give one.")
        args = self.parser.parse_args(self.cmd)
        for dest in self.typed:
            self.sources[dest] = COMMAND_LINE
        return args

    def _unnamed(self) -> str:
        """Why an argument has no value, where the method's settings could have named one."""
        file = self._settings_file()
        if file is None:
            return "{model} asks for it"
        if peek(self.cmd).model_config == "base":
            return "--model_config base leaves out what {model} has for benchmarks"
        return f"{file.name} names no value for {{dataset}}"

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
        if names := config_names(self._settings_file()):
            known["model_config"].help = f"{known['model_config'].help} ({', '.join(names)})"
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
                inherited: dict[str, Any]) -> list[Layer]:
        """All layers below the command line, weakest first."""
        from datasets.utils import default_args

        self._own_defaults = Layer(f"{self.model}'s default", model_defaults)
        query = Query(
            self.model, "features" if self.features else self.dataset,
            getattr(self.dataset_class, "SETTING", ""),
            first.buffer_size or model_defaults.get("buffer_size") or inherited.get("buffer_size"),
            "best" if first.load_best_args else first.model_config)
        self._method_layers = self._with_borrowed(query)
        variant = first.dataset_config or inherited.get("dataset_config") \
            or fold(self._method_layers, {}).get("dataset_config", (None, ""))[0]
        return [Layer(self.dataset, default_args(self.dataset_class)), self._own_defaults,
                *self._method_layers, self._variant_layer(variant), Layer("checkpoint", inherited)]

    def _with_borrowed(self, query: Query) -> list[Layer]:
        """The method's layers, with those for the benchmark that this one is like under its own.

        What the benchmark decides by itself, such as how long to train, is not borrowed.
        """
        from datasets.utils import default_args

        file, like = self._settings_file(), getattr(self.dataset_class, "LIKE", None)
        own = method_layers(query, file)
        if like is None or query.which == "base":
            return own
        decided, layers = default_args(self.dataset_class), []
        which = "default" if query.which == "best" else query.which
        for layer in method_layers(query._replace(benchmark=like, which=which), file):
            shared = layer in own
            layers.append(layer if shared else Layer(
                f"as {like}: {layer.source.replace(f': {like}', '')}",
                {k: v for k, v in layer.values.items() if k not in decided}, *layer[2:]))
        return layers + [layer for layer in own if layer not in layers]

    def _variant_layer(self, name: str | None) -> Layer:
        """The arguments of a benchmark's variant; its other fields are set on the class."""
        content, label = dataset_settings(self.dataset, name)
        self._class_attributes = set(dir(self.dataset_class))
        arguments = self.dataset_class.set_default_from_config(content, self.parser)
        self.dataset_fields = {k: v for k, v in content.items() if k not in arguments}
        self._variant = Layer(label, arguments)
        return self._variant

    def _settings_file(self) -> Path | None:
        """The model's YAML: in `models/config`, or beside the plugin that brings the model."""
        own = getattr(self.model_class, "CONFIG_PATH", None)
        return Path(own) if own else model_config_path(self.model)

    def _add_backbone_args(self, first: Namespace, layers: list[Layer]) -> None:
        from backbone import get_backbone_class

        name = first.backbone or fold(layers, {}).get("backbone", (None, ""))[0]
        if name is not None:
            _, own_args = get_backbone_class(name, return_args=True)
            add_dynamic_args(self.parser, f"Arguments of {name}", own_args)

    def _apply(self, layers: list[Layer]) -> None:
        """Make the resolved values the defaults of the parser."""
        actions = self.parser.actions_by_dest()
        for layer in self._method_layers:
            self._check_names(layer, self.model, actions)
        self._check_names(self._variant, self.dataset, {*actions, *self._class_attributes})
        switches = {layer.switch for layer in layers if layer.switch}
        for name, (value, source) in fold(layers, self._typed(switches)).items():
            if name in actions:
                self._default(actions[name], value, source)

    @staticmethod
    def _check_names(layer: Layer, owner: str, known: Collection[str]) -> None:
        """A name that nothing reads is a mistake in the file."""
        for name in (*layer.values, *([layer.switch] if layer.switch else [])):
            if name not in known:
                raise UsageError(f"The settings of {owner} ({layer.source}) name `{name}`, which "
                                 f"is no argument of {owner}; mend the YAML file.")

    def _typed(self, names: set[str]) -> dict[str, Any]:
        """What the command line says of some arguments."""
        if not names:
            return {}
        parser = ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
        for name in names:
            action = copy.copy(self.parser.actions_by_dest()[name])
            action.default, action.required = argparse.SUPPRESS, False
            parser._add_action(action)
        return vars(parser.parse_known_args(self.cmd)[0])

    def _default(self, action: argparse.Action, value: Any, source: str) -> None:
        """Make a value of a settings file the default, if it is one that could be typed.

        What a method's own code sets is taken as it is: some have no use for an argument and say
        so with a value that nobody could type (`set_defaults(lr=0)`).
        """
        in_code = value is None or source == f"{self.model}'s default"
        action.default = value if in_code else self.parser.converted(action, value, source)
        action.required = False
        self.sources[action.dest] = source


def describe_settings(args: Namespace, sources: dict[str, str]) -> str:
    """What differs from the method's and the harness's defaults, one line per source.

    `--verbose 1` makes it a table of every value, each with its source.
    """
    chosen = {name: source for name, source in sources.items()
              if hasattr(args, name) and source}
    if args.verbose:
        return _every_setting(args, chosen)
    by_source: dict[str, list[str]] = {}
    for name, source in chosen.items():
        if name not in ("model", "dataset", "verbose") and not source.endswith(": default"):
            by_source.setdefault(source, []).append(f"{name} {_show(getattr(args, name))}")
    lines = [textwrap.fill(f"{source}: {', '.join(sorted(values))}", 100, initial_indent="  ",
                           subsequent_indent="    ") for source, values in by_source.items()]
    return "\n".join(["Settings beside the defaults (--verbose 1 prints all):", *sorted(lines)])


def _every_setting(args: Namespace, chosen: dict[str, str]) -> str:
    """An aligned table: argument, value, source."""
    defaults = {name: "default" for name in plain_args(args)
                if name not in chosen and not name.startswith(("conf_", "ckpt_name", "data_facts"))}
    rows = [(f"--{name}", _show(getattr(args, name)), source) for name, source in
            sorted({**chosen, **defaults}.items(),
                   key=lambda pair: (pair[0] in defaults, pair[1], pair[0]))]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
    return "\n".join(["Settings and where they come from",
                      *(f"  {flag:<{widths[0]}}  {value:<{widths[1]}}  {source}"
                        for flag, value, source in rows)])


def _show(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
