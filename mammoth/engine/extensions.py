"""What plugins add to a run: looks between epochs, after tasks, and at the end.

A plugin's module may define `extend(args)`, which returns None or an object with a `name` and
any of these methods; `run` is the `Experiment` (its `model`, `dataset`, `args`, `folder`):

    after_epoch(run, task, epoch)   the epoch was trained
    after_task(run, task)           the task was learned and evaluated
    finish(run) -> dict             goes into result.json under the extension's name
    describe(values) -> str         that dict as text; printed at the end

An extension looks and does not touch: it is called in evaluation mode without gradients, and
whatever it draws from the global generators is put back, so a run has the same accuracies with
and without it. The time that it takes is not counted as the run's. It may be called twice for
the same epoch or task, when a killed run is resumed, and keeps nothing in checkpoints: what it
needs later it writes into `run.folder.path`, each file whole.
"""
import time
from collections.abc import Callable
from typing import Any

from engine.errors import RunError
from engine.plugins import loaded_plugins
from utils.conf import get_rng_state, set_rng_state
from utils.evaluate import evaluation_mode


class Extensions:
    """The extensions of one run.

    Args:
        run: the experiment; its `args` decide which extensions take part.

    Raises:
        RunError: two extensions have the same name.
    """

    def __init__(self, run: Any) -> None:
        self._run = run
        self._active: list[Any] = []
        for module in loaded_plugins().values():
            extension = module.extend(run.args) if hasattr(module, "extend") else None
            if extension is not None:
                self._active.append(extension)
        names = [extension.name for extension in self._active]
        if len(set(names)) < len(names):
            raise RunError(f"Two plugins extend the run under one name ({', '.join(names)}); "
                           "uninstall one of them.")

    def after_epoch(self, task: int, epoch: int) -> None:
        """Tell all that an epoch was trained."""
        for extension in self._active:
            self._call(extension, "after_epoch", task, epoch)

    def after_task(self, task: int) -> None:
        """Tell all that a task was learned and evaluated."""
        for extension in self._active:
            self._call(extension, "after_task", task)

    def finish(self) -> dict[str, Any]:
        """name -> what each has to say at the end; printed too."""
        said = {}
        for extension in self._active:
            values = self._call(extension, "finish")
            if values is not None:
                said[extension.name] = values
                describe = getattr(extension, "describe", _as_lines)
                print(f"\n{extension.name}\n{describe(values)}\n", flush=True)
        return said

    def _call(self, extension: Any, method: str, *position: int) -> Any:
        """Call a method, if there is one, so that the run does not notice."""
        function: Callable | None = getattr(extension, method, None)
        if function is None:
            return None
        began, random_state = time.time(), get_rng_state()
        try:
            with evaluation_mode(self._run.model):
                return function(self._run, *position)
        finally:
            set_rng_state(random_state)
            self._run.started += time.time() - began


def _as_lines(values: dict[str, Any]) -> str:
    """One aligned line for each value."""
    width = max(map(len, values), default=0)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in values.items())
