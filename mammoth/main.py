"""Train and evaluate a continual-learning method: the command line.

    python mammoth/main.py --model er --dataset seq-cifar10 --buffer_size 200
"""
import logging
import os
import sys
import time
import uuid
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
if sys.path[:1] != [_HERE]:
    # Upstream's import names (`models`, `utils`, ...) must mean this folder.
    sys.path[:] = [_HERE, *(p for p in sys.path if p != _HERE)]

from engine.errors import UsageError, keep_tracebacks_in, sentence_and_code  # noqa: E402


def parse_args(cmd: Sequence[str] | None = None) -> Namespace:
    """Turn a command line into the run's arguments.

    Args:
        cmd: the words after `main.py`; those of the process by default.

    Raises:
        UsageError: something is wrong with them, in one sentence.
        SystemExit: `--help` was asked for and printed.
    """
    from engine.parsing import SettingsBuilder, peek
    from engine.plugins import load_plugins

    cmd = list(sys.argv[1:] if cmd is None else cmd)
    load_plugins()
    first = peek(cmd)
    if first.help and not (first.model and first.dataset):
        print_general_help(first)
        raise SystemExit(0)
    origin = _origin(first)
    builder = SettingsBuilder(cmd, origin.settings() if origin else {})
    if first.help:
        print(builder.parser.format_help())
        raise SystemExit(0)
    args = builder.parse()
    args.conf_sources = builder.sources
    if getattr(builder.dataset_class, "FACTS", None) is not None:  # what its data are
        args.data_facts = builder.dataset_class.FACTS
    if builder.dataset_fields:  # what a variant changes besides arguments decides numbers too
        args.dataset_fields = builder.dataset_fields
    if origin is not None:
        origin.check({name: getattr(args, name) for name in builder.typed},
                     builder.model_class.INFERENCE_ARGUMENTS)
    complete_args(args, builder.dataset_class, origin)
    check_args(args, builder.dataset_class, builder.model_class)
    if origin is not None:
        origin.report_gaps(args, builder.typed)
    return args


def _origin(first: Namespace) -> Any:
    """The checkpoint that the command starts from, if any (`engine.inheritance.Origin`)."""
    if first.resume in (None, "auto") and first.loadcheck is None:
        return None
    from engine.inheritance import find_origin

    return find_origin(first)


def print_general_help(first: Namespace) -> None:
    """The page that `--help` prints at once: general arguments and all the names."""
    import textwrap

    from backbone import get_backbone_names
    from datasets import get_dataset_names
    from engine.parsing import command_name, general_parser
    from models import REGISTRY

    parser = general_parser()
    if first.model:
        parser = REGISTRY.entry(first.model)["class"].get_parser(parser)
    print(parser.format_help())
    for kind, names in (("models", REGISTRY.names()),
                        ("datasets", get_dataset_names(names_only=True)),
                        ("backbones", get_backbone_names(names_only=True))):
        print(textwrap.fill(f"{kind}: {', '.join(names)}", 96, subsequent_indent="  "))
    print(f"\nexample: {command_name()} --model er --dataset seq-digits --buffer_size 200")


def complete_args(args: Namespace, dataset_class: type, origin: Any = None) -> None:
    """Fill in what follows from the rest: replay size, network size, seed, names of the run."""
    import torch

    from engine.debug_mode import shorten
    from engine.identity import run_key
    from engine.run_folder import DRAWN

    if "minibatch_size" in args and args.minibatch_size is None:
        args.minibatch_size = args.batch_size
    shorten(args)
    if args.load_best_args:
        args.model_config = "best"
    complete_backbone_args(args, dataset_class)
    if origin is not None:
        args.loadcheck_digest = origin.weights_digest()
    unsay(args, dataset_class)
    if args.features or args.dataset == "features":
        from datasets.utils.features import features_identity
        args.features_digest = features_identity(args)
    if origin is not None:
        origin.check_features(getattr(args, "features_digest", None))
    args.conf_key = run_key(args)
    if args.seed is None:
        args.seed = torch.seed() % 2**31
        args.conf_sources["seed"] = DRAWN
    if args.resume and args.savecheck is None:
        args.savecheck = "task"
        args.conf_sources["savecheck"] = "implied by --resume"
    args.conf_jobnum = str(uuid.uuid4())
    args.conf_timestamp = time.strftime("%Y-%m-%d %H:%M:%S")
    args.ckpt_name = checkpoint_name(args)
    if origin is not None and args.resume:
        args.loadcheck, args.ckpt_name = origin.path, origin.checkpoint_name()


