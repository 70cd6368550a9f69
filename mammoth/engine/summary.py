"""The end of a run: final numbers, result.json and the line in logs.pyd."""
import copy
import time
from typing import Any

from engine.console import closing_line
from engine.run_folder import peak_memory_mb, results_folder, versions
from utils.loggers import mean, plain_args, print_accuracies, print_transfer
from utils.metrics import backward_transfer, forgetting, forward_transfer


def close_run(experiment: Any) -> dict[str, Any]:
    """Measure what is left, print it, write it; returns the content of result.json."""
    args, logger = experiment.args, experiment.logger
    final_test = _real_test(experiment) if args.validation else None
    transfer = _transfer(experiment)
    if args.enable_other_metrics:
        for name, values in transfer.items():
            print_transfer(name.replace("_", " ").title(), values)
            logger.add_transfer(name, values)
    n_parameters = sum(p.numel() for p in experiment.model.get_parameters())
    result = {
        "model": experiment.model.NAME, "dataset": experiment.dataset.NAME,
        "setting": experiment.dataset.SETTING, "seed": args.seed,
        "buffer_size": getattr(args, "buffer_size", None), "key": experiment.key,
        "accuracy": _by_setting(experiment, lambda rows: mean(_tasks_so_far(rows)[-1])
                                if rows else None),
        "accuracy_matrix": _by_setting(experiment, _tasks_so_far),
        "transfer": transfer, "random_accuracy": experiment.progress.random_accs[0],
        "final_test_accuracy": final_test, "n_parameters": n_parameters,
        "debug_mode": bool(args.debug_mode), "resumed": experiment.progress.resumed,
        "seconds": round(time.time() - experiment.started, 3),
        "peak_memory_mb": round(peak_memory_mb(), 1), "versions": versions(),
        "args": {name: value for name, value in plain_args(args).items()
                 if not name.startswith("conf_")},
    }
    result |= experiment.extensions.finish()
    if not args.disable_log:
        logger.write(results_folder(args), experiment.folder.name)
        experiment.folder.finish(result)
        print(closing_line(result, experiment.folder.path))
        print(f"Result: {experiment.folder.path / 'result.json'}")
    experiment.trackers.close()
    return result


def _by_setting(experiment: Any, function: Any) -> dict[str, Any]:
    """Apply to the accuracies under the setting's name and, in class-IL, to Task-IL's too."""
    values = {experiment.dataset.SETTING: function(experiment.logger.accs)}
    if experiment.dataset.SETTING == "class-il":
        values["task-il"] = function(experiment.logger.masked_accs)
    return values


def _tasks_so_far(rows: list[list[float]]) -> list[list[float]]:
    """Rows without the entry of the next task that forward transfer adds."""
    longest = len(rows[-1]) if rows else 0
    first = longest - len(rows) + 1
    return [row[:first + i] for i, row in enumerate(rows)]


def _transfer(experiment: Any) -> dict[str, dict[str, float]]:
    """Backward transfer and forgetting; forward transfer when it was measured."""
    measured_all = not (experiment.first_task or experiment.args.inference_only)
    if not measured_all or not experiment.model.LEARNS_EACH_TASK:
        return {}
    values = {"backward_transfer": _by_setting(experiment, backward_transfer),
              "forgetting": _by_setting(experiment, forgetting)}
    if experiment.args.enable_other_metrics:
        blind, masked = experiment.progress.random_accs
        values["forward_transfer"] = _by_setting(
            experiment, lambda rows: forward_transfer(
                rows, blind if rows is experiment.logger.accs else masked))
    return values


def _real_test(experiment: Any) -> dict[str, Any]:
    """With `--validation`: the accuracy on the real test set, all tasks, at the end."""
    from datasets import get_dataset

    args = copy.copy(experiment.args)
    args.validation = None
    dataset = get_dataset(args)
    for _ in range(len(experiment.logger.accs)):
        dataset.get_data_loaders()
    accs = dataset.evaluate(experiment.model, dataset)
    print_accuracies(accs, dataset.SETTING, "the test set, which no choice should look at")
    named = {dataset.SETTING: list(accs[0])}
    return named | ({"task-il": list(accs[1])} if dataset.SETTING == "class-il" else {})
