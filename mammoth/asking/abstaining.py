"""When to say nothing: a threshold that the samples remembered so far would have passed."""
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike


@dataclass(frozen=True)
class Curve:
    """Accuracy on known samples when the least confident are left out.

    Attributes:
        threshold: (n,) confidences, from the highest to the lowest, each once.
        kept: (n,) share of the samples that are at least so confident.
        accuracy: (n,) of these.
        samples: how many samples there are.
    """

    threshold: np.ndarray
    kept: np.ndarray
    accuracy: np.ndarray
    samples: int

    @classmethod
    def of(cls, confidence: np.ndarray, correct: np.ndarray) -> "Curve":
        """From (m,) confidences and whether each answer was right; equal ones go together."""
        threshold, group = np.unique(-confidence, return_inverse=True)
        count = np.cumsum(np.bincount(group, minlength=len(threshold)))
        right = np.cumsum(np.bincount(group, correct.astype(np.float64), len(threshold)))
        return cls(-threshold, count / max(len(confidence), 1), right / count, len(confidence))

    def least(self, accuracy: float) -> float | None:
        """The lowest threshold above which answers are right so often; None if there is none."""
        good = np.flatnonzero(self.accuracy >= accuracy)
        return float(self.threshold[good[-1]]) if len(good) else None


@dataclass(frozen=True)
class Verdict:
    """Which answers to keep.

    Attributes:
        kept: (B,) True where the answer is sure enough, False where to abstain.
        threshold: the probability that an answer needs; None where none would do.
        at_least: the accuracy that was asked for.
        curve: what the threshold was read off; None without remembered samples, where
            probabilities are taken at their word.
    """

    kept: np.ndarray
    threshold: float | None
    at_least: float
    curve: Curve | None

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.kept, dtype=dtype)

    def __len__(self) -> int:
        return len(self.kept)

    def __iter__(self) -> Iterator[np.bool]:
        return iter(self.kept.tolist())

    def __str__(self) -> str:
        count = f"{int(self.kept.sum())} of {len(self.kept)} answers are sure enough"
        if self.curve is None:
            return (f"{count}: their probability is at least {self.at_least:g}, taken at its word "
                    "(the method remembers no samples to check it on).")
        if self.threshold is None:
            best = self.curve.accuracy.max() if len(self.curve.accuracy) else 0.0
            return (f"{count}: even the surest of the {self.curve.samples} remembered samples are "
                    f"right in {100 * best:.0f} % of the cases only.")
        at = int(np.flatnonzero(self.curve.threshold == self.threshold)[0])
        return (f"{count}: probability at least {self.threshold:.3f}. Of the {self.curve.samples} "
                f"remembered samples {100 * self.curve.kept[at]:.0f} % have that, and "
                f"{100 * self.curve.accuracy[at]:.0f} % of these are right.")


def judge(confidence: np.ndarray, at_least: float, curve: Curve | None) -> Verdict:
    """Which of (B,) confidences are enough for being right with a share of at least `at_least`."""
    threshold = at_least if curve is None else curve.least(at_least)
    kept = np.zeros(len(confidence), dtype=bool) if threshold is None else confidence >= threshold
    return Verdict(kept, threshold, at_least, curve)
