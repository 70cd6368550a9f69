"""Instance-level confidence: interval widths, t-test status, Q-Q plots."""
from collections.abc import Iterator, Sequence
from typing import Any

from experiments.report.figure import (
    Figure,
    Number,
    Section,
    Shown,
    number,
    percent,
    run_figure,
    tiled,
)
from experiments.report.svg import Plot, Svg, domain, finite, text
from experiments.words import counted

HEADS = {"answering_head": "answering head", "true_head": "true head"}


def _bars(classes: Sequence[Any], names: Sequence[str],
          groups: Sequence[tuple[str, Sequence[Number], int]], ylabel: str,
          top: float) -> Svg:
    """Two bars per class, on a scale that the neighbour shares."""
    plot = Plot((-0.6, len(classes) - 0.4), (0, top), "true class", ylabel, filled=True,
                xticks=[(i, name) for i, name in enumerate(names)],
                legend=[(label, style) for label, _, style in groups],
                width=max(340, 60 + 22 * len(classes)))
    half = 0.38 / len(groups)
    for k, (label, values, style) in enumerate(groups):
        for i, value in enumerate(values):
            plot.bar(i - 0.38 + half * (2 * k + 1), 0.92 * half, value, style,
                     f"{names[i]}, {label}: {number(value, 2)}")
    return plot.svg()


def _less(one: Number, other: Number) -> bool | None:
    """Whether one is the smaller; None where either is undefined."""
    return None if one is None or other is None else one < other


def _names(shown: Shown, labels: Sequence[int]) -> list[str]:
    known = shown.run.section("run", "class_names")
    return [str(known[i]) if known and i < len(known) else str(i) for i in labels]


@run_figure("confidence")
def interval_widths(shown: Shown, data: Section) -> Iterator[Figure]:
    """Width of the 95 % interval of the true class among right and wrong answers."""
    kinds = ("piw_correct", "piw_incorrect")
    widths = [v for head in HEADS for kind in kinds for v in data[head]["by_class"][kind]]
    top = 108 * max(finite(widths), default=0.01) or 1.0
    for head, words in HEADS.items():
        part = data[head]["by_class"]
        names = _names(shown, part["label"])
        overall = data[head]
        right, wrong = percent([overall["piw_correct"], overall["piw_incorrect"]])
        yield Figure(
            f"interval-width-{head.replace('_', '-')}", f"Prediction interval width, {words}",
            _bars(part["label"], names, [("right answers", percent(part["piw_correct"]), 0),
                                         ("wrong answers", percent(part["piw_incorrect"]), 1)],
                  "width × 100", top),
            "Width of the interval [2.5, 97.5] % of the true class's probability over "
            f"{data['n_draws']} draws, mean over samples.", "Confidence",
            "tab06" if head == "true_head" else "",
            f"All classes: {number(right, 2)} for the {overall['n_correct']:,} right answers, "
            f"{number(wrong, 2)} for the {overall['n_incorrect']:,} wrong ones.",
            "Right answers have the narrower intervals.", _less(right, wrong))


@run_figure("confidence")
def test_status(shown: Shown, data: Section) -> Iterator[Figure]:
    """Accuracy of samples whose t-test rejects and of the others."""
    for head, words in HEADS.items():
        part, overall = data[head]["by_class"], data[head]
        rejected, others = percent([overall["accuracy_rejected"],
                                    overall["accuracy_not_rejected"]])
        yield Figure(
            f"t-test-{head.replace('_', '-')}", f"Accuracy when sure and when not, {words}", _bars(
                part["label"], _names(shown, part["label"]),
                [("sure", percent(part["accuracy_rejected"]), 0),
                 ("unsure", percent(part["accuracy_not_rejected"]), 1)],
                "accuracy, %", 101),
            "The model is sure of a sample when a paired t-test over "
            f"{data['n_draws']} draws (level {data['significance']}) tells its two most predicted "
            "classes apart, and unsure when the two may as well be equal.", "Confidence",
            "tab06" if head == "true_head" else "",
            f"All classes: {_right(rejected, overall['n_rejected'], 'sure')}, "
            f"{_right(others, overall['n_not_rejected'], 'unsure')}.",
            "Sure answers are right more often.", _less(others, rejected))


def _right(share: Number, count: int, kind: str) -> str:
    """`71.3 % of 359 sure answers are right`, or that there are none."""
    if not count:
        return f"no {kind} answer"
    return f"{number(share, 1)} % of {counted(count, f'{kind} answer')} right"


def _quantiles(entry: Section) -> Svg:
    x, y = entry["theoretical"], entry["ordered"]
    plot = Plot(domain(x, 0.05), domain(y, 0.1), "", "", width=128, height=84, left=38)
    n = len(finite(y))
    mean = sum(finite(y)) / max(n, 1)
    sd = (sum((v - mean) ** 2 for v in finite(y)) / max(n - 1, 1)) ** 0.5
    plot.guide((plot.x[0], max(mean + sd * plot.x[0], plot.y[0])),
               (plot.x[1], min(mean + sd * plot.x[1], plot.y[1])))
    plot.specks(list(zip(x, y, strict=True)), 0)
    plot.parts.append(text(plot.left, plot.top - 8,
                           f"task {entry['task'] + 1}, r {number(entry['correlation'])}", "n"))
    picture = plot.svg()
    picture.height -= 16
    return picture


@run_figure("confidence")
def quantile_plots(shown: Shown, data: Section) -> Iterator[Figure]:
    """Are the differences that the t-test uses normal?"""
    entries = [e for e in data.get("qq") or [] if finite(e["ordered"])]
    if entries:
        yield Figure(
            "qq", "Q-Q plots of the differences", tiled(
                [_quantiles(e) for e in entries[:16]], 4, "Q-Q plots"),
            "Each panel is a test sample: over the draws, ordered differences between the "
            "probabilities of its two most predicted classes (upright) against a normal's "
            "quantiles (across). Points on the dashed line: the t-test's assumption holds; r is "
            "the correlation with it.", "Confidence", "fig10")
