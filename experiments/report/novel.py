"""Novel data: how well each score tells it from the known, and how the scores are spread."""
from collections.abc import Iterator

from experiments.report.calibration import over_tasks
from experiments.report.figure import (
    Figure,
    Methods,
    Number,
    Section,
    Shown,
    comparison_figure,
    number,
    run_figure,
    tiled,
)
from experiments.report.svg import Plot, Svg, finite
from experiments.words import counted

SHORT = {"max_softmax": "1 − max\nsoftmax", "variance_softmax": "var. of\nsoftmax",
         "variance_entropy": "var. of\nentropy"}
KINDS = {"inverted": "the benchmark's own, bright and dark exchanged",
         "shuffled": "the benchmark's own, their pixels shuffled", "mnist": "MNIST",
         "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
NAMES = {"max_softmax": "1 − max softmax", "entropy": "entropy", "energy": "energy",
         "variance_softmax": "variance of softmax", "variance_entropy": "variance of entropy"}


def score_name(score: str) -> str:
    """A score in words."""
    return NAMES.get(score, score.replace("_", " "))


def against(novelty: Section) -> str:
    """Which data is told from which, as a sentence."""
    kind = str(novelty["data"])
    return (f"Novel: {counted(novelty['n_ood'], 'image')} ({KINDS.get(kind, kind)}); known: "
            f"{counted(novelty['n_id'], 'image')} of this benchmark's test data.")


@run_figure("novelty")
def novelty_scores(shown: Shown, novelty: Section) -> Iterator[Figure]:
    """AUROC and FPR at 95 % of each score after each task."""
    for name, title, better in (("auroc", "AUROC", "0.5 is chance, 1 is perfect"),
                                ("fpr95", "FPR at 95 %", "0 is perfect, 0.95 is chance")):
        lines = [(score_name(s), novelty[name][s]) for s in novelty["scores"]]
        last = "; ".join(f"{label} {number(line[-1])}" for label, line in lines)
        meaning = ("the chance that a novel image scores higher than a known one"
                   if name == "auroc" else
                   "the share of novel images taken for known when 95 % of the known ones are")
        yield Figure(
            f"novelty-{name}", f"Novel data: {title}", over_tasks(
                lines, title, floor=0, ceiling=1.01),
            f"{title} of each score, {meaning}; {better}. {against(novelty)}", "Novel data",
            facts=f"At the end: {last}.")


def _histogram(score: str, histogram: Section, auroc: Number) -> Svg:
    edges, known, novel = histogram["edges"], histogram["id"], histogram["ood"]
    plot = Plot((edges[0], edges[-1]), (0, max(finite([*known, *novel]), default=1) * 1.08 or 1),
                score_name(score), "share of images", height=110, width=230,
                legend=[("known", 0), ("novel", 1)])
    plot.steps(edges, known, 0).steps(edges, novel, 1)
    plot.parts.append(f'<text class="m e" x="{plot.right:.1f}" y="{plot.top - 10:.1f}">AUROC '
                      f"{number(auroc)}</text>")
    return plot.svg()


@run_figure("novelty")
def novelty_histograms(shown: Shown, novelty: Section) -> Iterator[Figure]:
    """Each score's distribution on known and novel data."""
    scores = [s for s in novelty["scores"] if novelty["histogram"].get(s)]
    pictures = [_histogram(s, novelty["histogram"][s], novelty["auroc"][s][-1]) for s in scores]
    if pictures:
        yield Figure(
            "novelty-histograms", "Novel data: spread of the scores", tiled(
                pictures, min(len(pictures), 3), "Scores on known and on novel data"),
            "The less the two overlap, the better the score tells them apart. End of the run. "
            f"{against(novelty)}", "Novel data")


@comparison_figure
def novelty_by_method(methods: Methods) -> Iterator[Figure]:
    """AUROC at the end of each score, methods side by side."""
    rows = list(methods.sections("novelty"))
    scores = [s for s in NAMES if any(s in n["auroc"] for _, found in rows for n in found)]
    if not scores:
        return
    plot = Plot((-0.5, len(scores) - 0.5), (0, 1), "",
                "AUROC at the end (dashed: chance)",
                xticks=[(i, SHORT.get(s, s)) for i, s in enumerate(scores)],
                legend=[(label, methods.styles[label]) for label, _ in rows], filled=True,
                width=max(340, len(scores) * max(58, 8 + 6 * len(rows))), height=220)
    half = 0.42 / max(len(rows), 1)
    for k, (label, found) in enumerate(rows):
        for i, score in enumerate(scores):
            values = finite([n["auroc"][score][-1] for n in found if score in n["auroc"]])
            if values:
                mean = sum(values) / len(values)
                plot.bar(i - 0.42 + half * (2 * k + 1), 0.9 * half, mean, methods.styles[label],
                         f"{label}: {score_name(score)}, AUROC {mean:.3f}")
    plot.guide((-0.5, 0.5), (len(scores) - 0.5, 0.5))
    yield Figure(
        "novelty-by-method", "Novel data: AUROC by score and method", plot.svg(),
        "How well each score tells novel data from known at the end of the run (mean over seeds). "
        "Variances exist only for methods that draw.", "Curves")
