"""Tables of methods: mean ± sd over the seeds, sortable, each row with the commands behind it."""
from dataclasses import dataclass

from experiments.report.accuracy import setting_name
from experiments.report.svg import esc, finite
from utils.tables import spread

MEASURES = {
    "ece": ("ECE", 3, -1), "ace_classwise": ("ACE class-wise", 3, -1),
    "ace_top_equal_mass": ("ACE top label, equal mass", 3, -1), "nll": ("NLL", 3, -1),
    "brier": ("Brier", 3, -1), "rejection_area": ("Rejection area", 3, 1),
    "bwt_entropy": ("BWT of entropy", 3, 0),
    "head_inference_accuracy": ("Head inference", 3, 1),
    "auroc_max_softmax": ("AUROC max softmax", 3, 1), "auroc_entropy": ("AUROC entropy", 3, 1),
    "auroc_energy": ("AUROC energy", 3, 1),
    "auroc_variance_softmax": ("AUROC var. softmax", 3, 1),
    "auroc_variance_entropy": ("AUROC var. entropy", 3, 1),
    **{f"fpr95_{name}": (f"FPR95 {label}", 3, -1) for name, label in (
        ("max_softmax", "max softmax"), ("entropy", "entropy"), ("energy", "energy"),
        ("variance_softmax", "var. softmax"), ("variance_entropy", "var. entropy"))},
    "piw_correct": ("PIW right", 3, 0), "piw_incorrect": ("PIW wrong", 3, 0),
    "active_units_global": ("Active units", 1, 0), "own_task_share": ("Own-task attention", 3, 0)}


@dataclass
class Column:
    """A measure of a run: name, how to get it, digits, and which direction is better (0: none)."""

    name: str
    value: object
    digits: int = 2
    better: int = 0
    title: str = ""


def headline_columns(groups):
    """Accuracy in each setting, transfer, forgetting, ECE where there is one, seconds."""
    runs = [run for group in groups for run in group.runs]
    settings = list(dict.fromkeys(s for run in runs for s in run.result["accuracy"]))
    columns = [Column(f"{setting_name(s)} %", lambda r, s=s: r.result["accuracy"].get(s), 2, 1,
                      "Mean accuracy over all tasks at the end of the run") for s in settings]
    main = setting_name(runs[0].setting)
    columns += [
        Column("BWT", lambda r: r.transfer("backward_transfer"), 2, 1,
               f"Backward transfer ({main}): at the end minus when learned, mean over old tasks"),
        Column("Forgetting", lambda r: r.transfer("forgetting"), 2, -1,
               f"Forgetting ({main}): best ever minus at the end, mean over old tasks")]
    if any(run.headline("ece") is not None for run in runs):
        columns.append(Column("ECE", lambda r: r.headline("ece"), 3, -1,
                              "Expected calibration error, 15 equal-width bins, a fraction"))
    columns.append(Column("Seconds", lambda r: r.result["seconds"], 1, 0, "Wall clock of a run"))
    return columns


def measure_columns(groups):
    """Those measures of the uncertainty summaries that any run has."""
    runs = [run for group in groups for run in group.runs]
    return [Column(label, lambda r, n=name: r.headline(n), digits, better, name)
            for name, (label, digits, better) in MEASURES.items()
            if any(run.headline(name) is not None for run in runs)] + [
        Column(label, lambda r, n=name: r.storage(n), 0, 0, title)
        for name, label, title in (
            ("stored", "Stored numbers", "Kept besides images and labels at the end"),
            ("der", "DER would store", "The logits that DER keeps for the same buffer"))
        if any(run.storage(name) is not None for run in runs)]


def _mean(values):
    known = finite(values)
    return sum(known) / len(known) if known else None


def _best(groups, columns):
    """The best mean of each column, for each buffer size with more than one method."""
    best = {}
    for column in columns:
        for buffer in {g.buffer for g in groups}:
            means = [m for g in groups if g.buffer == buffer and g.runs[0].sequential
                     and (m := _mean([column.value(r) for r in g.runs])) is not None]
            if column.better and len(means) > 1:
                best[column.name, buffer] = max(means) if column.better > 0 else min(means)
    return best


def _header(columns):
    plain = [("Method", ""), ("Buffer", "Samples kept for replay"),
             *((c.name, c.title) for c in columns), ("Seeds", "Runs that the mean is over")]
    cells = "".join(
        f'<th scope="col" aria-sort="none"{" class=name" if i == 0 else ""}><button type="button" '
        f'class="sort" title="{esc(title or "Sort by this column")}">{esc(name)}</button></th>'
        for i, (name, title) in enumerate(plain))
    return f"<thead><tr>{cells}</tr></thead>"


def command_item(run, words=""):
    """A run's exact command with a button that copies it."""
    return (f'<li><span class="who">{esc(words or run.title)}</span><code>{esc(run.command)}'
            '</code><button type="button" class="copy">Copy</button></li>')


def _row(group, columns, best, place):
    commands = "\n".join(run.command for run in group.runs)
    size = "-" if group.buffer is None else group.buffer
    variant = f'<span class="variant">{esc(group.variant)}</span>' if group.variant else ""
    cells = [f'<th scope="row" class="name" data-v="{esc(group.label)}"><button type="button" '
             f'class="more" aria-expanded="false" aria-controls="{place}">{esc(group.model)}'
             f"</button>{variant}</th>",
             f'<td data-v="{-1 if group.buffer is None else group.buffer}">{size}</td>']
    details = []
    for column in columns:
        values = [column.value(run) for run in group.runs]
        mean = _mean(values)
        winner = mean is not None and best.get((column.name, group.buffer)) == mean
        shown = spread(values, column.digits).replace("-", "\u2212") if mean is not None else "–"
        body = f"<strong>{esc(shown)}</strong>" if winner else esc(shown)
        cells.append(f'<td data-v="{"" if mean is None else repr(float(mean))}">{body}</td>')
    cells.append(f'<td data-v="{len(group.runs)}">{len(group.runs)}</td>')
    for run in group.runs:
        parts = [f"{c.name} {v:.{c.digits}f}" for c in columns
                 if (v := c.value(run)) is not None]
        details.append(command_item(run, f"seed {run.result['seed']}: {', '.join(parts)}"))
    return (f'<tbody><tr title="{esc(commands)}">{"".join(cells)}</tr><tr id="{place}" hidden>'
            f'<td class="commands" colspan="{len(columns) + 3}"><ul>{"".join(details)}</ul></td>'
            "</tr></tbody>")


def table(groups, columns, caption, prefix):
    """The table with its own scroll box."""
    best = _best(groups, columns)
    rows = "".join(_row(group, columns, best, f"{prefix}-{i}") for i, group in enumerate(groups))
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="{esc(caption)}">'
            f'<table class="sortable"><caption>{esc(caption)}</caption>{_header(columns)}{rows}'
            "</table></div>")


def best_first(groups):
    """Groups as the page shows them at first: by buffer, the most accurate on top."""
    def place(group):
        accuracy = _mean([r.result["accuracy"][r.setting] for r in group.runs])
        return (-1 if group.buffer is None else group.buffer, -accuracy)
    return sorted(groups, key=place)