def unsay(args: Namespace, dataset_class: type) -> None:
    """Nothing said is the one spelling of what changes nothing: the same run has one key."""
    if not args.validation:
        args.validation = None
    if str(args.lr_scheduler).lower() == "none":
        args.lr_scheduler = None
    size = getattr(args, "image_size", None)
    # A benchmark's own size; not where it follows from the data, or where another is the default.
    if size and (size, size) == getattr(dataset_class, "SIZE", None) \
            and not hasattr(dataset_class, "resolved") \
            and "image_size" not in getattr(dataset_class, "DEFAULTS", {}):
        args.image_size = None
    if args.start_from == 0 and getattr(args, "loadcheck_digest", None) is None:
        args.start_from = None
    if args.stop_after is not None and args.stop_after == getattr(dataset_class, "N_TASKS", None):
        args.stop_after = None


def complete_backbone_args(args: Namespace, benchmark: Any) -> None:
    """The sizes that a network takes from the benchmark (its class or the benchmark itself)."""
    import math

    from backbone import get_backbone_class
    from datasets.utils.continual_dataset import count_classes

    known = get_backbone_class(args.backbone, return_args=True)[1] if args.backbone else ()
    if "num_classes" in known and getattr(args, "num_classes", None) is None:
        args.num_classes = count_classes(benchmark)
    if "input_size" in known and "input_size" not in getattr(args, "conf_sources", {}) \
            and getattr(benchmark, "SIZE", None) is not None:
        channels = len(benchmark.MEAN) if getattr(benchmark, "MEAN", None) is not None else 1
        smaller = getattr(args, "image_size", None) if len(benchmark.SIZE) == 2 else None
        args.input_size = (smaller**2 if smaller else math.prod(benchmark.SIZE)) * channels


def checkpoint_name(args: Namespace) -> str:
    """What the checkpoints of this run are called, without the part that tells them apart.

    Raises:
        UsageError: `--ckpt_name` cannot be the beginning of a file's name.
    """
    from engine.checkpoint_schema import is_file_name

    prefix = f"{args.ckpt_name}_" if args.ckpt_name else ""
    variant = "".join(c if c.isalnum() else "-" for c in str(args.dataset_config))
    name = "_".join(map(str, (
        f"{prefix}{args.model}", args.dataset, variant, getattr(args, "buffer_size", 0),
        args.n_epochs, time.strftime("%Y%m%d-%H%M%S"), args.conf_key)))
    if not is_file_name(name):
        raise UsageError(f"Expected --ckpt_name to be the beginning of a file name (letters, "
                         f"digits, . _ - , + =, at most 100 of them), but got `{args.ckpt_name}`.")
    return name


def check_args(args: Namespace, dataset_class: type, model_class: type) -> None:
    """Refuse what cannot work, before any data is read.

    Raises:
        UsageError: with the remedy.
    """
    from engine.argument_rules import broken_rule

    message = broken_rule(args, dataset_class, model_class)
    if message:
        raise UsageError(message)


def initialize(args: Namespace | None = None) -> tuple[Any, Any, Namespace]:
    """Build what a run needs.

    Returns:
        (model, dataset, args)
    """
    args = parse_args() if args is None else args
    from backbone import get_backbone
    from datasets import get_dataset
    from engine.heap import keep_freed_memory
    from engine.preflight import check_memory, check_network
    from engine.threads import use_threads
    from models import get_model
    from utils.conf import base_path, get_checkpoint_path, get_device, set_random_seed

    get_device(args.device)
    base_path(args.base_path)
    get_checkpoint_path(args.checkpoint_path)
    set_random_seed(args.seed)
    dataset = get_dataset(args)
    complete_backbone_args(args, dataset)
    check_memory(args, dataset)
    net = get_backbone(args)
    check_network(args, net, dataset)
    use_threads(args, net, dataset)
    keep_freed_memory()
    model = get_model(args, net, dataset.get_loss(), dataset.get_transform(), dataset)
    return model, dataset, args


