"""The HTML page: sections, cards, run templates, styles and script in one file."""
import base64
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.identity import Experiment
from experiments.measures import (
    ACCURACY,
    BACKWARD_TRANSFER,
    FORGETTING,
    registered,
    setting_name,
)
from experiments.report.claims import HOLDS, NOT_HERE
from experiments.report.figure import Figure, Shown, figures_of_methods, figures_of_run
from experiments.report.figures import load_figures, methods_by_benchmark, shown_runs
from experiments.report.html_table import (
    as_html,
    best_first,
    command_item,
    first_measures,
    further_measures,
    scope,
)
from experiments.report.opening import (
    claims_table,
    filters,
    navigation,
    opening,
    paper_tag,
    verdict_mark,
)
from experiments.report.svg import esc
from experiments.report.theme import figure_rules, light_rules, variables
from experiments.run import LeftOut, is_number, printable
from experiments.words import amount, counted

DOWNLOADS = ('<div class="tools needs-script"><button type="button" class="get" data-kind="svg">SVG'
             '</button><button type="button" class="get" data-kind="png">PNG</button></div>')
HERE = Path(__file__).resolve().parent
ABOUT_ACE = ("The paper prints ACE values of 0.82 to 0.95. Both definitions here are errors that "
             "lie near 0 for a usable model, so the paper's values match neither scale and are "
             "not compared.")
_SPREAD = "Sample standard deviation over the seeds; a number without it comes from one run."


def card(figure: Figure, runs: Sequence[Shown]) -> str:
    """A figure with title, caption and the commands behind it.

    Args:
        runs: what it is made of; none for a figure of one run, to which the script adds
            the buttons, and the command that the run's template has once.
    """
    commands = "".join(command_item(shown.run, shown.title) for shown in runs)
    facts = f'<div class="facts">{esc(figure.facts)}</div>' if figure.facts else ""
    said = "" if figure.holds is None else (
        f'<div class="said">{verdict_mark(HOLDS if figure.holds else NOT_HERE)} The paper says: '
        f"{esc(figure.claim)}</div>")
    behind = (f"{DOWNLOADS}<details><summary>{counted(len(runs), 'command')}</summary>"
              f"<ul>{commands}</ul></details>" if runs else "")
    wide = " wide" if figure.svg.width > 352 else ""
    return (f'<figure class="card{wide}" data-key="{esc(figure.key)}" '
            f'data-section="{esc(figure.section)}"><h4>{esc(figure.title)}'
            f'{paper_tag(figure.paper)}</h4><div class="body"><div class="scroll">'
            f"{figure.svg.inline()}</div><figcaption>{facts}{said}<p>{esc(figure.caption)}</p>"
            f"{behind}</figcaption></div></figure>")


_TOLD = ("model", "dataset", "seed", "buffer_size", "setting")  # a run says these itself


def _facts(shown: Shown) -> str:
    """Small numbers and texts of a run."""
    run = shown.run
    rows: list[tuple[str, Any]] = [
        ("Benchmark", f"{run.dataset} ({setting_name(run.setting)})"), ("Method", run.model),
        ("Buffer", run.buffer_size), ("Seed", run.seed), ("Parameters", run.n_parameters),
        ("Seconds", run.seconds),
        ("Memory, MB", run.peak_memory_mb), ("Notes", run.arguments.get("notes")),
        ("Folder", run.name)]
    rows += [(str(name).removeprefix("n_").replace("_", " ").capitalize(), value)
             for name, value in _mapping(run.section("run")).items()
             if name not in _TOLD and (isinstance(value, str) or is_number(value))]
    items = "".join(
        f"<div><dt>{esc(name)}</dt><dd>{esc(value if name == 'Seed' else amount(value))}</dd></div>"
        for name, value in rows if value is not None and value != "")
    return f'<dl class="facts-list">{items}</dl>'


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def run_template(shown: Shown) -> tuple[str, list[str]]:
    """Everything of one run, cloned by the script when the run is picked.

    Returns:
        (HTML, sentences about what cannot be shown)
    """
    run, problems = shown.run, list(shown.run.remarks)
    figures = figures_of_run(shown, problems)
    notes = run.section("notes")
    notes = [printable(note) for note in notes] if isinstance(notes, list) else []
    said = "".join(f'<p class="remark">{esc(text)}</p>' for text in (*problems, *notes))
    if not run.summary and not run.remarks:
        said += ('<p class="remark">This run has accuracies only. This command adds calibration, '
                 "novel data and whatever else the method can tell about itself:</p>"
                 f'<ul><li><code>{esc(run.command)} --uncertainty 1</code><button type="button" '
                 'class="copy">Copy</button></li></ul>')
    settings = " ".join(f"{name}={json.dumps(value)}" for name, value
                        in sorted(run.arguments.items()) if value is not None)
    cards = "".join(card(figure, []) for figure in figures)
    return (f'<template id="run-{shown.number}"><div class="about">{_facts(shown)}{said}'
            "<details><summary>Command and settings</summary><ul>"
            f'{command_item(run, shown.title)}</ul><p class="settings"><code>{esc(settings)}'
            f"</code></p></details></div>{cards}</template>"), problems


