"""The paper's tables about cost and uncertainty: storage, parameters, time, novelty, confidence,
numbers of draws, context size."""
import statistics
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from experiments.tables.paper import DATASETS, Book, Group, Key, Table, name, ours, place
from experiments.tables.records import paper_cell
from utils.tables import spread


def cost(*path: str) -> Callable[[dict[str, Any]], Any]:
    """A number below `cost` in the uncertainty summary."""

    def look(record: dict[str, Any]) -> Any:
        found = record.get("uncertainty", {}).get("cost")
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        return found

    return look


def constant(runs: Group | None, value: Callable[[dict[str, Any]], Any]) -> str:
    """A count that all seeds share; empty where nothing was measured."""
    known = sorted({v for v in map(value, runs or []) if v is not None})
    return " / ".join(f"{v:,}" if isinstance(v, int) else f"{v:g}" for v in known)


def storage(book: Book) -> Iterator[Table]:
    """Appendix: numbers stored besides images and labels, against DER."""
    for ending, runs, theirs in book.parts("storage"):
        sizes = {(d, int(size)) for d, found in theirs.items() for size in found}
        sizes |= {(k[0], k[1]) for k, g in runs.items() if k[2] == "npcl"
                  and constant(g, cost("storage", "stored"))}
        rows = []
        for dataset, size in sorted(sizes):
            paper = theirs.get(dataset, {}).get(str(size), {})
            group = runs.get((dataset, size, "npcl"))
            rows.append([DATASETS.get(dataset, dataset), str(size),
                         constant(group, cost("storage", "der")), _count(paper.get("der")),
                         constant(group, cost("storage", "stored")), _count(paper.get("npcl")),
                         constant(group, cost("storage", "gain_percent")),
                         f"{paper['gain_percent']:g}" if paper else ""])
        if rows:
            yield Table(f"Storage{ending}", ["benchmark", "buffer", "DER, ours", "paper",
                                             "NPCL, ours", "paper", "gain %, ours", "paper"], rows)


def _count(value: Any) -> str:
    return f"{value:,}" if value is not None else ""


def parameters(book: Book) -> Iterator[Table]:
    """Table 7: trainable parameters. Every method without layers of its own has ER's number."""
    for ending, runs, theirs in book.parts("parameters"):
        counts: dict[tuple[str, str], set[int]] = {}
        for (dataset, _, variant), group in runs.items():
            for record in group:
                if record.get("n_parameters") and "," not in variant:
                    counts.setdefault((dataset, variant), set()).add(record["n_parameters"])
        keys = set(counts) | {(d, v) for d, found in theirs.items() for v in ("er", "npcl")
                              if v in found}
        rows = [[DATASETS.get(d, d), name(v), " / ".join(f"{n:,}" for n in sorted(
            counts.get((d, v), ()))), _count(theirs.get(d, {}).get(v))]
            for d, v in sorted(keys, key=lambda k: (k[0], place(k[1])))]
        if rows:
            yield Table(f"Parameters{ending}", ["benchmark", "method", "ours", "paper"], rows)


def inference_time(book: Book) -> Iterator[Table]:
    """Table 8: seconds for the test set, by the buffer that is the context."""
    for ending, runs, theirs in book.parts("inference_seconds"):
        keys = {key for key, group in runs.items() if ours(group, cost("answer", "seconds"))}
        shown = {(k[0], k[1] if k[2] not in ("er", "der") else 0, k[2]) for k in keys}
        keys |= {(d, int(s), v) for d, sizes in theirs.items() for s, row in sizes.items()
                 for v in row if (d, int(s), v) not in shown}
        rows = []
        for key in sorted(keys, key=lambda k: (k[0], place(k[2]), k[1])):
            found = theirs.get(key[0], {})
            paper = found.get(str(key[1]), {}).get(key[2], found.get("0", {}).get(key[2]))
            rows.append([DATASETS.get(key[0], key[0]), name(key[2]), str(key[1] or "-"),
                         constant(runs.get(key), cost("answer", "images")),
                         ours(runs.get(key), cost("answer", "seconds"), 3), paper_cell(paper)])
        if rows:
            yield Table(f"Inference time{ending}", ["benchmark", "method", "buffer", "images",
                                                    "seconds (seeds)", "paper"], rows)


