"""The tables of the report on the paper's claims: accuracies, and what the heads are worth."""
from collections.abc import Iterator

from engine.tables import spread
from experiments.run import Run
from experiments.tables.headline import pivot
from experiments.tables.rows import benchmark, name
from experiments.tables.sections import MeasuredRuns, section
from experiments.tables.table import Table

BENCHMARKS = {"perm-mnist": 20, "rot-mnist": 20, "seq-mnist": 5, "seq-fmnist": 5}  # -> tasks
BUFFER = 200
READINGS = ("npcl", "npcl_linear", "npcl_release")


@section("reproduction", "Reproduction", "Two readings of NPCL beside ER and DER: the paper's "
         "text, and the authors' released code (`--model_config release`).", place=95)
def reproduction(book: MeasuredRuns) -> Iterator[Table]:
    """Accuracies beside the paper's; then the heads, where runs looked at them."""
    for ending, runs, theirs in book.parts("accuracy"):
        measured = {key[2] for key in runs if key[0] in BENCHMARKS and key[1] == BUFFER}
        variants = ["er", "der", *(reading for reading in READINGS if reading in measured)]
        keys = [(dataset, BUFFER, variant) for dataset in BENCHMARKS for variant in variants
                if (dataset, BUFFER, variant) in runs]
        if ending or not any(key[2] == "npcl_release" for key in keys):
            continue
        yield pivot("Accuracy, %, buffer 200", runs, theirs, keys, variants)
        rows = [_heads(dataset, reading, runs[dataset, BUFFER, reading])
                for dataset in BENCHMARKS for reading in READINGS
                if (dataset, BUFFER, reading) in runs]
        yield Table.of_rows("What the heads are worth, %, buffer 200", [
            "benchmark", "reading", "least entropy answers", "the true head answers",
            "any other head answers", "right head found", "by chance", "seeds"],
            [row for row in rows if row])


def _heads(dataset: str, reading: str, group: list[Run]) -> list[str]:
    """A row; none where no run has looked at its heads."""
    seen = [run.headline for run in group if "true_head_accuracy" in run.headline]
    if not seen:
        return []
    cells = [spread([100 * values[of] for values in seen], 1)
             for of in ("accuracy", "true_head_accuracy", "other_heads_accuracy",
                        "head_inference_accuracy")]
    return [benchmark(dataset), name(reading), *cells, f"{100 / BENCHMARKS[dataset]:.0f}",
            str(len(seen))]
