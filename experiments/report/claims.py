"""A paper's claims, judged on the runs at hand; plugins register the claims of their papers.

    @claim("Method X is more accurate than ER.", "tab01")
    def accurate(methods: Methods) -> Finding | None

A judge gets the methods of one benchmark at one buffer size, and returns None where they cannot
say anything. Figures of single runs carry verdicts of their own (`Figure.claim`).
"""
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.identity import Experiment
from experiments.measures import ACCURACY, Measure
from experiments.report.figure import Methods
from experiments.run import BROKEN, Run
from experiments.tables.comparison import paired_test
from experiments.words import amount, counted, listed

HOLDS, NOT_HERE, OPEN = "holds", "not here", "open"
SURE = 0.05


@dataclass(frozen=True)
class Finding:
    """What the numbers say about a claim: `holds`, `not here`, or `open` where seeds disagree."""

    verdict: str
    evidence: str


Judge = Callable[[Methods], Finding | None]


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper and how it is judged."""

    text: str
    paper: str
    judge: Judge


_CLAIMS: list[Claim] = []


def claim(text: str, paper: str = "") -> Callable[[Judge], Judge]:
    """Decorator for a judge of a claim.

    Args:
        paper: the figure or table that shows it there (`tab01`).
    """

    def decorate(judge: Judge) -> Judge:
        _CLAIMS.append(Claim(text, paper, judge))
        return judge

    return decorate


def judged(comparisons: Sequence[Methods],
           problems: list[str]) -> list[tuple[Claim, Methods, Finding]]:
    """Every claim on every benchmark that has something to say about it."""
    found = []
    for one in _CLAIMS:
        for methods in comparisons:
            try:
                finding = one.judge(methods)
            except BROKEN as error:
                problems.append(f"The claim `{one.text}` cannot be judged on {methods.dataset}: a "
                                f"summary has another form than documented ({error!r:.120}).")
                continue
            if finding:
                found.append((one, methods, finding))
    return found


@dataclass(frozen=True)
class Difference:
    """How two experiments differ in a measure, and how sure that is.

    Args:
        first, other: the means.
        p: of the paired t-test over common seeds; None without two of them.
        seeds: common ones.
    """

    first: float
    other: float
    p: float | None
    seeds: int

    @property
    def sure(self) -> bool:
        """Whether the paired test tells the two apart."""
        return self.p is not None and self.p < SURE

    @property
    def how_sure(self) -> str:
        """The test in words."""
        if self.seeds < 2:
            return f"{counted(self.seeds, 'common seed')}, so no test"
        if self.p is None:
            return f"equal in all {self.seeds} common seeds"
        return f"paired t-test over {self.seeds} common seeds: {self.chance}"

    @property
    def chance(self) -> str:
        """The test's p alone, or that there is no test."""
        if self.p is None:
            return "no test"
        return "p < 0.001" if self.p < 0.001 else f"p = {self.p:.3f}"


def values_of(one: Experiment, measure: Measure) -> dict[int, float]:
    """Seed -> the measure."""
    return {run.seed or 0: value for run in one.runs
            if (value := measure.value(run)) is not None}


def difference(one: Experiment, other: Experiment, measure: Measure) -> Difference | None:
    """Two experiments in one measure; None where either does not have it."""
    first, second = values_of(one, measure), values_of(other, measure)
    if not first or not second:
        return None
    common = first.keys() & second.keys()
    return Difference(statistics.fmean(first.values()), statistics.fmean(second.values()),
                      paired_test(first, second), len(common))


def of_model(methods: Methods, *models: str) -> list[Experiment]:
    """One experiment of each of these models that was run, the one nearest to its defaults."""
    found = []
    for model in models:
        family = [one for one in methods.experiments
                  if one.model.replace("_", "-") == model.replace("_", "-")]
        found += sorted(family, key=lambda one: len(one.runs[0].given))[:1]
    return found


def better_than(methods: Methods, model: str, rivals: Sequence[str],
                measure: Measure = ACCURACY) -> Finding | None:
    """Whether a model beats each of its rivals in a measure.

    `holds` if its mean is better than that of all rivals and the seeds do not leave the nearest
    one open; `not here` if a rival is surely better, or better without a test.
    """
    ours = of_model(methods, model)
    pairs = [(other, found) for one in ours[:1] for other in of_model(methods, *rivals)
             if (found := difference(one, other, measure))]
    if not pairs:
        return None
    sign = measure.better or 1
    parts = [f"{other.label} {amount(found.other, measure.digits)} ({found.chance})"
             for other, found in pairs]
    seeds = listed([str(count) for count in sorted({found.seeds for _, found in pairs})])
    evidence = (f"{measure.label}: {ours[0].label} {amount(pairs[0][1].first, measure.digits)}, "
                f"{', '.join(parts)}; p: paired t-test over {seeds} common seeds.")
    lost = [found for _, found in pairs if sign * (found.first - found.other) <= 0]
    undecided = [found for _, found in pairs if not found.sure]
    if any(found.sure or found.p is None for found in lost):
        return Finding(NOT_HERE, evidence)
    return Finding(OPEN if undecided else HOLDS, evidence)


def share_of_runs(runs: Sequence[Run], test: Callable[[Run], bool | None],
                  evidence: str) -> Finding | None:
    """`holds` if a statement is true of all runs that can say, `not here` if of none."""
    answers = [answer for run in runs if (answer := test(run)) is not None]
    if not answers:
        return None
    right = sum(answers)
    verdict = HOLDS if right == len(answers) else NOT_HERE if not right else OPEN
    return Finding(verdict, f"{evidence}; true of {right} of {counted(len(answers), 'run')}.")