def _island(runs: Sequence[Shown]) -> str:
    """What the script compares, as JSON that cannot end its element."""
    data = []
    for shown in runs:
        one = [shown.experiment]
        measures = [*first_measures(one), *(m for m in further_measures(one) if not m.compared)]
        data.append({"id": shown.number, "title": shown.title, "dataset": shown.experiment.dataset,
                     "measured": bool(shown.run.summary),
                     "values": [[m.label, m.value(shown.run), m.digits] for m in measures]})
    text = json.dumps(data)
    return text.replace("<", "\\u003c").replace("&", "\\u0026").replace("\u2028", " ")


def _options(runs: Sequence[Shown]) -> str:
    parts = []
    for dataset in dict.fromkeys(shown.experiment.dataset for shown in runs):
        options = "".join(
            f'<option value="{shown.number}"{scope(shown.experiment)}>{esc(shown.title)}'
            f'{"" if shown.run.summary else " (accuracy)"}</option>'
            for shown in runs if shown.experiment.dataset == dataset)
        parts.append(f'<optgroup label="{esc(dataset)}" data-dataset="{esc(dataset)}">{options}'
                     "</optgroup>")
    return "".join(parts)


def _pickers(runs: Sequence[Shown]) -> str:
    """The section of single runs; records of runs have no figures of their own."""
    if not runs:
        return ""
    options = _options(runs)
    return ('<section id="runs"><h2>One run, or two side by side</h2><noscript><p>Picking runs '
            "needs JavaScript, which this browser has switched off.</p></noscript><div "
            'class="pickers needs-script"><label><span class="badge a">A</span> Run <select '
            f'id="pick-a">{options}</select></label><label><span class="badge b">B</span> Beside '
            'it <select id="pick-b"><option value="">no other run</option>'
            f'{options}</select></label></div><div id="difference" class="scroll"></div>'
            '<div id="compare"></div></section>')


def _overview(experiments: Sequence[Experiment]) -> str:
    parts = []
    for i, dataset in enumerate(dict.fromkeys(one.dataset for one in experiments)):
        own = best_first([one for one in experiments if one.dataset == dataset])
        setting = setting_name(own[0].runs[0].setting)
        parts.append(f'<div class="group" id="results-{i}" data-dataset="{esc(dataset)}">'
                     f"<h3>{esc(dataset)}</h3>")
        parts.append(as_html(own, first_measures(own),
                             f"{dataset} ({setting}), mean ± sd over the seeds", f"h{i}"))
        measured = [one for one in own if any(run.summary for run in one.runs)]
        if measured:
            parts.append(as_html(measured, further_measures(measured),
                                 f"{dataset}: uncertainty at the end of the run, fractions in "
                                 "[0, 1] and nats", f"u{i}"))
        parts.append("</div>")
    return "".join(parts)


def _between(experiments: Sequence[Experiment], runs: Sequence[Shown],
             problems: list[str]) -> str:
    parts = []
    for i, methods in enumerate(methods_by_benchmark(experiments)):
        beside = {id(one) for one in methods.experiments}
        behind = [shown for shown in runs if id(shown.experiment) in beside]
        cards = "".join(card(figure, behind) for figure in figures_of_methods(methods, problems))
        parts.append(f'<div class="group" id="methods-{i}"{scope(methods)}><h3>'
                     f"{esc(methods.title)}</h3><div class=cards>{cards}</div></div>")
    return "".join(parts)


