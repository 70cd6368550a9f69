"""The HTML page: sections, cards, run templates, styles and script in one file."""
import base64
import hashlib
import json
import time
from pathlib import Path

from experiments.report.figures import run_figures, table_figures, tables
from experiments.report.svg import esc
from experiments.report.tables import (
    MEASURES,
    best_first,
    command_item,
    headline_columns,
    measure_columns,
    table,
)
from experiments.report.theme import figure_rules, variables

HERE = Path(__file__).resolve().parent
PLAIN_DEFINITIONS = {
    "accuracy": "Percentage of right answers, mean over tasks (each counts the same). Class-IL "
                "chooses among all classes seen, Task-IL among those of the sample's task.",
    "BWT": "Backward transfer: accuracy at the end minus accuracy when just learned, mean over all "
           "tasks but the last. Negative means forgetting.",
    "Forgetting": "Best accuracy ever minus accuracy at the end, mean over all tasks but the last.",
    "±": "Sample standard deviation over the seeds; a number without it comes from one run."}
ABOUT_ACE = ("The paper prints ACE values of 0.82 to 0.95. Both definitions here are errors that "
             "lie near 0 for a usable model, so the paper's values match neither scale and are "
             "not compared.")


def paper_tag(paper):
    """`fig04a` as `paper Fig. 4a`."""
    if not paper:
        return ""
    kind = "Fig." if paper.startswith("fig") else "Table"
    return f' <span class="tag">paper {kind} {esc(paper[3:].lstrip("0"))}</span>'


def card(figure, runs):
    """A figure with title, caption and the commands behind it."""
    commands = "".join(command_item(run) for run in runs)
    facts = f'<p class="facts">{esc(figure.facts)}</p>' if figure.facts else ""
    words = "Command" if len(runs) == 1 else f"{len(runs)} commands"
    wide = " wide" if figure.svg.width > 352 else ""
    return (f'<figure class="card{wide}" data-key="{esc(figure.key)}" '
            f'data-section="{esc(figure.section)}"><h4>{esc(figure.title)}'
            f'{paper_tag(figure.paper)}</h4><div class="scroll">'
            f"{figure.svg.inline()}</div><figcaption>{facts}<p>{esc(figure.caption)}</p>"
            f"<details><summary>{words}</summary><ul>{commands}</ul></details></figcaption>"
            "</figure>")


def _facts(run):
    """Small numbers and texts of a run."""
    result = run.result
    rows = [("Benchmark", result["dataset"]), ("Method", result["model"]),
            ("Buffer", result["buffer_size"]), ("Seed", result["seed"]),
            ("Parameters", result.get("n_parameters")), ("Seconds", result["seconds"]),
            ("Memory, MB", result.get("peak_memory_mb")), ("Notes", run.args.get("notes")),
            ("Folder", run.name)]
    measures = run.measures or {}
    details = measures.get("run") if isinstance(measures.get("run"), dict) else {}
    rows += [("Head inference", details.get("head_inference")),
             ("Samples a task", details.get("samples_per_task")),
             ("Stored numbers", run.storage("stored")), ("DER would store", run.storage("der")),
             ("Storage gain, %", run.storage("gain_percent"))]
    items = "".join(f"<div><dt>{esc(name)}</dt><dd>{esc(value)}</dd></div>"
                    for name, value in rows if value is not None and value != "")
    return f'<dl class="facts-list">{items}</dl>'


def run_template(run):
    """Everything of one run, cloned by the script when the run is picked."""
    problems = list(run.remarks)
    figures = run_figures(run, problems)
    notes = (run.measures or {}).get("notes")
    notes = [str(n) for n in notes] if isinstance(notes, list) else []
    said = "".join(f'<p class="remark">{esc(text)}</p>' for text in (*problems, *notes))
    if not run.measures and not run.remarks:
        said += ('<p class="remark">This run has accuracies only. This command adds calibration, '
                 "novel data and, for neural processes, heads, latents and attention:</p>"
                 f'<ul><li><code>{esc(run.command)} --uncertainty 1</code><button type="button" '
                 'class="copy">Copy</button></li></ul>')
    settings = " ".join(f"{name}={json.dumps(value)}" for name, value in sorted(run.args.items())
                        if value is not None)
    cards = "".join(card(figure, [run]) for figure in figures)
    return (f'<template id="run-{run.number}"><div class="about">{_facts(run)}{said}'
            f'<details><summary>Command and settings</summary><ul>{command_item(run)}</ul>'
            f'<p class="settings"><code>{esc(settings)}</code></p></details></div>'
            f"{cards}</template>"), problems


