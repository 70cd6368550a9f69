"""The paper's tables that only neural processes fill: objectives, storage, novelty, confidence."""
import statistics
from collections.abc import Iterable, Iterator
from typing import Any

from engine.tables import spread
from experiments.identity import Key
from experiments.measures import ACCURACY
from experiments.run import Run
from experiments.tables import published
from experiments.tables.cost import constant, cost, count
from experiments.tables.paper import by_method
from experiments.tables.published import cell
from experiments.tables.rows import benchmark, name
from experiments.tables.sections import MeasuredRuns, Runs, section
from experiments.tables.table import Table
from experiments.words import counted

_OBJECTIVES = tuple(f"{name}{decoder}" for name in ("none", "global", "task", "no_alpha", "no_beta")
                    for decoder in ("", "_linear"))


def _measured(book: MeasuredRuns, variants: Iterable[str]) -> set[tuple[str, int]]:
    """(dataset, buffer size) of every run of these variants."""
    wanted = set(variants)
    return {key[:2] for runs in book.measured.values() for key in runs if key[2] in wanted}


@section("objectives", "Learning objectives", place=35)
def objectives(book: MeasuredRuns) -> Iterator[Table]:
    """Table 3: accuracy with each learning objective. `npcl` is the row with both."""
    theirs = {dataset: {size: {("npcl" if row == "both" else row): value
                               for row, value in rows.items()} for size, rows in sizes.items()}
              for dataset, sizes in published.figures("objectives").items()}
    measured = _measured(book, _OBJECTIVES)
    parts = ((ending, runs, {} if ending else theirs)
             for ending, runs, _ in book.parts("objectives"))
    return by_method(parts, ACCURACY, "Accuracy with learning objectives, %",
                     lambda key: key[2] in ("er", "npcl", "npcl_linear", *_OBJECTIVES)
                     and key[:2] in measured)


@section("noisy-context", "Noisy context", place=42)
def noisy_context(book: MeasuredRuns) -> Iterator[Table]:
    """Appendix: the importance of correct context."""
    measured = _measured(book, ["noisy", "noisy_linear"])
    return by_method(book.parts("noisy_context"), ACCURACY, "Accuracy with noisy context, %",
                     lambda key: key[2].removesuffix("_linear") in ("st_npcl", "noisy", "npcl")
                     and key[:2] in measured)


@section("storage", "Storage", place=44)
def storage(book: MeasuredRuns) -> Iterator[Table]:
    """Appendix: numbers stored besides images and labels, against DER."""
    for ending, runs, theirs in book.parts("storage"):
        sizes = {(d, int(size)) for d, found in theirs.items() for size in found}
        sizes |= {(k[0], k[1]) for k, g in runs.items() if k[2] == "npcl"
                  and constant(g, cost("storage", "stored"))}
        rows = []
        for dataset, size in sorted(sizes):
            paper = theirs.get(dataset, {}).get(str(size), {})
            group = runs.get((dataset, size, "npcl"))
            rows.append([benchmark(dataset), str(size),
                         constant(group, cost("storage", "der")), count(paper.get("der")),
                         constant(group, cost("storage", "stored")), count(paper.get("npcl")),
                         constant(group, cost("storage", "gain_percent")),
                         f"{paper['gain_percent']:g}" if paper else ""])
        if rows:
            yield Table.of_rows(f"Storage{ending}", [
                "benchmark", "buffer", "DER, ours", "paper", "NPCL, ours", "paper", "gain %, ours",
                "paper"], rows)


@section("novelty", "Novel data", "Mean variance over the draws of softmax (δ) and entropy (H), on "
         "test data of the tasks so far and on data of another kind. Means over the seeds.",
         (("δ", "variance_softmax"), ("H", "variance_entropy")), place=62)
def novelty(book: MeasuredRuns) -> Iterator[Table]:
    """Tables 5 and 10: variances over draws on known and on novel data, after each task."""
    columns = (("mean_id", "variance_softmax", "id_softmax"),
               ("mean_ood", "variance_softmax", "ood_softmax"),
               ("mean_id", "variance_entropy", "id_entropy"),
               ("mean_ood", "variance_entropy", "ood_entropy"))
    header = ["step", "known δ", "paper", "novel δ", "paper", "known H", "paper", "novel H",
              "paper"]
    for ending, runs, theirs in book.parts("novelty"):
        for key, group in _with(runs, theirs, "novelty"):
            paper = theirs.get(key[0], {})
            lists = [cells for where, score, printed in columns for cells in (
                _steps(group, where, score), [_scientific([v]) for v in paper.get(printed, [])])]
            rows = [[str(i + 1), *(cells[i] if i < len(cells) else "" for cells in lists)]
                    for i in range(max(map(len, lists)))]
            data = next((run.section("novelty", "data") for run in group), paper.get("data"))
            seeds = f", {counted(len(group), 'seed')}" if group else ""
            yield Table.of_rows(f"Novel data, {benchmark(key[0])} against {data}{seeds}{ending}",
                                header, rows)


