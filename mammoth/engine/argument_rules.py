"""Combinations of arguments that cannot work, each with the sentence that says so.

What a single argument takes is declared with the argument (see `engine.argument_types`).
"""
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.errors import UsageError

if TYPE_CHECKING:  # a page of help needs neither
    from datasets.utils.continual_dataset import ContinualDataset
    from models.utils.continual_model import ContinualModel

    Dataset = type[ContinualDataset]
    Model = type[ContinualModel]


def refuse_incompatible(model: str, model_class: "Model", dataset: str,
                        dataset_class: "Dataset") -> None:
    """The first question: can this method learn this benchmark at all?

    Raises:
        UsageError: it cannot, whatever the arguments are; or the benchmark is not complete.
    """
    for name, thing, field in ((dataset, dataset_class, "SETTING"),
                               (model, model_class, "COMPATIBILITY")):
        if not getattr(thing, field, None):
            raise UsageError(f"{name} is not complete: its class {thing.__name__} does not define "
                             f"{field}; add it there.")
    setting = dataset_class.SETTING
    fine = {setting, "task-il"} if setting == "class-il" else {setting}
    if not fine & set(model_class.COMPATIBILITY):
        raise UsageError(f"{model} works in {', '.join(model_class.COMPATIBILITY)}, but {dataset} "
                         f"is {setting}; choose another model or dataset.")


def broken_rule(args: Namespace, dataset_class: "Dataset", model_class: "Model") -> str | None:
    """The first rule that the arguments break, as a sentence; None when all is well."""
    checks = (_sizes, _shares, _optimiser, _fitting, _joint, _checkpoints, _general_continual,
              _closed_form, _at_the_end)
    for check in checks:
        for message in check(args, dataset_class, model_class):
            return message
    return None


def _sizes(args: Namespace, dataset: "Dataset", model: "Model") -> Iterator[str]:
    if args.batch_size is None:
        yield f"--batch_size is needed: {args.dataset} has no default; give one."


def _shares(args: Namespace, dataset: "Dataset", model: "Model") -> Iterator[str]:
    if args.label_perc != 1 and args.label_perc_by_class != 1:
        yield "--label_perc and --label_perc_by_class exclude each other; keep one."


def _optimiser(args: Namespace, dataset: "Dataset", model: "Model") -> Iterator[str]:
    if args.optimizer not in model.AVAIL_OPTIMS:
        yield (f"{args.model} works with --optimizer {' or '.join(model.AVAIL_OPTIMS)}, but got "
               f"{args.optimizer}.")
    if args.optimizer == "sgd" and args.optim_nesterov and not args.optim_mom:
        yield "--optim_nesterov 1 needs a momentum; give --optim_mom, e.g. 0.9."
    name = args.lr_scheduler
    if name is not None and str(name).lower() not in ("none", *dataset.AVAIL_SCHEDS):
        yield f"Expected --lr_scheduler to be multisteplr or cosine, but got {name}."
    if name == "multisteplr" and not args.lr_milestones:
        yield "--lr_scheduler multisteplr needs --lr_milestones, e.g. 35 45."


def _fitting(args: Namespace, dataset: "Dataset", model: "Model") -> Iterator[str]:
    if args.fitting_mode == "iters" and args.n_iters is None:
        yield "--fitting_mode iters needs --n_iters."
    if args.fitting_mode == "epochs" and args.n_epochs is None:
        yield f"--n_epochs is needed: {args.dataset} has no default; give one."
    if args.fitting_mode == "early_stopping" and not args.validation:
        yield "--fitting_mode early_stopping needs --validation, e.g. 10 (percent)."


def _joint(args: Namespace, dataset: "Dataset", model: "Model") -> Iterator[str]:
    if not args.joint:
        return
    if not dataset.can_join():
        yield (f"--joint 1 makes one task of several, but {args.dataset} ({dataset.SETTING}) "
               "cannot do that; leave it out.")
    if args.start_from is not None or args.stop_after is not None or args.enable_other_metrics:
        yield ("--joint 1 has a single task, so leave out --start_from, --stop_after and "
               "--enable_other_metrics.")


def _checkpoints(args: Namespace, dataset: "Dataset", model: "Model") -> Iterator[str]:
    if args.inference_only and args.savecheck:
        yield "--inference_only 1 trains nothing to save; leave out --savecheck."
    if args.inference_only and (args.start_from is not None or args.stop_after is not None):
        yield ("--inference_only 1 evaluates all tasks that were learned: leave out --start_from "
               "and --stop_after.")
    if args.inference_only and not args.loadcheck and args.resume in (None, "auto"):
        yield ("--inference_only 1 evaluates a trained model, but none is named; give --loadcheck "
               "CHECKPOINT, or leave out --inference_only.")
    if args.disable_log and (args.tensorboard or args.wandb_project):
        yield "--tensorboard and --wandb_project write into the results; leave out --disable_log."
    n_tasks = getattr(dataset, "N_TASKS", 1)  # a stream without tasks has none
    if n_tasks is not None:  # a file of features says it when it is read
        yield from tasks_out_of_range(args, n_tasks)
    if args.custom_class_order and (args.custom_task_order or args.permute_classes):
        yield ("--custom_class_order excludes --custom_task_order and --permute_classes; keep "
               "one.")


def tasks_out_of_range(args: Namespace, n_tasks: int) -> Iterator[str]:
    """What is wrong with --start_from and --stop_after in a benchmark of so many tasks."""
    for name in ("start_from", "stop_after"):
        value = getattr(args, name)
        if value is not None and value > n_tasks:
            yield f"Expected --{name} to lie in 0..{n_tasks}, but got {value}."
    first, end = args.start_from or 0, n_tasks if args.stop_after is None else args.stop_after
    if first >= end:
        yield (f"There is no task from --start_from {first} to before {end} of {n_tasks}; lower "
               "--start_from or raise --stop_after.")


def _general_continual(args: Namespace, dataset: "Dataset", model: "Model") -> Iterator[str]:
    if dataset.SETTING != "general-continual":
        return
    if args.n_epochs != 1:
        yield f"{args.dataset} is a stream seen once: use --n_epochs 1."
    if args.enable_other_metrics or args.noise_rate or args.calibrate:
        yield (f"{args.dataset} is a stream without tasks: leave out --enable_other_metrics, "
               "--noise_rate and --calibrate.")


def _closed_form(args: Namespace, dataset: "Dataset", model: "Model") -> Iterator[str]:
    if getattr(model, "TRAINS_BY_GRADIENT", True):
        return
    for name in ("lr", "lr_scheduler"):
        if args.conf_sources.get(name) == "command line":
            yield f"{args.model} is solved in closed form: leave out --{name}."
    if args.n_epochs != 1 or args.fitting_mode == "early_stopping":
        yield (f"{args.model} is solved in closed form and sees every sample once: use --n_epochs "
               "1 and leave out --fitting_mode early_stopping.")


def _at_the_end(args: Namespace, dataset: type, model: type) -> Iterator[str]:
    """A bound that learns all tasks together knows tasks and ends of training of no other kind."""
    if getattr(model, "LEARNS_EACH_TASK", True):
        return
    if args.start_from or args.stop_after not in (None, getattr(dataset, "N_TASKS", None)):
        yield (f"{args.model} trains on all tasks together, after the last one: leave out "
               "--start_from and --stop_after.")
    if args.fitting_mode != "epochs" or args.scheduler_mode != "epoch":
        yield (f"{args.model} trains for --n_epochs: leave out --fitting_mode and "
               "--scheduler_mode.")