def run(args: Namespace) -> dict:
    """One experiment from its arguments; returns what result.json holds."""
    from engine.run_folder import only_process

    done = _finished(args)
    if done is not None:
        return done
    if not args.resume or args.disable_log:
        return _run(args)
    with only_process(args, args.conf_key):
        done = _finished(args)  # by the process that was at it until now
        return _run(args) if done is None else done


def _finished(args: Namespace) -> dict | None:
    """`--resume`: the result of the same run, if it was finished before."""
    from engine.run_folder import finished_result

    done = finished_result(args, args.conf_key) if args.resume else None
    if done is None:
        return None
    print(f"This run is finished already.\nResult: {done[0]}")
    return done[1]


def _run(args: Namespace) -> dict:
    from engine.parsing import describe_settings
    from engine.threads import where
    from utils.training import train

    if args.resume == "auto":
        _find_checkpoint(args)
    model, dataset, args = initialize(args)
    if not args.non_verbose:
        print(describe_settings(args, args.conf_sources))
        if hasattr(dataset, "describe"):
            print(dataset.describe())
        print(f"Running {model.NAME} on {dataset.NAME} ({dataset.SETTING}, {dataset.N_TASKS} tasks)"
              f" with {args.backbone} on {where(model.device)}", flush=True)
    return train(model, dataset, args)


def _find_checkpoint(args: Namespace) -> None:
    """`--resume`: point `--loadcheck` at the newest checkpoint, if there is one."""
    from engine.inheritance import Origin, Purpose
    from utils.checkpoints import newest_checkpoint
    from utils.conf import get_checkpoint_path

    get_checkpoint_path(args.checkpoint_path)
    found = newest_checkpoint(args.conf_key)
    if found is None:
        print("Nothing to resume: no checkpoint of this command; starting afresh.",
              file=sys.stderr)
        return
    path, state = found
    origin = Origin(str(path), Purpose.RESUME, state["args"])
    origin.check({"model": args.model, "dataset": args.dataset})
    args.loadcheck, args.ckpt_name = origin.path, origin.checkpoint_name()
    args.seed = origin.seed()


def main(args: Namespace | None = None) -> dict:
    """Parse (unless given arguments) and run; errors are exceptions."""
    return run(parse_args() if args is None else args)


def cli() -> int:
    """The process: one sentence on stderr and an exit code for whatever goes wrong.

    Exit codes: 0 done, 1 the run failed, 2 a mistake of the user, 130 and 143 interrupted.
    """
    from engine.heap import importing
    from engine.streams import make_patient

    make_patient()
    keep_tracebacks_in(None)
    try:
        set_log_level(os.environ.get("LOG_LEVEL", "WARNING"))
        with importing():
            args = parse_args()
        main(args)
    except (Exception, KeyboardInterrupt) as error:
        sentence, code = sentence_and_code(error)
        print(f"error: {sentence}", file=sys.stderr)
        return code
    finally:
        sys.stdout.flush()
    return 0


def set_log_level(name: str) -> None:
    """How much the harness tells about itself on stderr.

    Raises:
        UsageError: there is no such level.
    """
    levels = logging.getLevelNamesMapping()
    if name.upper() not in levels:
        raise UsageError(f"Expected the environment's LOG_LEVEL to be one of "
                         f"{', '.join(sorted(levels, key=levels.__getitem__))}, but got `{name}`.")
    logging.basicConfig(level=levels[name.upper()], format="[%(levelname)s] %(message)s",
                        stream=sys.stderr)


if __name__ == "__main__":
    sys.exit(cli())