def _island(groups):
    """What the script compares, as JSON that cannot end its element."""
    data = []
    for group in groups:
        columns = headline_columns([group]) + [c for c in measure_columns([group])
                                               if c.name != "ECE"]
        for run in group.runs:
            values = [[c.name, c.value(run), c.digits] for c in columns]
            data.append({"id": run.number, "title": run.title, "dataset": group.dataset,
                         "measured": bool(run.measures), "values": values})
    text = json.dumps(data)
    return text.replace("<", "\\u003c").replace("&", "\\u0026").replace("\u2028", " ")


def _options(groups):
    parts = []
    for dataset in dict.fromkeys(g.dataset for g in groups):
        options = "".join(
            f'<option value="{run.number}">{esc(run.title)}{"" if run.measures else " (accuracy)"}'
            "</option>" for g in groups if g.dataset == dataset for run in g.runs)
        parts.append(f'<optgroup label="{esc(dataset)}">{options}</optgroup>')
    return "".join(parts)


def _overview(groups):
    parts = []
    for i, dataset in enumerate(dict.fromkeys(g.dataset for g in groups)):
        own = best_first([g for g in groups if g.dataset == dataset])
        setting = own[0].runs[0].setting
        parts.append(table(own, headline_columns(own),
                           f"{dataset} ({setting}), mean ± sd over the seeds", f"h{i}"))
        measured = [g for g in own if any(run.measures for run in g.runs)]
        if measured:
            parts.append(table(measured, measure_columns(measured),
                               f"{dataset}: uncertainty at the end of the run, fractions in [0, 1] "
                               "and nats", f"u{i}"))
    return "".join(parts)


def _between(groups, problems):
    parts = []
    for one in tables(groups):
        runs = [run for group in one.groups for run in group.runs]
        cards = "".join(card(figure, runs) for figure in table_figures(one, problems))
        size = "" if one.buffer is None else f", buffer {one.buffer}"
        parts.append(f"<h3>{esc(one.dataset + size)}</h3><div class=cards>{cards}</div>")
    return "".join(parts)


def _definitions(groups):
    known = {}
    for group in groups:
        for run in group.runs:
            found = (run.measures or {}).get("definitions")
            known.update(found if isinstance(found, dict) else {})
    rows = [*PLAIN_DEFINITIONS.items(), *((f"{MEASURES[n][0]} ({n})" if n in MEASURES else n, text)
                                          for n, text in known.items())]
    items = "".join(f"<div><dt>{esc(name)}</dt><dd>{esc(text)}</dd></div>" for name, text in rows)
    ace = f"<p>{esc(ABOUT_ACE)}</p>" if known else ""
    return f'<dl class="definitions">{items}</dl>{ace}'


def _left_out(left_out):
    if not left_out:
        return ""
    items = "".join(
        f'<li><span class="who">{esc(one.name)}: {esc(one.reason)}</span>'
        + (f'<code>{esc(one.command)}</code><button type="button" class="copy">Copy</button>'
           if one.command else "") + "</li>" for one in left_out)
    return (f'<section id="left-out"><h2>Left out</h2><p>{len(left_out)} run folder(s) could not '
            f"be shown or were repeated.</p><ul>{items}</ul></section>")


def styles():
    """The page's style sheet."""
    dark = variables("dark")
    return (f":root{{color-scheme:light;{variables('light')}}}"
            f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light])"
            f"{{color-scheme:dark;{dark}}}}}:root[data-theme=dark]{{color-scheme:dark;{dark}}}"
            + figure_rules(lambda name: f"var(--{name})")
            + (HERE / "page.css").read_text(encoding="utf-8"))


def page(groups, left_out, source):
    """The whole report.

    Returns:
        (HTML, sentences about sections that had to be left out)
    """
    problems, templates = [], []
    for group in groups:
        for run in group.runs:
            text, found = run_template(run)
            templates.append(text)
            problems += [f"{run.name}: {p}" for p in found]
    between = _between(groups, problems)
    script = (HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    runs = [run for group in groups for run in group.runs]
    fill = {
        "CSP": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        "STYLE": styles(), "SCRIPT": script, "TITLE": esc(f"Continual learning report: {source}"),
        "SUMMARY": esc(f"{len(runs)} runs, {len({g.model for g in groups})} methods, "
                       f"{len({g.dataset for g in groups})} benchmark(s); "
                       f"{sum(bool(r.measures) for r in runs)} with uncertainty"),
        "SOURCE": esc(source), "DATE": time.strftime("%Y-%m-%d %H:%M"),
        "OVERVIEW": _overview(groups), "BETWEEN": between, "OPTIONS": _options(groups),
        "DEFINITIONS": _definitions(groups), "LEFT_OUT": _left_out(left_out),
        "LEFT_LINK": '<a href="#left-out">Left out</a>' if left_out else "",
        "DATA": _island(groups), "TEMPLATES": "".join(templates)}
    parts = (HERE / "page.html").read_text(encoding="utf-8").split("@@")
    return "".join(part if i % 2 == 0 else fill[part] for i, part in enumerate(parts)), problems