def _definitions(runs: Sequence[Shown]) -> str:
    told: dict[str, Any] = {}
    for shown in runs:
        told |= _mapping(shown.run.section("definitions"))
    labels = {name: measure.label for name, measure in registered().items()}
    rows = [(m.label.removesuffix(" %"), m.definition)
            for m in (ACCURACY, BACKWARD_TRANSFER, FORGETTING)]
    rows += [("±", _SPREAD), *((labels.get(name) or printable(name).replace("_", " "), text)
                                   for name, text in told.items() if name != ACCURACY.name)]
    items = "".join(f"<div><dt>{esc(printable(name))}</dt><dd>{esc(printable(text))}</dd></div>"
                    for name, text in rows)
    ace = f"<p>{esc(ABOUT_ACE)}</p>" if told else ""
    return f'<dl class="definitions">{items}</dl>{ace}'


def _left_out(left_out: Sequence[LeftOut]) -> str:
    if not left_out:
        return ""
    items = "".join(
        f'<li><span class="who">{esc(one.name)}: {esc(printable(one.reason))}</span>'
        + (f'<code>{esc(one.command)}</code><button type="button" class="copy">Copy</button>'
           if one.command else "") + "</li>" for one in left_out)
    return (f'<section id="left-out"><h2>Left out</h2><p>'
            f"{counted(len(left_out), 'run folder is', 'run folders are')} not shown above.</p>"
            f"<ul>{items}</ul></section>")


def styles() -> str:
    """The page's style sheet."""
    dark = variables("dark")
    return (f":root{{color-scheme:light;{variables('light')}}}"
            f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light])"
            f"{{color-scheme:dark;{dark}}}}}:root[data-theme=dark]{{color-scheme:dark;{dark}}}"
            + figure_rules(lambda name: f"var(--{name})")
            + (HERE / "page.css").read_text(encoding="utf-8"))


def page(experiments: Sequence[Experiment], left_out: Sequence[LeftOut],
         source: str) -> tuple[str, list[str]]:
    """The whole report.

    Returns:
        (HTML, sentences about sections that had to be left out)
    """
    load_figures()
    runs, source = shown_runs(experiments), printable(source)
    problems: list[str] = []
    templates = []
    single = [shown for shown in runs if shown.run.matrix]
    for shown in single:
        text, found = run_template(shown)
        templates.append(text)
        problems += [f"{shown.run.name}: {problem}" for problem in found]
    between = _between(experiments, runs, problems)
    comparisons = methods_by_benchmark(experiments)
    claimed = claims_table(comparisons, problems)
    script = (HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    fill = {
        "CSP": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
               "img-src blob: data:",
        "STYLE": styles(), "SCRIPT": script, "TITLE": esc(f"Continual learning report: {source}"),
        "SUMMARY": esc(f"{counted(len(runs), 'run')} of "
                       f"{counted(len({one.model for one in experiments}), 'method')} on "
                       f"{counted(len({one.dataset for one in experiments}), 'benchmark')}, "
                       f"{sum(bool(shown.run.summary) for shown in runs) or 'none'} of them with "
                       "uncertainty"),
        "NAVIGATION": navigation(comparisons, claimed, bool(single), bool(left_out)),
        "FILTERS": filters(experiments), "LIGHT": light_rules(),
        "OPENING": opening(comparisons, problems), "CLAIMS": claimed,
        "SOURCE": esc(source), "DATE": time.strftime("%Y-%m-%d %H:%M"),
        "OVERVIEW": _overview(experiments), "BETWEEN": between, "RUNS": _pickers(single),
        "DEFINITIONS": _definitions(runs), "LEFT_OUT": _left_out(left_out),
        "DATA": _island(single), "TEMPLATES": "".join(templates)}
    parts = (HERE / "page.html").read_text(encoding="utf-8").split("@@")
    return "".join(part if i % 2 == 0 else fill[part] for i, part in enumerate(parts)), problems
