"""A progress bar for method files that train in a loop of their own."""
import sys

from tqdm import tqdm

_current: list[tqdm] = []


def progress_bar(i: int, max_iter: int, epoch: int | str, task_number: int | str,
                 loss: float) -> None:
    """Show that step `i` (from 0) of `max_iter` is done; step 0 begins a new bar on stderr."""
    if i == 0 or not _current:
        close()
        _current.append(tqdm(total=max_iter, desc=f"Task {task_number} - Epoch {epoch}",
                             file=sys.stderr, leave=False, disable=not sys.stderr.isatty()))
    bar = _current[0]
    bar.set_postfix(loss=f"{loss:.4g}", refresh=False)
    bar.update(i + 1 - bar.n)
    if i + 1 >= max_iter:
        close()


def close() -> None:
    """End the bar that is open, if any."""
    while _current:
        _current.pop().close()
