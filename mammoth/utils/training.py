"""The experiment: tasks one after the other, each trained, evaluated, recorded, saved."""
import sys
import time
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from engine.calibration import calibrate
from engine.console import RunBar
from engine.early_stopping import EarlyStopping
from engine.errors import UsageError
from engine.extensions import Extensions
from engine.files import clear_leftovers, ensure_appendable, ensure_writable
from engine.identity import run_key
from engine.interrupts import Interrupted, StopRequest
from engine.run_folder import RunFolder, peak_memory_mb, results_folder
from engine.summary import close_run
from engine.trackers import open_trackers
from engine.training_step import ensure_finite_weights, nothing_to_train_on, take_step
from utils.checkpoints import (
    Position,
    Progress,
    first_task,
    forget_old_epochs,
    learned_tasks,
    load_checkpoint,
    load_optimizer,
    load_scheduler,
    restore_loader,
    restore_method,
    restoring,
    save_checkpoint,
    stream_fields,
)
from utils.conf import get_checkpoint_path, set_rng_state
from utils.evaluate import evaluate
from utils.loggers import Logger, mean, say
from utils.schedulers import get_scheduler


class Experiment:
    """One run of a method on a benchmark.

    Args:
        model: the method, freshly built.
        dataset: the benchmark, freshly built.
        args: the arguments; `args.conf_sources` (optional) says where each came from.
    """

    def __init__(self, model: Any, dataset: Any, args: Namespace) -> None:
        self.model, self.dataset, self.args = model, dataset, args
        self.key = getattr(args, "conf_key", None) or run_key(args)
        self.sources = getattr(args, "conf_sources", {})
        self.progress = Progress()
        self.logger = Logger(args, dataset.SETTING, dataset.NAME, model.NAME)
        self.scheduler: Any = None
        self.loader: Any = None
        self.stream: dict[str, Any] = {}  # the task's samples, where the method changed them
        self.stop = StopRequest()
        self.n_tasks = 1 if args.joint else dataset.N_TASKS
        self.first_task = args.start_from or 0
        self.extensions = Extensions(self)
        self.started = time.time()

    def run(self) -> dict[str, Any]:
        """Train and evaluate everything; returns what result.json holds."""
        args, model = self.args, self.model
        model.to(model.device)
        checkpoint = load_checkpoint(args.loadcheck) if args.loadcheck else None
        earlier = checkpoint.get("run") if checkpoint is not None and args.resume else None
        resuming = earlier is not None
        self.folder = RunFolder(args, self.sources, self.key,
                                None if earlier is None else earlier["folder"])
        self._try_places()
        try:
            if resuming:
                self.folder.open()
                done = self.folder.result()
                if done is not None:
                    print(f"This run is finished already.\nResult: {self.folder.path}")
                    return done
            self.trackers = open_trackers(args, self.folder)
            return self._run(checkpoint, resuming)
        finally:
            self.folder.close()

    def _try_places(self) -> None:
        """Before training: can all that the run will write be written?

        Raises:
            UsageError: naming the file or folder and the argument that chose it.
        """
        if self.folder.enabled:
            for path in self.logger.files(results_folder(self.args)).values():
                ensure_appendable(path, "--results_path or --base_path")
        if self.args.savecheck:
            ensure_writable(Path(get_checkpoint_path()), "--checkpoint_path")
            clear_leftovers(Path(get_checkpoint_path()))

    def _run(self, checkpoint: dict[str, Any] | None, resuming: bool) -> dict[str, Any]:
        if checkpoint is not None and resuming:
            with restoring(self.args.loadcheck):
                self._resume(checkpoint)
        else:
            self._start(checkpoint)
        # Without a fingerprint of its form, only use shows whether what a file holds is any good.
        known = checkpoint is None or "form" in checkpoint.get("run", {})
        with self.stop, nullcontext() if known else restoring(self.args.loadcheck):
            if self.args.inference_only:
                self._infer(checkpoint)
            else:
                self._learn_tasks()
        return close_run(self)

    def _start(self, checkpoint: dict[str, Any] | None) -> None:
        """Fresh, or from loaded weights (`--loadcheck`), or from a later task."""
        self.first_task = first_task(self.args, checkpoint, self.n_tasks)
        self.model._current_task = 0  # `load_runner` may have loaded the checkpoint already
        for _ in range(self.first_task):
            self.dataset.get_data_loaders()
            self.model.meta_begin_task(self.dataset)
            self.model.meta_end_task(self.dataset)
        self.progress.position = Position(task=self.first_task)
        if checkpoint is not None:
            with restoring(self.args.loadcheck):
                self._load_state(checkpoint)
        if self.args.enable_other_metrics:
            self.progress.random_accs = self._random_baseline()

    def _load_state(self, checkpoint: dict[str, Any]) -> None:
        """Weights, and the method's other state where the file has it."""
        restore_method(self.model, self.dataset, checkpoint,
                       weights_only=self.args.start_from == 0)
        if not self.args.inference_only:
            self.model._current_task = self.first_task
        if self.first_task and checkpoint.get("results"):
            self.logger.accs, self.logger.masked_accs = (
                rows[:self.first_task] for rows in checkpoint["results"][:2])

    def _resume(self, checkpoint: dict[str, Any]) -> None:
        """Back to the exact state of a killed run."""
        run = checkpoint["run"]
        self.progress = Progress.from_dict(run["progress"])
        self.progress.resumed += 1
        position = self.progress.position
        if position.task + position.inside_task > self.n_tasks:
            raise ValueError(f"it is in task {position.task + 1} of {self.n_tasks}")
        for _ in range(position.task + (1 if position.inside_task else 0)):
            self.loader, _ = self.dataset.get_data_loaders()
        restore_method(self.model, self.dataset, checkpoint)
        self.model.opt = self.model.get_optimizer()
        if position.inside_task:
            self._resume_task(checkpoint)
        if checkpoint["optimizer"] is not None:
            load_optimizer(self.model.opt, checkpoint["optimizer"])
        self.logger.load(checkpoint["results"][2])
        self.folder.rewrite(self.progress.metrics)
        self.started = time.time() - self.progress.seconds
        set_rng_state(run["rng"])
        print(f"Resumed at task {position.task + 1}, epoch {position.epoch + 1}, batch "
              f"{position.batch + 1}.", file=sys.stderr)

    def _resume_task(self, checkpoint: dict[str, Any]) -> None:
        """Back into the middle of a task: schedule, order of the samples, the samples."""
        run, batch = checkpoint["run"], self.progress.position.batch
        if batch > len(self.loader):
            raise ValueError(f"it is at batch {batch} of {len(self.loader)}")
        self.scheduler = get_scheduler(self.model, self.args, reload_optim=False)
        if self.scheduler is not None:
            load_scheduler(self.scheduler, checkpoint["scheduler"])
        restore_loader(self.loader, run, batch)
        self.stream = stream_fields(self.loader) if run["stream"] else {}

    def _infer(self, checkpoint: dict[str, Any] | None) -> None:
        """Evaluate only: on the tasks that the checkpoint has learned, else on all."""
        learned = None if checkpoint is None else learned_tasks(checkpoint)
        n_tasks = min(self.n_tasks if learned is None else max(learned, 1), self.n_tasks)
        for _ in range(n_tasks):
            self.dataset.get_data_loaders()
        self.folder.open()
        self._evaluate_task(n_tasks - 1)

    def _random_baseline(self) -> list[list[float]]:
        """Accuracy of the untrained network on every task, the zero of forward transfer."""
        from datasets import get_dataset

        dataset = get_dataset(self.args)
        accs: list[list[float]] = [[], []]
        for _ in range(self.n_tasks):
            dataset.get_data_loaders()
            for kept, measured in zip(accs, evaluate(self.model, dataset, last=True), strict=True):
                kept.append(measured[0])
        return accs

    def _learn_tasks(self) -> None:
        stop = self.n_tasks if self.args.stop_after is None else self.args.stop_after
        last = min(stop, self.n_tasks)
        with RunBar(self.args, last) as self.bar:
            for task in range(self.progress.position.task, last):
                self._learn_task(task, task + 1 == last)

    def _learn_task(self, task: int, is_last: bool) -> None:
        """Train on a task, look at all so far, save."""
        if not self.progress.position.inside_task:
            self._begin_task(task)
        self._fit_task(task)
        self.model.meta_end_task(self.dataset)
        ensure_finite_weights(self.model, task)
        if self.args.calibrate:
            calibrate(self.model, self.dataset)
        self._evaluate_task(task)
        self.progress.position = Position(task=task + 1)
        if self.args.savecheck == "task" or (self.args.savecheck and is_last):
            suffix = "last" if self.args.savecheck == "last" else str(task)
            self.save("joint" if self.args.joint else suffix)

    def _begin_task(self, task: int) -> None:
        self.model.net.train()
        self.model.temperature = self.args.temperature or 1.0  # not what fitted the task before
        self.loader, _ = self.dataset.get_data_loaders()
        self.folder.open()
        if self.args.enable_other_metrics and task > 0 and self.logger.accs:
            for rows, measured in zip((self.logger.accs, self.logger.masked_accs),
                                      evaluate(self.model, self.dataset, last=True), strict=True):
                rows[-1].append(measured[0])
        before = stream_fields(self.loader)
        self.model.meta_begin_task(self.dataset)
        after = stream_fields(self.loader)
        self.stream = {} if all(after[name] is before[name] for name in before) else after
        self.scheduler = get_scheduler(self.model, self.args)
        self.progress.early_stopping = {}

    def _fit_task(self, task: int) -> None:
        """Epochs until `--fitting_mode` says that the task is learned."""
        args, position = self.args, self.progress.position
        stopping = EarlyStopping(args, self.progress.early_stopping)
        position.task = task
        self.model.net.train()
        self.bar.begin_task(task, len(self.loader), position.steps)
        while not self._fitted(position, stopping):
            self._fit_epoch(position)
            self._end_epoch(position, stopping)
        stopping.restore_best(self.model)

    def _fitted(self, position: Position, stopping: EarlyStopping) -> bool:
        if self.args.debug_mode and position.epoch >= 1:
            return True
        if self.args.fitting_mode == "iters":
            return position.steps >= self.args.n_iters
        if self.args.fitting_mode == "early_stopping":
            return stopping.finished
        return position.epoch >= self.args.n_epochs

    def _fit_epoch(self, position: Position) -> None:
        """One pass over the stream, from `position.batch` on."""
        args, model, loader = self.args, self.model, self.loader
        if position.batch == 0:
            model.meta_begin_epoch(position.epoch, self.dataset)
        extra_names = getattr(loader.dataset, "extra_return_fields", ())
        limit = model.get_debug_iters() if args.debug_mode else None
        self.bar.begin_epoch(position.task, position.epoch)
        for batch in loader:
            if limit is not None and position.batch > limit:
                break
            self._step(batch, extra_names)
            if args.fitting_mode == "iters" and position.steps >= args.n_iters:
                break
        if not position.batch:
            raise UsageError(nothing_to_train_on(args, position))
        if self.scheduler is not None and args.scheduler_mode == "epoch":
            self.scheduler.step()

    def _step(self, batch: Any, extra_names: Any) -> None:
        position = self.progress.position
        terms = take_step(self.model, batch, position, extra_names)
        if self.scheduler is not None and self.args.scheduler_mode == "iter":
            self.scheduler.step()
        self.bar.step(terms, self.model)
        self.trackers.log_step(terms, position)
        if self.stop.number:
            self._interrupt()

    def _end_epoch(self, position: Position, stopping: EarlyStopping) -> None:
        args = self.args
        self.model.meta_end_epoch(position.epoch, self.dataset)
        if args.fitting_mode == "early_stopping":
            stopping.check(self.model, self.dataset, position.epoch)
            self.progress.early_stopping = stopping.state
        if args.eval_epochs and (position.epoch + 1) % args.eval_epochs == 0:
            accs = self.dataset.evaluate(self.model, self.dataset)
            self.dataset.log(args, self.logger, accs, position.task, self.dataset.SETTING,
                             epoch=position.epoch + 1)
            self._record("epoch", accs, position.task, position.epoch)
        self.extensions.after_epoch(position.task, position.epoch)
        position.epoch, position.batch = position.epoch + 1, 0
        if args.savecheck == "epoch":
            self.save(f"{position.task}e{position.epoch}")
            forget_old_epochs(self.args.ckpt_name)

    def _evaluate_task(self, task: int) -> None:
        accs = self.dataset.evaluate(self.model, self.dataset)
        self.model.meta_end_eval(self.dataset, accs)
        self.dataset.log(self.args, self.logger, accs, task, self.dataset.SETTING)
        self.logger.log_system_stats(peak_memory_mb())
        self._record("task", accs, task, None)
        self.extensions.after_task(task)

    def _record(self, event: str, accs: Any, task: int, epoch: int | None) -> None:
        line = {"event": event, "task": task, "epoch": epoch, "mean": mean(accs[0]),
                "accuracies": list(accs[0])}
        if self.dataset.SETTING == "class-il":
            line |= {"task_il_mean": mean(accs[1]), "task_il_accuracies": list(accs[1])}
        line["seconds"] = round(time.time() - self.started, 3)
        self.progress.metrics.append(line)
        self.folder.add(line)
        self.trackers.log_accuracies(line)

    def save(self, suffix: str) -> None:
        """Write a checkpoint of this moment."""
        self.progress.seconds = time.time() - self.started
        path = save_checkpoint(f"{self.args.ckpt_name}_{suffix}", self.args, self.model,
                               self.progress, self.logger, self.scheduler, self.loader,
                               self.stream, self.folder.name, self.key)
        say(f"Saving checkpoint into: {path}", sys.stderr)

    def _interrupt(self) -> None:
        position = self.progress.position
        where = f"task {position.task + 1}, epoch {position.epoch + 1}, batch {position.batch}"
        hint = ""
        if self.args.save_after_interrupt:
            self.save(f"paused-{position.task}e{position.epoch}b{position.batch}")
            hint = " The same command with --resume goes on from there."
        raise Interrupted(f"Interrupted after {where}.{hint}", self.stop.number)


def train(model: Any, dataset: Any, args: Namespace | None = None) -> dict[str, Any]:
    """Run an experiment (upstream's name for it)."""
    return Experiment(model, dataset, model.args if args is None else args).run()
