"""From the saved arrays of a run to summary.json, without the model."""
from pathlib import Path
from typing import Any

from npcl_plugin.uncertainty import sections
from npcl_plugin.uncertainty.definitions import DEFINITIONS
from npcl_plugin.uncertainty.files import (
    FOLDER,
    load_arrays,
    load_json,
    numbered,
    plain,
    save_json,
)
from npcl_plugin.uncertainty.measures import headline
from npcl_plugin.uncertainty.np_sections import attention_section, latents_section

FORMAT = 1


def write_summary(run_folder: Path) -> dict[str, Any]:
    """Measure everything and write `<run folder>/uncertainty/summary.json`; returns it.

    Raises:
        ValueError: there is nothing to measure, or a file is damaged.
    """
    folder = Path(run_folder) / FOLDER
    summary: dict[str, Any] = plain(build(folder))
    save_json(folder / "summary.json", summary)
    return summary


def build(folder: Path) -> dict[str, Any]:
    """The content of summary.json; see docs/uncertainty-format.md."""
    paths = numbered(folder, "task")
    if not paths:
        raise ValueError(f"Expected predictions saved by --uncertainty 1 in {folder}, but there "
                         "are none.")
    about = load_json(folder / "run.json")
    known = [load_arrays(path) for path in paths.values()]
    novel = {task: load_arrays(path) for task, path in numbered(folder, "novel").items()}
    contexts = [load_arrays(path) for path in numbered(folder, "context").values()]
    epochs = {task: load_arrays(path) for task, path in numbered(folder, "latents").items()}
    costs = folder / "cost.json"
    calibration = sections.calibration_section(known)
    summary = {
        "format": FORMAT, "run": {**about["run"], "n_tasks": len(paths)},
        "definitions": DEFINITIONS, "notes": about["notes"], "headline": {},
        "calibration": calibration, "heads": sections.heads_section(known),
        "transfer": sections.transfer_section(calibration["by_task"]),
        "novelty": sections.novelty_section(
            [(arrays, novel[task]) for task, arrays in zip(paths, known, strict=True)
             if task in novel], about["novel"]),
        "confidence": sections.confidence_section(known[-1]),
        "latents": latents_section(epochs, contexts),
        "attention": attention_section(contexts[-1] if contexts else None, known[-1]),
        "cost": load_json(costs) if costs.exists() else None,
    }
    return {**summary, "headline": headline(summary)}

