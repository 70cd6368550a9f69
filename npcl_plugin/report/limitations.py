"""The limitations that the paper names, then and now: one picture with four panels.

    python -m npcl_plugin.report.limitations docs/images/limitations.svg

Accuracies and attention are read from the runs in `results/`. Parameters and the cost of answering
are those of `docs/npcl.md`, where they stand with their commands; the paper's are its own.
"""
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from experiments.compact import read_entries
from experiments.report.figure import tiled
from experiments.report.svg import Plot, Svg

RESULTS = Path(__file__).parent.parent.parent / "results"
STYLES = {"paper": 2, "npcl": 1, "npcl_plus": 0}
Bars = dict[str, list[float | None]]  # method -> a value for each place

PLACES = ["S-CIFAR-10", "S-CIFAR-100"]
RESNET18 = (11_173_962, 11_220_132)
PARAMETERS = {"paper": (19_397_706, 24_091_556), "npcl": (17_315_412, 21_388_552),
              "npcl_plus": (13_352_522, 13_421_732)}
LINEAR = {"decoder_depth": "0"}  # of the runs of npcl with logits
BUFFERS = ["buffer 200", "buffer 2000"]
ANSWERS: Bars = {"paper": [5.3, 22.8], "npcl": [1.06, 1.21]}


def panel(title: str, unit: str, places: list[str], bars: Bars, chance: float | None = None) -> Svg:
    """Bars of some methods at some places, each with its number above it."""
    values = [v for row in bars.values() for v in row if v is not None]
    end = len(places) - (0.4 if chance is None else 0.2)  # room for a word
    plot = Plot((-0.6, end), (0, 1.15 * max(values)), unit, title, filled=True,
                xticks=list(enumerate(places)),
                legend=[(name, STYLES.get(name, 3)) for name in bars], height=150)
    half = 0.4 / len(bars)
    for k, (name, row) in enumerate(bars.items()):
        for i, value in enumerate(row):
            if value is not None:
                at = i - 0.4 + half * (2 * k + 1)
                plot.bar(at, 0.9 * half, value, STYLES.get(name, 3), f"{name}: {value:.3g}")
                plot.note(at, value + 0.02 * max(values), f"{value:.3g}", "m c")
    if chance is not None:
        plot.guide((-0.6, chance), (end, chance), "chance")
    return plot.svg()


def average(records: list[Any], key: str, **wanted: Any) -> float | None:
    """Mean over seeds of a number of the records that are as wanted; None without any."""
    found = [record for record in records
             if all(record.get(name) == value for name, value in wanted.items())]
    numbers = [next(iter(record["accuracy"].values())) if key == "accuracy" else
               record.get("uncertainty", {}).get("headline", {}).get(key) for record in found]
    numbers = [number for number in numbers if number is not None]
    return mean(numbers) if numbers else None


def picture(records: list[Any]) -> Svg:
    """All four panels."""
    sequences = {"seq-mnist": "S-MNIST 200", "seq-fmnist": "S-FMNIST 200"}
    domains = {"perm-mnist": "P-MNIST 200", "rot-mnist": "R-MNIST 200"}
    shares: Bars = {model: [share and 100 * share for share in (
        average(records, "own_task_share", model=model, dataset=name, buffer_size=200, settings={})
        for name in sequences)] for model in ("npcl", "npcl_plus")}
    kept: Bars = {words: [average(records, "accuracy", model="npcl", dataset=name, buffer_size=200,
                                  settings=settings) for name in domains]
                  for words, settings in (("npcl", LINEAR), ("npcl with logits replay", LINEAR | {
                      "dark_replay": "1", "grad_cap": "0.5"}))}
    above: Bars = {model: [100 * (count / bare - 1) for count, bare in zip(
        counts, RESNET18, strict=True)] for model, counts in PARAMETERS.items()}
    return tiled([
        panel("Attention on the query's own task, %", "", list(sequences.values()), shares, 20),
        panel("Parameters above ResNet-18's, %", "", PLACES, above),
        panel("Time to answer ÷ ER's, ResNet-18", "", BUFFERS, ANSWERS),
        panel("Accuracy without and with logits, %", "", list(domains.values()), kept),
    ], 2, "The four limitations that the paper names, then and now")


def main(arguments: list[str]) -> int:
    """Write the picture into the file that is named."""
    if len(arguments) != 1 or not arguments[0].endswith(".svg"):
        print("Expected one file name that ends in .svg.", file=sys.stderr)
        return 2
    records = [record for name in ("npcl.json", "npcl-plus.json") if (RESULTS / name).exists()
               for record in read_entries(RESULTS / name)]
    Path(arguments[0]).write_text(picture(records).standalone(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