def novelty(book: Book) -> Iterator[Table]:
    """Tables 5 and 10: variances over draws on known and on novel data, after each task."""
    columns = (("mean_id", "variance_softmax", "id_softmax"),
               ("mean_ood", "variance_softmax", "ood_softmax"),
               ("mean_id", "variance_entropy", "id_entropy"),
               ("mean_ood", "variance_entropy", "ood_entropy"))
    header = ["step", "known δ", "paper", "novel δ", "paper", "known H", "paper", "novel H",
              "paper"]
    for ending, runs, theirs in book.parts("novelty"):
        for key, group in _with(runs, theirs, "novelty", "npcl"):
            paper = theirs.get(key[0], {})
            lists = [cells for where, score, printed in columns for cells in (
                _steps(group, where, score), [_scientific([v]) for v in paper.get(printed, [])])]
            rows = [[str(i + 1), *(cells[i] if i < len(cells) else "" for cells in lists)]
                    for i in range(max(map(len, lists)))]
            data = next((r["uncertainty"]["novelty"].get("data") for r in group),
                        paper.get("data"))
            seeds = f", {len(group)} seed(s)" if group else ""
            yield Table(f"Novel data, {DATASETS.get(key[0], key[0])} against {data}{seeds}"
                        f"{ending}", header, rows)


def _with(runs: dict[Key, Group], theirs: dict[str, Any], section: str, variant: str
          ) -> list[tuple[Key, Group]]:
    """The variant's groups that have a section, and the benchmarks that the paper alone has."""
    found = [(key, [r for r in group if r.get("uncertainty", {}).get(section)])
             for key, group in sorted(runs.items()) if key[2] == variant]
    found = [(key, group) for key, group in found if group]
    known = {key[0] for key, _ in found}
    return found + [((dataset, 0, variant), []) for dataset in theirs if dataset not in known]


def _steps(group: Group, where: str, score: str) -> list[str]:
    """Mean and deviation over seeds, step by step."""
    lists = [r["uncertainty"]["novelty"].get(where, {}).get(score) or [] for r in group]
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


def confidence(book: Book) -> Iterator[Table]:
    """Tables 6 and 11: interval widths and the t-test, class by class, under the true head."""
    names = ("accuracy", "piw_correct", "piw_incorrect", "accuracy_rejected",
             "accuracy_not_rejected")
    header = ["class"]
    for title in ("accuracy", "PIW correct", "PIW incorrect", "acc. rejected",
                  "acc. not rejected"):
        header += [title, "paper"]
    for ending, runs, theirs in book.parts("confidence"):
        for key, group in _with(runs, theirs, "confidence", "npcl"):
            paper = theirs.get(key[0], {})
            rows = []
            classes = [r["uncertainty"]["confidence"]["true_head"]["by_class"] for r in group]
            count = max([len(c.get("label", [])) for c in classes]
                        + [len(paper.get("accuracy", []))])
            for i in range(count):
                row = [str(i + 1)]
                for measure in names:
                    mine = _mean([c[measure][i] for c in classes if i < len(c.get(measure, []))],
                                 2, 100)
                    row += [mine, paper_cell(paper[measure][i])
                            if i < len(paper.get(measure, [])) else ""]
                rows.append(row)
            size = f", buffer {key[1]}, {len(group)} seed(s)" if group else ""
            yield Table(f"Confidence, {DATASETS.get(key[0], key[0])}{size} (× 100){ending}",
                        header, rows)


def monte_carlo(book: Book) -> Iterator[Table]:
    """Figure: accuracy by the numbers of draws N (global) and M (task), at inference."""
    for ending, runs, _ in book.parts("monte_carlo"):
        for key, group in sorted(runs.items()):
            grids = [g for r in group if (g := cost("draws")(r))]
            if not grids:
                continue
            rows = []
            for i, n in enumerate(grids[0]["N"]):
                rows.append([f"N = {n}", *(_mean([g["accuracy"][i][j] for g in grids], 2, 100)
                                           for j in range(len(grids[0]["M"])))])
            yield Table(f"Draws, {DATASETS.get(key[0], key[0])}, {name(key[2])}, buffer {key[1]}, "
                        f"accuracy %, {len(grids)} seed(s){ending}",
                        ["", *(f"M = {m}" for m in grids[0]["M"])], rows)


def context_size(book: Book) -> Iterator[Table]:
    """Figure: accuracy and uncertainty by the size of the context at inference."""
    for ending, runs, _ in book.parts("context_size"):
        rows = []
        for key, group in sorted(runs.items()):
            found = [c for r in group if (c := cost("context")(r))]
            for i, size in enumerate(found[0]["size"] if found else []):
                rows.append([DATASETS.get(key[0], key[0]), name(key[2]), str(key[1]), str(size),
                             _mean([c["accuracy"][i] for c in found], 2, 100),
                             _mean([c["entropy"][i] for c in found], 4),
                             _mean([c["seconds"][i] for c in found], 3), str(len(found))])
        if rows:
            yield Table(f"Context size{ending}", ["benchmark", "method", "buffer", "context",
                                                  "accuracy %", "entropy", "seconds", "seeds"],
                        rows)
