"""Argument types that know their range: an argument says what it takes where it is declared.

    parser.add_argument("--alpha", type=at_least(0.0), ...)
    def mnistmlp(num_classes: PositiveInt, ...)            # a constructor's parameter

A value outside of its range is one sentence, "Expected --alpha to be at least 0, but got -1.",
wherever it comes from: the command line, a YAML file or Python. NaN and infinity are refused
everywhere. Nothing here imports torch.
"""
import argparse
import math
from dataclasses import dataclass
from typing import Annotated, Any

LARGEST_FLOAT = 3.4e38  # what networks compute in holds no larger number
SMALLEST_FLOAT = 1.2e-38  # and what is smaller is 0 to them
LARGEST_INT = 2**63 - 1
_SHOWN = 60


@dataclass(frozen=True)
class Range:
    """The numbers that an argument takes; call it to turn a word (or a YAML value) into one.

    Args:
        kind: int or float.
        least: the smallest value.
        above: a bound below all values.
        most: the largest value.
        below: a bound above all values.
    """

    kind: type
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None

    def __call__(self, value: Any) -> Any:
        """The number that `value` means.

        Raises:
            ArgumentTypeError: it is none, or lies outside of the range.
        """
        number = self._read(value)
        if not self._holds(number):
            raise argparse.ArgumentTypeError(_complaint(self.wish, value))
        return number

    def _read(self, value: Any) -> Any:
        wish = "to be a whole number" if self.kind is int else "to be a number"
        whole = not isinstance(value, float) or value.is_integer()
        if not isinstance(value, (str, int, float)) or isinstance(value, bool) or (
                self.kind is int and not whole):
            raise argparse.ArgumentTypeError(_complaint(wish, value))
        try:
            number = self.kind(value)
        except (ValueError, OverflowError):
            raise argparse.ArgumentTypeError(_complaint(wish, value)) from None
        if isinstance(number, float) and not abs(number) <= LARGEST_FLOAT:
            wish = f"to be a finite number of at most {LARGEST_FLOAT:g} in size"
        elif isinstance(number, float) and 0 < abs(number) < SMALLEST_FLOAT:
            wish = f"to be 0 or at least {SMALLEST_FLOAT:g} in size"
        elif isinstance(number, int) and not -LARGEST_INT <= number <= LARGEST_INT:
            wish = f"to be at most {LARGEST_INT} in size"
        else:
            return number
        raise argparse.ArgumentTypeError(_complaint(wish, value))

    def _holds(self, number: float) -> bool:
        return ((self.least is None or number >= self.least)
                and (self.above is None or number > self.above)
                and (self.most is None or number <= self.most)
                and (self.below is None or number < self.below))

    @property
    def wish(self) -> str:
        """The range in words, as they follow "Expected --x"."""
        if self.least is not None and self.most is not None:
            if self.kind is int:
                return f"to lie in {self.least:.0f}..{self.most:.0f}"
            return f"to lie in [{self.least:g}, {self.most:g}]"
        bounds = (("at least", self.least), ("above", self.above),
                  ("at most", self.most), ("below", self.below))
        return "to be " + " and ".join(f"{word} {bound:g}" for word, bound in bounds
                                       if bound is not None)

    @property
    def metavar(self) -> str:
        """How a help page calls the value."""
        return "N" if self.kind is int else "X"


def _complaint(wish: str, value: Any) -> str:
    """What is wrong with a value; `ArgumentParser.error` puts the argument's name into it."""
    shown = str(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}... ({len(shown)} characters)"
    shown = shown if isinstance(value, (int, float)) or _is_number(shown) else f"`{shown}`"
    return f"expected the value {wish}, but got {shown}"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def at_least(bound: float) -> Range:
    """Numbers from `bound` on; whole ones if `bound` is an int."""
    return Range(type(bound), least=bound)


finite = Range(float)
positive = Range(float, above=0)
share = Range(float, least=0, most=1)
positive_share = Range(float, above=0, most=1)
whole = Range(int)
positive_int = at_least(1)
seed = Range(int, least=0, most=LARGEST_INT)

PositiveInt = Annotated[int, positive_int]


def plain_name(value: Any) -> str:
    """Argument type for what becomes part of a file's name.

    Raises:
        ArgumentTypeError: it would lead elsewhere, or is too long for a file system.
    """
    text = str(value)
    if any(sign in text for sign in "/\\\0\n") or text.startswith(".") or len(text) > 100:
        raise argparse.ArgumentTypeError(_complaint(
            "to be a plain name of at most 100 characters, without slashes", text))
    return text


def folder(value: Any) -> str:
    """Argument type for the path of a folder.

    Raises:
        ArgumentTypeError: it is empty, or no file system could hold it.
    """
    text = str(value)
    if not text.strip() or "\0" in text or max(map(len, text.split("/"))) > 255:
        raise argparse.ArgumentTypeError(_complaint(
            "to be a folder whose names have 1 to 255 characters", text))
    return text
