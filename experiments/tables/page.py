"""All sections as one Markdown text, and the project's pages that show them."""
from collections.abc import Iterable
from pathlib import Path

from experiments.contributions import load_contributions
from experiments.measures import definition
from experiments.paths import ROOT
from experiments.run import BROKEN, Run, printable
from experiments.tables import cost, features, headline, paper, search
from experiments.tables.headline import all_settings
from experiments.tables.published import SOURCES
from experiments.tables.sections import MeasuredRuns, Section, sections
from experiments.tables.table import Table

OWN = (cost, features, headline, paper, search)  # imported for the sections that they register


def all_sections() -> dict[str, Section]:
    """Every section, the plugins' included, in the order of the page."""
    load_contributions()
    return sections()


def pages(book: MeasuredRuns, wanted: Iterable[str]) -> str:
    """The sections as one Markdown text."""
    known = all_sections()
    sources = ", ".join(f"`{source}`" for source in SOURCES)
    parts = ["# The paper's tables, ours beside them\n",
             "Made by `python utils/tables.py` from `results/*.json`; nothing is typed in by hand "
             f"but the\npaper's figures ({sources}). Ours: mean ± sd (seeds). An empty cell was "
             "not measured.\n"]
    for section in (known[name] for name in wanted):
        tables = built(section, book)
        parts += [f"## {section.title}\n", *([section.note + "\n"] if section.note else []),
                  *(f"- {short}: {definition(name)}" for short, name in section.terms),
                  *([""] if section.terms else []),
                  *(map(str, tables) if tables else ["Nothing was measured yet.\n"])]
    return "\n".join(parts)


def built(section: Section, book: MeasuredRuns) -> list[Table]:
    """A section's tables; a run whose summary has another form than documented is left out."""
    try:
        return list(section.build(book))
    except BROKEN:
        broken = {id(run) for run in book.runs if run.summary and _breaks(section, run)}
    whole = [run for run in book.runs if id(run) not in broken]
    book.remarks += [f"{section.title}: {printable(run.name or run.command)} is left out; its "
                     "uncertainty has another form than documented."
                     for run in book.runs if id(run) in broken]
    try:
        return list(section.build(MeasuredRuns.of(whole)))
    except BROKEN as error:
        book.remarks.append(f"{section.title}: left out; its runs do not go together "
                            f"({type(error).__name__}).")
        return []


def _breaks(section: Section, run: Run) -> bool:
    try:
        list(section.build(MeasuredRuns.of([run])))
    except BROKEN:
        return True
    return False


def documents(runs: list[Run]) -> dict[Path, str]:
    """The project's pages as these runs make them: file -> its whole text.

    A page shows a section between two marks of its name, or every setting between marks `all`.
    """
    book, known = MeasuredRuns.of(runs), all_sections()
    made = {ROOT / "docs" / "tables.md": pages(book, known)}
    for place in sorted((ROOT / "docs").glob("*.md")):
        old = text = place.read_text(encoding="utf-8")
        for mark in [name for name in (*known, "all") if f"<!-- {name} -->\n" in old]:
            table = all_settings(runs) if mark == "all" else \
                "\n".join(map(str, known[mark].build(book))).strip()
            before, rest = text.split(f"<!-- {mark} -->\n")
            after = rest.split(f"<!-- /{mark} -->\n")[1]
            text = f"{before}<!-- {mark} -->\n{table}\n<!-- /{mark} -->\n{after}"
            made[place] = text
    return made
