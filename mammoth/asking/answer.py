"""The answer to a question about images, as arrays, as rows and as a small table."""
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from asking.abstaining import Curve, Verdict, judge
from asking.explanation import Explanation
from engine.errors import UsageError
from engine.tables import aligned

_SHOWN = 20
_PERCENT = (0.025, 0.975)


@dataclass(frozen=True)
class Answer:
    """What a model says about B images; what its method cannot say is None.

    Attributes:
        image: what each image is called: its file, or its number.
        label: (B,) class with the highest probability.
        name: that class's name.
        probability: (B,) of that class.
        probabilities: (B, K) of every class in `classes`.
        classes: K names, of the classes learned so far.
        entropy: (B,) of the probabilities, in nats.
        novel: (B,) how unlike everything learned, from 0 to 1: the method's own score, or the
            entropy divided by its largest value.
        variance: (B,) over the method's draws, the mean over classes.
        interval: (B, 2) that holds 95 % of the draws of `probability`.
        head: (B,) number of the task whose head answered, counted from 0.
        task: that task in words.
        notes: what was done to the images to make them fit.
    """

    image: list[str]
    label: np.ndarray
    name: list[str]
    probability: np.ndarray
    probabilities: np.ndarray
    classes: list[str]
    entropy: np.ndarray
    novel: np.ndarray
    variance: np.ndarray | None = None
    interval: np.ndarray | None = None
    head: np.ndarray | None = None
    task: list[str] | None = None
    notes: tuple[str, ...] = ()
    remembered: Callable[[], Curve | None] = field(default=lambda: None, repr=False)

    def __len__(self) -> int:
        return len(self.image)

    def __getitem__(self, index: Any) -> "Answer":
        """The answer about some of the images: a number, a slice, a list or a mask."""
        rows = np.atleast_1d(np.arange(len(self))[np.asarray(index) if not isinstance(
            index, (int, slice)) else index])
        chosen: dict[str, Any] = {}
        for column in ("image", "name", "task"):
            values = getattr(self, column)
            chosen[column] = None if values is None else [values[row] for row in rows]
        for column in ("label", "probability", "probabilities", "entropy", "novel", "variance",
                       "interval", "head"):
            values = getattr(self, column)
            chosen[column] = None if values is None else values[rows]
        return replace(self, **chosen)

    def sure(self, at_least: float = 0.9) -> Verdict:
        """Which answers to keep so that a share of `at_least` of them is right.

        The threshold is chosen on the samples that the method remembers: the lowest probability
        from which on so many of their answers are right. They were trained on, so expect
        somewhat less on new images. A method without samples is taken at its word.

        Raises:
            UsageError: `at_least` is no share.
        """
        if not isinstance(at_least, int | float) or not 0 <= at_least <= 1:
            raise UsageError(f"Expected at_least to lie in [0, 1], but got {at_least}.")
        return judge(self.probability, at_least, self.remembered())

    def to_dict(self) -> dict[str, list | None]:
        """Columns as plain lists; `probabilities` has a dict from class names for each image."""
        columns: dict[str, list | None] = {
            name: _plain(getattr(self, name))
            for name in ("image", "label", "name", "probability", "entropy", "novel", "variance",
                         "interval", "head", "task")}
        columns["probabilities"] = [dict(zip(self.classes, row, strict=True))
                                    for row in self.probabilities.tolist()]
        return columns

    def rows(self) -> list[dict[str, Any]]:
        """One dict for each image."""
        columns = self.to_dict()
        return [{name: None if values is None else values[row] for name, values in columns.items()}
                for row in range(len(self))]

    def to_frame(self) -> Any:
        """A pandas data frame; `interval` becomes `low` and `high`, each class a column.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise UsageError("A data frame needs pandas, which is not installed; run `pip install "
                             "pandas` or use to_dict().") from error
        columns = {name: values for name, values in self.to_dict().items()
                   if values is not None and name not in ("interval", "probabilities")}
        if self.interval is not None:
            columns |= {"low": self.interval[:, 0].tolist(), "high": self.interval[:, 1].tolist()}
        columns |= {f"p({name})": self.probabilities[:, column].tolist()
                    for column, name in enumerate(self.classes)}
        return pandas.DataFrame(columns)

    def __str__(self) -> str:
        shown = self if len(self) <= _SHOWN else self[:_SHOWN]
        columns: list[tuple[str, Sequence[str]]] = [
            ("image", _shortened(shown.image)), ("answer", shown.name),
            ("probability", [f"{p:.3f}" for p in shown.probability])]
        if shown.interval is not None:
            columns.append(("95 % of draws", [f"{low:.3f} to {high:.3f}"
                                              for low, high in shown.interval]))
        if shown.task is not None:
            columns.append(("head", shown.task))
        columns += [("entropy", [f"{e:.3f}" for e in shown.entropy]),
                    ("novel", [f"{n:.2f}" for n in shown.novel])]
        table = aligned([title for title, _ in columns],
                        list(zip(*(values for _, values in columns), strict=True)))
        more = [f"... and {len(self) - _SHOWN} more"] if len(self) > _SHOWN else []
        return "\n".join([table, *more, *self.notes])


def answer_from(said: Explanation, names: list[str], first: int, class_names: list[str],
                tasks: Callable[[int], str], **context: Any) -> Answer:
    """Turn what a method says into an answer.

    Args:
        said: among the classes from `first` on.
        names: of the images.
        class_names: of all K classes in question.
        tasks: number of a head -> its task in words.
        context: `notes` and `remembered` of the answer.
    """
    probs = said.probs.double().cpu().numpy()  # (B, K)
    best = probs.argmax(1) if len(probs) else np.zeros(0, dtype=np.int64)
    rows = np.arange(len(probs))
    entropy = -(probs * np.log(np.maximum(probs, np.finfo(np.float64).tiny))).sum(1)
    own: dict[str, Any] = {}
    if said.draws is not None:
        own |= _over_draws(said.draws.double().cpu().numpy(), best)
    if said.head is not None:
        head = said.head.cpu().numpy()
        own |= {"head": head, "task": [tasks(int(number)) for number in head]}
    novel = entropy / max(np.log(probs.shape[1]), np.finfo(np.float64).tiny) \
        if said.novel is None else said.novel.double().cpu().numpy()
    return Answer(names, best + first, [class_names[row] for row in best], probs[rows, best], probs,
                  class_names, entropy, novel, **own, **context)


def _over_draws(draws: np.ndarray, best: np.ndarray) -> dict[str, np.ndarray]:
    """`variance` and `interval` from draws (S, B, K) and the chosen classes (B,)."""
    chosen = draws[:, np.arange(len(best)), best]  # (S, B)
    return {"variance": draws.var(0).mean(-1), "interval": np.quantile(chosen, _PERCENT, axis=0).T}


def _plain(values: Any) -> list | None:
    return values.tolist() if isinstance(values, np.ndarray) else values


def _shortened(names: list[str], width: int = 40) -> list[str]:
    """Long paths keep their end."""
    return [name if len(name) <= width else f"...{name[3 - width:]}" for name in names]