def _with(runs: Runs, theirs: dict[str, Any], part: str) -> list[tuple[Key, list[Run]]]:
    """NPCL's groups that have a section, and the benchmarks that the paper alone has."""
    found = [(key, [run for run in group if run.section(part)])
             for key, group in sorted(runs.items()) if key[2] == "npcl"]
    found = [(key, group) for key, group in found if group]
    known = {key[0] for key, _ in found}
    return found + [((dataset, 0, "npcl"), []) for dataset in theirs if dataset not in known]


def _steps(group: list[Run], where: str, score: str) -> list[str]:
    """Mean and deviation over seeds, step by step."""
    lists = [run.section("novelty", where, score) or [] for run in group]
    return [_scientific([v for v in values if v is not None])
            for values in zip(*lists, strict=False)]


def _scientific(values: list[float]) -> str:
    if not values:
        return ""
    deviation = f" ± {statistics.stdev(values):.0e}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1e}{deviation}"


def _mean(values: Iterable[float | None], digits: int, factor: float = 1) -> str:
    """Mean ± sd over the seeds, empty for none."""
    known = [factor * v for v in values if v is not None]
    return spread(known, digits) if known else ""


@section("confidence", "Confidence", "Prediction interval widths and accuracies by the paired "
         "t-test's verdict, under the true head. The paper's is one run.", (("PIW", "piw"),),
         place=64)
def confidence(book: MeasuredRuns) -> Iterator[Table]:
    """Tables 6 and 11: interval widths and the t-test, class by class, under the true head."""
    names = ("accuracy", "piw_correct", "piw_incorrect", "accuracy_rejected",
             "accuracy_not_rejected")
    header = ["class"]
    for title in ("accuracy", "PIW correct", "PIW incorrect", "acc. rejected",
                  "acc. not rejected"):
        header += [title, "paper"]
    for ending, runs, theirs in book.parts("confidence"):
        for key, group in _with(runs, theirs, "confidence"):
            paper = theirs.get(key[0], {})
            classes = [run.section("confidence", "true_head", "by_class") or {} for run in group]
            n_classes = max([len(c.get("label", [])) for c in classes]
                            + [len(paper.get("accuracy", []))])
            rows = []
            for i in range(n_classes):
                row = [str(i + 1)]
                for measure in names:
                    mine = _mean([c[measure][i] for c in classes if i < len(c.get(measure, []))],
                                 2, 100)
                    row += [mine, cell(paper[measure][i]) if i < len(paper.get(measure, []))
                            else ""]
                rows.append(row)
            size = f", buffer {key[1]}, {counted(len(group), 'seed')}" if group else ""
            yield Table.of_rows(f"Confidence, {benchmark(key[0])}{size} (× 100){ending}", header,
                                rows)


@section("draws", "Monte-Carlo samples", "The paper shows a heat map without figures and names (M "
         "= 1, N = 50) and (M = 10, N = 20) as favourable.", place=66)
def monte_carlo(book: MeasuredRuns) -> Iterator[Table]:
    """Figure: accuracy by the numbers of draws N (global) and M (task), at inference."""
    for ending, runs, _ in book.parts("monte_carlo"):
        for key, group in sorted(runs.items()):
            grids = [grid for run in group if (grid := run.section("cost", "draws"))]
            if not grids:
                continue
            rows = [[f"N = {n}", *(_mean([g["accuracy"][i][j] for g in grids], 2, 100)
                                   for j in range(len(grids[0]["M"])))]
                    for i, n in enumerate(grids[0]["N"])]
            yield Table.of_rows(
                f"Draws, {benchmark(key[0])}, {name(key[2])}, buffer {key[1]}, accuracy %, "
                f"{counted(len(grids), 'seed')}{ending}",
                ["", *(f"M = {m}" for m in grids[0]["M"])], rows)


@section("context", "Context size", "The paper shows curves without figures: accuracy grows with "
         "the context.", place=68)
def context_size(book: MeasuredRuns) -> Iterator[Table]:
    """Figure: accuracy and uncertainty by the size of the context at inference."""
    for ending, runs, _ in book.parts("context_size"):
        rows = []
        for key, group in sorted(runs.items()):
            found = [context for run in group if (context := run.section("cost", "context"))]
            for i, size in enumerate(found[0]["size"] if found else []):
                rows.append([benchmark(key[0]), name(key[2]), str(key[1]), str(size),
                             _mean([c["accuracy"][i] for c in found], 2, 100),
                             _mean([c["entropy"][i] for c in found], 4),
                             _mean([c["seconds"][i] for c in found], 3), str(len(found))])
        if rows:
            yield Table.of_rows(f"Context size{ending}", [
                "benchmark", "method", "buffer", "context", "accuracy %", "entropy", "seconds",
                "seeds"], rows)
