"""Compact records of finished runs: which variant and protocol each is, and which belong together.

A record has what `utils/collect.py` keeps of a run. Its `settings` are the arguments that were
given besides model, benchmark, buffer size and seed; two runs are seeds of one experiment when
they agree in all of these.
"""
import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from experiments.paths import ROOT
from experiments.sweeps.specification import from_words
from utils.errors import UsageError

PAPER = ROOT / "results" / "paper.json"
# What neither changes training nor evaluation, or names the run itself.
_ASIDE = {"model", "dataset", "buffer_size", "seed", "base_path", "results_path",
          "checkpoint_path", "resume", "non_verbose", "uncertainty", "uncertainty_samples",
          "uncertainty_draws", "novel_data", "enable_other_metrics", "savecheck", "notes",
          "device", "num_workers", "tensorboard", "wandb_project", "wandb_name", "wandb_entity",
          "disable_log", "ckpt_name", "save_after_interrupt", "eval_epochs"}
# What makes a run something else than the published protocol: of every method, and of some.
_PROTOCOL = ("n_epochs", "n_iters", "fitting_mode", "backbone", "stop_after", "start_from",
             "batch_size", "debug_mode", "label_perc", "label_perc_by_class", "validation",
             "noise_rate", "dataset_config", "drop_last")
_OWN_PROTOCOL = ("replay_size", "n_global", "warmup")
# (model, settings) of the paper's named variants.
_VARIANTS = {
    ("npcl", "joint=1"): "joint_npcl", ("npcl", "joint=1 multitask=1"): "multitask_npcl",
    ("np", "joint=1"): "joint_np", ("anp", "joint=1"): "joint_anp",
    ("npcl", "head_inference=naive"): "naive_npcl",
    ("npcl", "noisy_context=1"): "noisy",
    ("npcl", "delta=0 gamma=0"): "none", ("npcl", "delta=0"): "global",
    ("npcl", "gamma=0"): "task", ("npcl", "alpha=0"): "no_alpha", ("npcl", "beta=0"): "no_beta",
}


def plain(value: Any) -> str:
    """One spelling of a value: 0.0, 0 and False are the same, so are `st-npcl` and `st_npcl`."""
    if isinstance(value, list):
        return " ".join(map(plain, value))
    if isinstance(value, bool):
        return str(int(value))
    try:
        return f"{float(value):g}"
    except (TypeError, ValueError):
        return str(value)


def settings_of(record: dict[str, Any]) -> dict[str, str]:
    """What was given besides the run's names; older records have it in their command only."""
    given = record.get("settings")
    if given is None:
        given = from_words(shlex.split(record["command"])[2:])
    return {k: plain(v) for k, v in sorted(given.items()) if k not in _ASIDE and v is not None}


def defaults_of(dataset: str) -> dict[str, str]:
    """The published protocol of a benchmark: the values that need not be given."""
    from datasets import get_dataset_class
    from datasets.utils import default_args

    try:
        return {k: plain(v) for k, v in default_args(get_dataset_class(dataset)).items()
                if v is not None}
    except UsageError:
        return {}


def _listed(given: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in given.items())


def reductions(record: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """What differs from the full protocol: arguments of every method, arguments of this one."""
    given = settings_of(record)
    usual = defaults_of(record["dataset"]) if given else {}
    shared, own = ({name: given[name] for name in sorted(names) if name in given
                    and given[name] != usual.get(name) and given[name] not in ("0", "epochs")}
                   for names in (_PROTOCOL, _OWN_PROTOCOL))
    return shared, own


def protocol(record: dict[str, Any]) -> str:
    """`` for the full protocol, else what differs: `backbone reduced-resnet18, n_epochs 5`.

    What only some methods have makes a protocol when nothing else does; else it is named in
    the row (see `variant`), so that methods that were reduced alike share a table.
    """
    shared, own = reductions(record)
    return _listed(shared or own)


def variant(record: dict[str, Any]) -> str:
    """The name of the run's row: a method, a variant that the paper names, or `er, lr 0.5`."""
    shared, own = reductions(record)
    special = own if shared else {}
    given = {k: v for k, v in settings_of(record).items()
             if k in special or k not in (*_PROTOCOL, *_OWN_PROTOCOL)}
    model = record["model"].replace("-", "_")
    words = " ".join(f"{name}={value}" for name, value in given.items())
    if not words:
        return model
    known = _VARIANTS.get((model, words))
    return known or f"{model}, {_listed(given)}"


def read_file(path: Path) -> list[dict[str, Any]]:
    """The records of a compact file; none of one that holds something else, as `paper.json` does.

    Raises:
        UsageError: the file is missing or damaged.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is missing or damaged; make it with utils/collect.py, or take it "
                         "from the repository.") from error
    return [entry for entry in entries if isinstance(entry, dict) and "command" in entry] \
        if isinstance(entries, list) else []


def named(record: dict[str, Any]) -> dict[str, Any]:
    """The record with `variant` and `protocol`; of a single task, where nothing is transferred,
    without transfer and forgetting."""
    given = settings_of(record)
    single = "1" in (given.get("joint"), given.get("stop_after"))
    kept = {k: v for k, v in record.items()
            if not single or k not in ("backward_transfer", "forgetting")}
    return {**kept, "variant": variant(record), "protocol": protocol(record)}


def read_records(folder: Path) -> list[dict[str, Any]]:
    """Every record of the compact files in a folder."""
    return [named(record) for path in sorted(folder.glob("*.json")) for record in read_file(path)]


def groups(records: Iterable[dict[str, Any]]) -> dict[tuple, list[dict[str, Any]]]:
    """(protocol, dataset, buffer size, variant) -> its runs, one a seed.

    Of two runs with the same seed the one that also looked at uncertainty counts.
    """
    found: dict[tuple, dict[int, dict[str, Any]]] = {}
    for record in records:
        together = record["variant"].startswith(("joint", "multitask"))  # the buffer is idle
        key = (record["protocol"], record["dataset"],
               0 if together else record["buffer_size"] or 0, record["variant"])
        seeds = found.setdefault(key, {})
        known = seeds.get(record["seed"])
        if known is None or ("uncertainty" in record and "uncertainty" not in known):
            seeds[record["seed"]] = record
    return {key: [seeds[s] for s in sorted(seeds)] for key, seeds in found.items()}


def read_paper() -> dict[str, Any]:
    """The paper's figures."""
    return json.loads(PAPER.read_text(encoding="utf-8"))


def paper_cell(values: list[float] | float | None, digits: int = 2) -> str:
    """`72.37 ± 0.87`, `36.60`, or nothing."""
    if values is None or values == []:
        return ""
    return " ± ".join(f"{v:.{digits}f}" for v in (values if isinstance(values, list)
                                                  else [values]))
