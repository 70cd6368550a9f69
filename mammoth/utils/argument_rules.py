"""Combinations of arguments that cannot work, each with the sentence that says so."""
from argparse import Namespace
from collections.abc import Iterator


def broken_rule(args: Namespace, dataset_class: type, model_class: type) -> str | None:
    """The first rule that the arguments break, as a sentence; None when all is well."""
    checks = (_compatibility, _sizes, _shares, _fitting, _joint, _checkpoints, _general_continual)
    for check in checks:
        for message in check(args, dataset_class, model_class):
            return message
    return None


def _compatibility(args: Namespace, dataset: type, model: type) -> Iterator[str]:
    fine = {dataset.SETTING, "task-il"} if dataset.SETTING == "class-il" else {dataset.SETTING}
    if not fine & set(model.COMPATIBILITY):
        yield (f"{args.model} works in {', '.join(model.COMPATIBILITY)}, but {args.dataset} is "
               f"{dataset.SETTING}; choose another model or dataset.")


def _sizes(args: Namespace, dataset: type, model: type) -> Iterator[str]:
    for name in ("buffer_size", "batch_size", "minibatch_size", "n_epochs", "n_iters",
                 "eval_epochs", "early_stopping_patience", "early_stopping_freq"):
        value = getattr(args, name, None)
        least = 0 if name == "minibatch_size" else 1
        if value is not None and value < least:
            yield f"Expected --{name} to be at least {least}, but got {value}."
    if args.batch_size is None:
        yield f"--batch_size is needed: {args.dataset} has no default; give one."
    if not args.lr > 0:
        yield f"Expected --lr to be above 0, but got {args.lr}."


def _shares(args: Namespace, dataset: type, model: type) -> Iterator[str]:
    for name in ("label_perc", "label_perc_by_class"):
        value = getattr(args, name)
        if not 0 < value <= 1:
            yield f"Expected --{name} to be above 0 and at most 1, but got {value}."
    if args.label_perc != 1 and args.label_perc_by_class != 1:
        yield "--label_perc and --label_perc_by_class exclude each other; keep one."
    if not 0 <= args.noise_rate <= 1:
        yield f"Expected --noise_rate to lie in [0, 1], but got {args.noise_rate}."
    if args.validation is not None and not 0 <= args.validation < 100:
        yield f"Expected --validation to be a percentage below 100, but got {args.validation}."


def _fitting(args: Namespace, dataset: type, model: type) -> Iterator[str]:
    if args.fitting_mode == "iters" and args.n_iters is None:
        yield "--fitting_mode iters needs --n_iters."
    if args.fitting_mode == "epochs" and args.n_epochs is None:
        yield f"--n_epochs is needed: {args.dataset} has no default; give one."
    if args.fitting_mode == "early_stopping" and not args.validation:
        yield "--fitting_mode early_stopping needs --validation, e.g. 10 (percent)."


def _joint(args: Namespace, dataset: type, model: type) -> Iterator[str]:
    if not args.joint:
        return
    if not dataset.can_join():
        yield (f"--joint 1 makes one task of several, but {args.dataset} ({dataset.SETTING}) "
               "cannot do that; leave it out.")
    if args.start_from is not None or args.stop_after is not None or args.enable_other_metrics:
        yield ("--joint 1 has a single task, so leave out --start_from, --stop_after and "
               "--enable_other_metrics.")


def _checkpoints(args: Namespace, dataset: type, model: type) -> Iterator[str]:
    if args.inference_only and args.savecheck:
        yield "--inference_only 1 trains nothing to save; leave out --savecheck."
    if args.disable_log and (args.tensorboard or args.wandb_project):
        yield "--tensorboard and --wandb_project write into the results; leave out --disable_log."
    n_tasks = getattr(dataset, "N_TASKS", 1)  # a stream without tasks has none
    for name in ("start_from", "stop_after"):
        value = getattr(args, name)
        if value is not None and not 0 <= value <= n_tasks:
            yield f"Expected --{name} to lie in 0..{n_tasks}, but got {value}."
    if args.custom_class_order and (args.custom_task_order or args.permute_classes):
        yield ("--custom_class_order excludes --custom_task_order and --permute_classes; keep "
               "one.")


def _general_continual(args: Namespace, dataset: type, model: type) -> Iterator[str]:
    if dataset.SETTING != "general-continual":
        return
    if args.n_epochs != 1:
        yield f"{args.dataset} is a stream seen once: use --n_epochs 1."
    if args.enable_other_metrics or args.noise_rate:
        yield (f"{args.dataset} is a stream without tasks: leave out --enable_other_metrics and "
               "--noise_rate.")
