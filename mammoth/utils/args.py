"""The command line's arguments, in groups, each declared once.

Nothing here imports torch, so that `main.py --help` answers at once.
"""
import argparse
import difflib
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from engine.argument_types import (
    Range,
    at_least,
    finite,
    folder,
    plain_name,
    positive,
    positive_int,
    positive_share,
    seed,
    share,
    whole,
)
from engine.errors import UsageError
from utils import binary_to_boolean_type as bool01
from utils import custom_str_underscore as name_type
from utils import field_with_aliases

# argparse takes -1 for a value, but -1e9 and -inf for flags.
_NEGATIVE_NUMBER = re.compile(r"^-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$|^-(inf|infinity|nan)$", re.I)
_OUT_OF_RANGE = re.compile(r"argument (--\w+)\S*: expected the value (.*)", re.DOTALL)


def threads_type(value: object) -> int | str:
    """Argument type for a number of threads, or `auto`."""
    if value == "auto":
        return "auto"
    try:
        number: int = Range(int, least=1, most=4096)(value)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(str(error).replace("to be", "to be auto or", 1)) from None
    return number


def settings_name(value: object) -> str:
    """Argument type for a name of settings; upstream calls the best ones `published`, too."""
    return "best" if value == "published" else plain_name(value)


class HelpFormatter(argparse.HelpFormatter):
    """Help lines that end in the default, where there is one to speak of."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=100)

    def _get_default_metavar_for_optional(self, action: argparse.Action) -> str:
        if isinstance(action.type, Range):
            return action.type.metavar
        return {int: "N", float: "X", bool01: "0|1"}.get(action.type, "NAME")

    def _get_help_string(self, action: argparse.Action) -> str:
        text, default = action.help or "", action.default
        if default is None or default in (argparse.SUPPRESS, []) or not action.option_strings \
                or action.nargs == 0:
            return text
        if isinstance(default, (bool, list)):
            default = int(default) if isinstance(default, bool) else " ".join(map(str, default))
        return f"{text} (default: {default})".strip()

    def _expand_help(self, action: argparse.Action) -> str:
        return self._get_help_string(action).replace("%%", "%")


class ArgumentParser(argparse.ArgumentParser):
    """argparse without abbreviations whose mistakes are one sentence (`UsageError`)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", HelpFormatter)
        super().__init__(*args, **kwargs)
        # Method files written for upstream say `float`; NaN and infinity are no values there.
        self.register("type", float, finite)
        self.register("type", int, whole)
        self._negative_number_matcher = _NEGATIVE_NUMBER

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, with the nearest existing argument where one was mistyped."""
        named = _OUT_OF_RANGE.match(message)
        if named:
            message = f"Expected {named[1]} {named[2]}"
        if message.startswith("unrecognized arguments:"):
            flag = next((w for w in message.split()[2:] if w.startswith("-")), "")
            known = [o for o in self._option_string_actions if o.startswith("--")]
            near = difflib.get_close_matches(flag.split("=")[0], known, n=2)
            if near:
                message += f"; did you mean {' or '.join(near)}"
        raise UsageError(message.rstrip(".") + ".")

    def converted(self, action: argparse.Action, value: Any, label: str) -> Any:
        """A value from elsewhere than the command line, as its argument's type has it.

        Args:
            label: where it comes from.

        Raises:
            UsageError: it does not fit the type or its range.
        """
        several = action.nargs in ("+", "*")
        kind = self._registry_get("type", action.type, action.type)
        try:
            if isinstance(value, dict) or isinstance(value, list) != several:
                raise ValueError(f"to be {'a list' if several else 'a single value'}, but got "
                                 f"{value!r}")
            found = [kind(v) for v in (value if several else [value])]
        except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
            said = str(error).removeprefix("expected the value ")
            raise UsageError(f"Expected --{action.dest} {said.rstrip('.')} ({label}); mend it "
                             "there.") from error
        if action.choices is not None and not set(found) <= set(action.choices):
            raise UsageError(f"Expected --{action.dest} to be one of "
                             f"{', '.join(map(str, action.choices))}, but got {value} ({label}); "
                             "mend it there.")
        return found if several else found[0]

    def actions_by_dest(self) -> dict[str, argparse.Action]:
        """Every argument by the name it has in the namespace."""
        return {action.dest: action for action in self._actions}


def add_initial_args(parser: argparse.ArgumentParser) -> None:
    """What has to be known first: it decides which other arguments exist."""
    group = parser.add_argument_group("What to run")
    group.add_argument("--model", type=name_type, required=True, help="method, e.g. er")
    group.add_argument("--dataset", type=name_type, required=True,
                       help="benchmark, e.g. seq-cifar10")
    group.add_argument("--features", type=str, metavar="NETWORK|FILE",
                       help="learn on the features of a frozen network, e.g. efficientnet-lite0 or "
                            "a name of timm; with --dataset features: an .npz file of features")
    group.add_argument("--backbone", type=name_type,
                       help="network; by default the benchmark's own")
    group.add_argument("--model_config", type=settings_name, default="default",
                       help="default: published settings where they exist; base: the method's own "
                            "defaults only; best: published settings or an error; or a name that "
                            "the method's settings file has")
    group.add_argument("--dataset_config", type=plain_name,
                       help="variant of the benchmark (a file in datasets/configs/<dataset>)")
    group.add_argument("--load_best_args", action="store_true",
                       help="old spelling of --model_config best")
    group.add_argument("--loadcheck", type=str,
                       help="checkpoint file to load weights (and everything else in it) from")


def add_experiment_args(parser: argparse.ArgumentParser) -> None:
    """Data, optimisation, validation."""
    group = parser.add_argument_group("Experiment")
    group.add_argument("--lr", type=positive, required=True, help="learning rate")
    group.add_argument("--batch_size", type=positive_int, help="samples per batch of the stream")
    group.add_argument("--joint", type=int, choices=[0, 1], default=0,
                       help="1: the data of all tasks together as a single task")
    group.add_argument("--label_perc", "--label_perc_by_task", "--lpt", dest="label_perc",
                       type=positive_share, default=1, help="labelled share of each task")
    group.add_argument("--label_perc_by_class", "--lpc", dest="label_perc_by_class",
                       type=positive_share, default=1, help="labelled share of each class")
    group.add_argument("--custom_task_order", type=str,
                       help="tasks in the order to learn them, e.g. 4,3,2,1,0")
    group.add_argument("--custom_class_order", type=str,
                       help="classes in the order to learn them, e.g. 9,8,7,6,5,4,3,2,1,0")

    group = parser.add_argument_group("Validation and length of training")
    group.add_argument("--validation", type=Range(float, least=0, below=100),
                       help="percent (or fraction below 1) of each class kept from training and "
                            "used as test set")
    group.add_argument("--validation_mode", choices=["complete", "current"], default="current",
                       help="validate on all classes so far, or on the task's own")
    group.add_argument("--temperature", type=positive,
                       help="temperature at which the method answers, softmax(outputs / T); 1 by "
                            "default")
    group.add_argument("--calibrate", type=positive_int, metavar="N",
                       help="keep N samples of the tasks so far apart, never train on them, and "
                            "answer at the temperature that fits them after each task")
    group.add_argument("--fitting_mode", choices=["epochs", "iters", "early_stopping"],
                       default="epochs", help="what ends the training of a task")
    group.add_argument("--n_epochs", type=positive_int, help="epochs per task")
    group.add_argument("--n_iters", type=positive_int,
                       help="steps per task (with --fitting_mode iters)")
    group.add_argument("--early_stopping_patience", type=positive_int, default=5,
                       help="early stopping: checks without improvement before a task ends")
    group.add_argument("--early_stopping_metric", choices=["loss", "accuracy"], default="loss",
                       help="early stopping: what has to improve on the validation set")
    group.add_argument("--early_stopping_freq", type=positive_int, default=1,
                       help="early stopping: epochs between checks")
    group.add_argument("--early_stopping_epsilon", type=at_least(0.0), default=1e-6,
                       help="early stopping: smallest change that counts as an improvement")

    group = parser.add_argument_group("Optimiser")
    group.add_argument("--optimizer", choices=["sgd", "adam", "adamw"], default="sgd",
                       help="optimiser; started anew for each task")
    group.add_argument("--optim_wd", type=at_least(0.0), default=0.0, help="weight decay")
    group.add_argument("--optim_mom", type=Range(float, least=0, below=1), default=0.0,
                       help="momentum (sgd)")
    group.add_argument("--optim_nesterov", type=bool01, default=False,
                       help="Nesterov's form of momentum (sgd)")
    group.add_argument("--drop_last", type=bool01, default=False,
                       help="skip an incomplete last batch")
    group.add_argument("--lr_scheduler", type=str,
                       help="how the learning rate falls: multisteplr or cosine")
    group.add_argument("--scheduler_mode", choices=["epoch", "iter"], default="epoch",
                       help="what --lr_scheduler and --lr_milestones count")
    group.add_argument("--lr_milestones", type=positive_int, nargs="+", default=[],
                       help="multisteplr: epochs (or steps) at which the learning rate falls")
    group.add_argument("--sched_multistep_lr_gamma", type=positive, default=0.1,
                       help="multisteplr: factor by which the learning rate falls")

    group = parser.add_argument_group("Label noise")
    group.add_argument("--noise_type", default="symmetric",
                       help="kind of label noise: symmetric or asymmetric (CIFAR only)",
                       type=field_with_aliases({"symmetric": ["sym", "symm"],
                                                "asymmetric": ["asym", "asymm"]}))
    group.add_argument("--noise_rate", type=share, default=0.0,
                       help="share of the training labels made wrong")
    group.add_argument("--disable_noisy_labels_cache", type=bool01, default=False,
                       help="draw the wrong labels anew instead of keeping them in a file")
    group.add_argument("--cache_path_noisy_labels", type=folder, default="noisy_labels",
                       help="folder of kept wrong labels, below --base_path")


def add_management_args(parser: argparse.ArgumentParser) -> None:
    """Seeds, folders, logging, checkpoints: what does not change the method."""
    group = parser.add_argument_group("Run")
    group.add_argument("--seed", type=seed,
                       help="seed of all random numbers; drawn and printed when not given")
    group.add_argument("--permute_classes", type=bool01, default=False,
                       help="shuffle the classes over the tasks (by the seed)")
    group.add_argument("--base_path", type=folder, default="./data/",
                       help="folder of datasets and results")
    group.add_argument("--results_path", type=folder, default="results/",
                       help="folder of results, below --base_path unless absolute")
    group.add_argument("--device", type=str,
                       help="where to compute: cpu, mps, or GPU numbers; default: the best")
    group.add_argument("--threads", type=threads_type, default="auto",
                       help="threads to compute with; auto: one for small networks, all cores that "
                            "the process may use for others")
    group.add_argument("--num_workers", type=Range(int, least=0, most=256),
                       help="loader processes for datasets that are not held in memory")
    group.add_argument("--notes", type=str, help="free text kept with the results")
    group.add_argument("--eval_epochs", type=positive_int,
                       help="evaluate every N epochs too, not only after each task")
    group.add_argument("--enable_other_metrics", type=bool01, default=False,
                       help="measure backward and forward transfer and forgetting too")
    group.add_argument("--non_verbose", type=bool01, default=False,
                       help="show neither the settings nor a progress bar")
    group.add_argument("--verbose", type=bool01, default=False,
                       help="print every setting with its source, not only those that were chosen")
    group.add_argument("--disable_log", type=bool01, default=False, help="write no results")
    group.add_argument("--debug_mode", type=bool01, default=False,
                       help="smoke test: one epoch of 4 batches per task, few test samples")
    group.add_argument("--inference_only", type=bool01, default=False,
                       help="evaluate what --loadcheck holds, without training")
    group.add_argument("--tensorboard", type=bool01, default=False,
                       help="write curves for TensorBoard (extra `logging`)")
    group.add_argument("--wandb_name", type=str, help="name of the run in Weights & Biases")
    group.add_argument("--wandb_entity", type=str, help="team or user in Weights & Biases")
    group.add_argument("--wandb_project", type=str,
                       help="project in Weights & Biases; logs there (extra `wandb`; "
                            "WANDB_MODE=offline works)")

    group = parser.add_argument_group("Checkpoints")
    group.add_argument("--checkpoint_path", type=folder, default="./checkpoints/",
                       help="folder of the checkpoints")
    group.add_argument("--savecheck", choices=["last", "task", "epoch"],
                       help="save after the last task, each task, or each epoch")
    group.add_argument("--ckpt_name", type=plain_name, help="prefix of the checkpoints' names")
    group.add_argument("--save_checkpoint_mode", choices=["safe"], default="safe",
                       help="format of checkpoints: plain data only, upstream's old_pickle is not "
                            "offered")
    group.add_argument("--resume", nargs="?", const="auto", metavar="CHECKPOINT",
                       help="go on where the same command was killed (or from a given file)")
    group.add_argument("--start_from", type=at_least(0),
                       help="number of the first task to train, counted from 0")
    group.add_argument("--stop_after", type=positive_int,
                       help="stop before the task with this number, counted from 0")
    group.add_argument("--save_after_interrupt", type=bool01, default=True,
                       help="save a checkpoint on Ctrl-C or SIGTERM")


def add_rehearsal_args(parser: argparse.ArgumentParser) -> None:
    """What every method with a buffer takes."""
    parser.add_argument("--buffer_size", type=positive_int, required=True,
                        help="samples that the buffer holds")
    parser.add_argument("--minibatch_size", type=at_least(0),
                        help="samples replayed per step; default: --batch_size")


def add_features_args(parser: argparse.ArgumentParser) -> None:
    """How a frozen network makes features of images."""
    group = parser.add_argument_group("Features of images")
    group.add_argument("--features_size", type=Range(int, least=1, most=2048), default=128,
                       help="pixels that images are scaled to")
    group.add_argument("--features_weights", type=str, metavar="FILE",
                       help="the network's weights, instead of the packaged or downloaded ones")


def add_dynamic_args(parser: argparse.ArgumentParser, title: str,
                     specs: dict[str, dict[str, Any]]) -> None:
    """Turn a constructor's parameters (`registry.parsable_args`) into arguments."""
    known = {action.dest for action in parser._actions}
    group = parser.add_argument_group(title)
    for name, spec in specs.items():
        if name in known:
            continue
        kind = bool01 if spec["type"] is bool else spec["type"]
        group.add_argument(f"--{name}", type=kind, default=spec["default"],
                           required=spec["required"], choices=spec.get("choices"),
                           help=spec.get("help") or name.replace("_", " "))


def check_no_duplicates(cmd: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """A flag given twice is a mistake in a script, not a wish for the second value.

    Raises:
        UsageError: naming the flag.
    """
    seen: dict[str, str] = {}
    for word in cmd:
        flag = word.split("=")[0]
        action = parser._option_string_actions.get(flag)
        if action is None:
            continue
        if action.dest in seen:
            raise UsageError(f"{flag} is given twice; keep one of them.")
        seen[action.dest] = flag


def given_on_command_line(cmd: Sequence[str], parser: argparse.ArgumentParser) -> set[str]:
    """The arguments (by dest) that the user typed."""
    options = parser._option_string_actions
    return {options[word.split("=")[0]].dest for word in cmd if word.split("=")[0] in options}
