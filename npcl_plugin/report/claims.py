"""The paper's claims about NPCL, judged on the runs at hand, and what its uncertainty is worth."""
from collections.abc import Iterator
from statistics import fmean

from experiments.measures import measure
from experiments.report.answers import answer
from experiments.report.claims import Finding, better_than, claim, of_model, share_of_runs
from experiments.report.figure import Methods, number
from experiments.run import Run, is_number
from experiments.words import amount

_RIVALS = ("er", "der", "derpp")


def _runs(methods: Methods) -> list[Run]:
    """NPCL's runs with their uncertainty."""
    return [run for one in of_model(methods, "npcl") for run in one.runs if run.summary]


def _mean(runs: list[Run], name: str) -> float | None:
    found = [run.headline[name] for run in runs if is_number(run.headline.get(name))]
    return fmean(found) if found else None


def _ordered(methods: Methods, lower: tuple[str, ...], higher: tuple[str, ...], words: str,
             factor: float = 1) -> Finding | None:
    """Whether one number of each run's summary is below another; lists stand for their end."""
    pairs = {}
    for run in _runs(methods):
        ends = [part[-1] if isinstance(part := run.section(*path), list) and part else part
                for path in (lower, higher)]
        if all(map(is_number, ends)):
            pairs[id(run)] = ends
    if not pairs:
        return None
    low, high = (fmean(factor * ends[i] for ends in pairs.values()) for i in (0, 1))
    return share_of_runs(
        _runs(methods), lambda run: pairs[id(run)][0] < pairs[id(run)][1]
        if id(run) in pairs else None, words.format(amount(low), amount(high)))


@claim("NPCL is more accurate than replay without a neural process (ER, DER, DER++).", "tab01")
def more_accurate(methods: Methods) -> Finding | None:
    """Accuracy against the deterministic rivals."""
    return better_than(methods, "npcl", _RIVALS)


@claim("NPCL is more accurate than an attentive neural process without its hierarchy (ANP).",
       "tab01")
def hierarchy(methods: Methods) -> Finding | None:
    """Accuracy against ANP."""
    return better_than(methods, "npcl", ("anp",))


@claim("NPCL has the smallest calibration error.", "tab02")
def calibrated(methods: Methods) -> Finding | None:
    """ECE against the rivals."""
    return better_than(methods, "npcl", (*_RIVALS, "anp"), measure("ece"))


@claim("For every task its own head has the lowest entropy, so entropy finds the head.", "fig04b")
def true_head_lowest(methods: Methods) -> Finding | None:
    """The head maps."""
    runs = [run for run in _runs(methods) if is_number(run.section("heads", "true_head_lowest"))]
    if not runs:
        return None
    share = fmean(100 * run.section("heads", "true_head_lowest") for run in runs)
    right = _mean(runs, "head_inference_accuracy")
    found = "" if right is None else (
        f"; the right head answers {amount(100 * right, 1)} % of images")
    return share_of_runs(runs, lambda run: bool(run.section("heads", "true_head_lowest") == 1),
                         f"The own head is the surest for {amount(share, 1)} % of tasks{found}")


@claim("Variance over draws is larger on novel than on known images.", "tab05")
def novel_variance(methods: Methods) -> Finding | None:
    """Variance of the softmax at the end."""
    return _ordered(methods, ("novelty", "mean_id", "variance_softmax"),
                    ("novelty", "mean_ood", "variance_softmax"),
                    "Variance × 1000: {} known, {} novel", 1000)


@claim("Right answers have narrower prediction intervals than wrong ones.", "tab06")
def narrow_intervals(methods: Methods) -> Finding | None:
    """Interval widths under the true head."""
    return _ordered(methods, ("confidence", "true_head", "piw_correct"),
                    ("confidence", "true_head", "piw_incorrect"),
                    "Width × 100: {} right, {} wrong", 100)


@claim("Answers that a t-test over draws is sure of are right more often.", "tab06")
def sure_answers(methods: Methods) -> Finding | None:
    """Accuracy of sure and unsure answers under the true head."""
    return _ordered(methods, ("confidence", "true_head", "accuracy_not_rejected"),
                    ("confidence", "true_head", "accuracy_rejected"),
                    "{} % of unsure answers are right, {} % of sure ones", 100)


@claim("The more accuracy a task loses, the more uncertainty it gains.", "fig07")
def transfer(methods: Methods) -> Finding | None:
    """Correlation of the backward transfers."""
    runs = [run for run in _runs(methods) if is_number(run.section("transfer", "pearson"))]
    if not runs:
        return None
    mean = fmean(run.section("transfer", "pearson") for run in runs)
    return share_of_runs(runs, lambda run: bool(run.section("transfer", "pearson") < 0),
                         f"Correlation of the two changes: {number(mean, 2)}")


@claim("NPCL stores less beside the images than DER does.")
def storage(methods: Methods) -> Finding | None:
    """Numbers stored."""
    return _ordered(methods, ("cost", "storage", "stored"), ("cost", "storage", "der"),
                    "Numbers stored: {} by NPCL, {} by DER")


@answer("What is NPCL's uncertainty worth?")
def worth(methods: Methods) -> Iterator[str]:
    """Head inference, novelty, and confidence of single answers."""
    runs = _runs(methods)
    heads = _mean(runs, "head_inference_accuracy")
    if heads is not None and len(runs[0].section("heads", "inference_accuracy") or []) > 1:
        chance = 100 / len(runs[0].section("heads", "inference_accuracy"))
        yield (f"Its entropy picks the right head for {amount(100 * heads, 1)} % of the images "
               f"(by chance {amount(chance, 1)} %).")
    draws, plain = (_mean(runs, name) for name in ("auroc_variance_softmax", "auroc_max_softmax"))
    if draws is not None and plain is not None:
        better = "better than" if draws > plain else "no better than"
        yield (f"Variance over draws ranks a novel image above a known one in "
               f"{amount(100 * draws, 1)} % of pairs, {better} its largest probability "
               f"({amount(100 * plain, 1)} %; chance is 50 %).")
