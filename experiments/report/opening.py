"""What the page opens with: navigation, filters, answers in plain words, claims and verdicts."""
from collections.abc import Iterable, Sequence

from experiments.identity import Experiment
from experiments.report.answers import answers
from experiments.report.claims import HOLDS, NOT_HERE, judged
from experiments.report.figure import Methods
from experiments.report.html_table import boxed, scope
from experiments.report.svg import esc

_MARKS = {HOLDS: ("holds", "✓"), NOT_HERE: ("refuted", "✗")}


def paper_tag(paper: str) -> str:
    """`fig04a` as `paper Fig. 4a`."""
    if not paper:
        return ""
    kind = "Fig." if paper.startswith("fig") else "Table"
    return f' <span class="tag">paper {kind} {esc(paper[3:].lstrip("0"))}</span>'


def verdict_mark(verdict: str) -> str:
    """A verdict as a small label, told by word and sign, not by colour alone."""
    kind, sign = _MARKS.get(verdict, ("undecided", "?"))
    return f'<span class="verdict {kind}">{sign} {esc(verdict)}</span>'


def navigation(comparisons: Sequence[Methods], claimed: str, single: bool,
               left_out: bool) -> str:
    """A link to every section; the script adds those of the run that is shown."""
    datasets = list(dict.fromkeys(methods.dataset for methods in comparisons))
    results = _links((f"results-{i}", name) for i, name in enumerate(datasets))
    between = _links((f"methods-{i}", one.title) for i, one in enumerate(comparisons))
    return ('<a href="#answers">In short</a>'
            + ('<a href="#claims">Claims of the paper</a>' if claimed else "")
            + f'<a href="#overview">Results</a>{results}'
            f'<a href="#curves">Methods side by side</a>{between}'
            + ('<a href="#runs">Single runs</a><span id="run-links"></span>' if single else "")
            + '<a href="#definitions">Definitions</a>'
            + ('<a href="#left-out">Left out</a>' if left_out else ""))


def _links(places: Iterable[tuple[str, str]]) -> str:
    return "".join(f'<a class="sub" href="#{place}">{esc(name)}</a>' for place, name in places)


def filters(experiments: Sequence[Experiment]) -> str:
    """Selections of benchmark, buffer and method, each where there is a choice."""
    choices = (
        ("dataset", "Benchmark", list(dict.fromkeys(one.dataset for one in experiments))),
        ("buffer", "Buffer", sorted({one.buffer for one in experiments
                                     if one.buffer is not None})),
        ("model", "Method", sorted({one.model for one in experiments})))
    parts = []
    for name, label, values in choices:
        if len(values) > 1:
            options = "".join(f'<option value="{esc(value)}">'
                              f'{esc(f"{value:,}" if isinstance(value, int) else value)}</option>'
                              for value in values)
            parts.append(f'<label>{label} <select class="filter" data-filter="{name}">'
                         f'<option value="">all</option>{options}</select></label>')
    return "".join(parts)


def opening(comparisons: Sequence[Methods], problems: list[str]) -> str:
    """The answers, a card per question."""
    parts = []
    for question, rows in answers(comparisons, problems).items():
        told = "".join(
            f'<div class="answer"{scope(methods)}><span class="where">{esc(methods.title)}</span>'
            f"<p>{esc(' '.join(sentences))}</p></div>" for methods, sentences in rows)
        parts.append(f'<div class="question"><h3>{esc(question)}</h3>{told}</div>')
    return "".join(parts) or "<p>No run here learned task after task.</p>"


def claims_table(comparisons: Sequence[Methods], problems: list[str]) -> str:
    """Claim, where, verdict, evidence; empty where no plugin claims anything about these runs."""
    rows, last = [], None
    for claim, methods, finding in judged(comparisons, problems):
        again = claim is last
        rows.append(
            f'<tr{scope(methods)}><th scope="row" class="words{" again" if again else ""}">'
            f"{esc(claim.text)}{paper_tag(claim.paper)}</th><td class=where>{esc(methods.title)}"
            f'</td><td class="where">{verdict_mark(finding.verdict)}</td><td class="words">'
            f"{esc(finding.evidence)}</td></tr>")
        last = claim
    if not rows:
        return ""
    table = ('<table class="claims"><thead><tr><th class="words">Claim</th><th class="where">'
             'Benchmark</th><th class="where">Verdict</th><th class="words">Evidence</th></tr>'
             f'</thead><tbody>{"".join(rows)}</tbody></table>')
    return ('<section id="claims"><h2>Which of the paper\'s claims hold here?</h2><p>Judged by '
            "these runs alone, which may be smaller than the paper's. <b>Holds</b>: the numbers "
            "bear the claim out, and where methods are compared, surely (p below 0.05). <b>Not "
            "here</b>: they say the opposite. <b>Open</b>: the runs or seeds do not decide.</p>"
            f"{boxed('Claims, verdicts, evidence', table)}</section>")
