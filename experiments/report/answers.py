"""The first section: what the runs say, in plain sentences with numbers.

    @answer("What is uncertainty worth?")
    def worth(methods: Methods) -> Iterator[str]
"""
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from experiments.measures import ACCURACY, BACKWARD_TRANSFER, measure, setting_name
from experiments.report.claims import Difference, difference, values_of
from experiments.report.figure import Methods
from experiments.report.svg import finite
from experiments.run import BROKEN
from experiments.words import amount, counted

Answerer = Callable[[Methods], Iterator[str]]
_ANSWERS: list[tuple[str, Answerer]] = []
_DECLINED = 0.2


def answer(question: str) -> Callable[[Answerer], Answerer]:
    """Decorator: a function from methods to sentences answers a question."""

    def decorate(maker: Answerer) -> Answerer:
        _ANSWERS.append((question, maker))
        return maker

    return decorate


def answers(comparisons: Sequence[Methods],
            problems: list[str]) -> dict[str, list[tuple[Methods, list[str]]]]:
    """Question -> [(methods, sentences)], without those that have no answer."""
    found: dict[str, list[tuple[Methods, list[str]]]] = {}
    for question, maker in sorted(
            _ANSWERS, key=lambda entry: not str(entry[1].__module__).startswith("experiments.")):
        for methods in comparisons:
            try:
                sentences = list(maker(methods))
            except BROKEN as error:
                problems.append(f"`{question}` has no answer on {methods.dataset}: a summary has "
                                f"another form than documented ({error!r:.120}).")
                continue
            if sentences:
                found.setdefault(question, []).append((methods, sentences))
    return found


def how_sure(found: Difference) -> str:
    """Whether a difference is more than luck, in words."""
    if found.seeds < 2:
        return ("There are not two common seeds, so nobody knows whether this is luck. Run more "
                "seeds.")
    words = found.how_sure
    if found.sure:
        return f"That is more than luck ({words})."
    return f"That may be luck ({words})."


@answer("Which method is best, by how much, and how sure is that?")
def best_method(methods: Methods) -> Iterator[str]:
    """The most accurate method that learns task after task, beside the second."""
    rows = sorted(((fmean(values.values()), one) for one in methods.experiments
                   if one.runs[0].sequential and (values := values_of(one, ACCURACY))),
                  key=lambda row: -row[0])
    if not rows:
        return
    mean, best = rows[0]
    setting = setting_name(best.runs[0].setting)
    seeds = counted(len(best.runs), "seed")
    if len(rows) == 1:
        yield f"{best.label} alone was run: {amount(mean)} % {setting} accuracy over {seeds}."
        return
    found = difference(best, rows[1][1], ACCURACY)
    gap = mean - rows[1][0]
    yield (f"{best.label} is the most accurate of {len(rows)} with {amount(mean)} % {setting} "
           f"accuracy over {seeds}, {amount(gap)} points above {rows[1][1].label}."
           if gap > 0 else f"{best.label} and {rows[1][1].label} are equally accurate "
           f"({amount(mean)} %).")
    if found and gap > 0:
        yield how_sure(found)
    kept = [(fmean(values.values()), one) for _, one in rows
            if (values := values_of(one, BACKWARD_TRANSFER))]
    if len(kept) > 1:
        least, keeper = max(kept, key=lambda row: row[0])
        yield (f"{keeper.label} forgets least: its earlier tasks "
               f"{'lose' if least < 0 else 'gain'} {amount(abs(least))} points by the end.")


@answer("What is knowing one's uncertainty worth?")
def worth_of_confidence(methods: Methods) -> Iterator[str]:
    """What declining the least confident answers gains, and whose confidence is most honest."""
    gains = []
    for label, curves in methods.sections("calibration", "rejection"):
        pairs = [(curve["accuracy"][0], curve["accuracy"][place]) for curve in curves
                 if (place := _nearest(curve["rejected"])) is not None
                 and len(finite((curve["accuracy"][0], curve["accuracy"][place]))) == 2]
        if pairs:
            before, after = (100 * fmean(values) for values in zip(*pairs, strict=True))
            gains.append((after - before, label, before, after))
    if gains:
        gain, label, before, after = max(gains)
        others = "; ".join(f"{name} {amount(first, 1)} to {amount(last, 1)} %"
                           for _, name, first, last in gains if name != label)
        yield (f"Asked to decline its {100 * _DECLINED:.0f} % least confident answers, {label} "
               f"gains most: {amount(before, 1)} % right become {amount(after, 1)} %"
               + (f" ({others})." if others else "."))
    honest = sorted((fmean(values.values()), one.label) for one in methods.experiments
                    if (values := values_of(one, measure("ece"))))
    if honest:
        yield (f"The most honest confidence is {honest[0][1]}'s: it is off by "
               f"{amount(100 * honest[0][0], 1)} percentage points on average (ECE)"
               + (f", {honest[-1][1]}'s by {amount(100 * honest[-1][0], 1)}."
                  if len(honest) > 1 else "."))


def _nearest(shares: Sequence[float]) -> int | None:
    """Where about a fifth is declined; None for a curve that is too coarse."""
    place = min(range(len(shares)), key=lambda i: abs(shares[i] - _DECLINED), default=None)
    return place if place is not None and abs(shares[place] - _DECLINED) < 0.05 else None
