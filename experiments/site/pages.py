"""What mkdocs gets: the repository's Markdown under one roof, and pages that are made here.

README.md is the first page, the tutorial's notebook becomes Markdown with its outputs, and the
reference names modules, which mkdocstrings reads without importing them.
"""
import base64
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.bounded import read_json
from experiments.commands.report import write_records
from experiments.contributions import load_contributions
from experiments.site.reference import REFERENCE

_ROOT_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md",
               "CHANGELOG.md": "changelog.md"}
_STYLE = (".md-typeset table:not([class]){display:block;overflow-x:auto;font-size:.62rem}"
          ".md-typeset iframe{width:100%;height:82vh;border:1px solid #8884;border-radius:8px}"
          ".md-grid{max-width:72rem}")


def write_pages(checkout: Path, pages: Path) -> None:
    """Fill the folder `pages` from a checkout."""
    shutil.copytree(checkout / "docs", pages,
                    ignore=lambda folder, names: [n for n in names if n.endswith(".ipynb")])
    for source, target in _ROOT_PAGES.items():
        (pages / target).write_text((checkout / source).read_text(encoding="utf-8"),
                                    encoding="utf-8")
    notebook = read_json(checkout / "docs" / "tutorial.ipynb")
    (pages / "tutorial.md").write_text(notebook_page(notebook, pages / "images"),
                                       encoding="utf-8")
    for page in pages.glob("*.md"):
        page.write_text(relinked(page.read_text(encoding="utf-8")), encoding="utf-8")
    load_contributions()
    (pages / "api").mkdir()
    for name, (title, words, modules) in REFERENCE.items():
        (pages / "api" / f"{name}.md").write_text(reference_page(title, words, modules),
                                                  encoding="utf-8")
    (pages / "site.css").write_text(_STYLE, encoding="utf-8")
    write_explorer(checkout, pages)


def settle_worker(site: Path) -> None:
    """Let pages load our stand-in for workers, where mkdocs-material would ask a network for one.

    Without a server a page needs it for its search.
    """
    target = site / "assets" / "worker.js"
    shutil.copy(Path(__file__).with_name("worker.js"), target)
    for page in site.rglob("*.html"):
        up = "../" * (len(page.relative_to(site).parts) - 1)
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("https://unpkg.com/iframe-worker/shim",
                                     f"{up}assets/{target.name}"), encoding="utf-8")


def relinked(text: str) -> str:
    """Links between files of the repository as links between pages; code stays as it is."""
    for source, target in _ROOT_PAGES.items():
        text = re.sub(rf"\]\((?:\.\./)?{re.escape(source)}(#[^)]*)?\)", rf"]({target}\1)", text)
    text = re.sub(r"\]\((?:\.\./)?docs/([^)]+)\)", r"](\1)", text)
    return re.sub(r"\]\(tutorial\.ipynb(#[^)]*)?\)", r"](tutorial.md\1)", text)


def notebook_page(notebook: dict[str, Any], images: Path) -> str:
    """A notebook as Markdown: text, code, and what the code printed and drew."""
    parts: list[str] = []
    for number, cell in enumerate(notebook["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            parts.append(_output(output, images / f"tutorial-{number}.png"))
    return "\n\n".join(part for part in parts if part) + "\n"


def _output(output: dict[str, Any], picture: Path) -> str:
    """One output of a cell: a picture if it drew one, else its text."""
    data = output.get("data", {})
    if "image/png" in data:
        picture.parent.mkdir(exist_ok=True)
        picture.write_bytes(base64.b64decode("".join(data["image/png"])))
        return f"![what the cell above draws](images/{picture.name})"
    text = "".join(output.get("text") or data.get("text/plain", ""))
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""


def reference_page(title: str, words: str, modules: Sequence[str]) -> str:
    """A page that mkdocstrings fills."""
    return "\n\n".join([f"# {title}", words, *(f"::: {module}" for module in modules)]) + "\n"


def write_explorer(checkout: Path, pages: Path) -> None:
    """The page of the committed results, and the page of the site that holds it."""
    write_records(sorted((checkout / "results").glob("*.json")), pages / "explorer-page.html")
    (pages / "explorer.md").write_text(
        "---\nhide: [toc]\n---\n\n# Every cell, with filters\n\nEvery run of `results/*.json`, "
        "with the paper's claims judged by them: choose a benchmark, a buffer or a method; select "
        "a method in a table to see the command behind its numbers. The same page as "
        "`python utils/report.py results --out explorer.html` makes. "
        "[Open it alone](explorer-page.html).\n\n"
        '<iframe src="explorer-page.html" title="Results with filters"></iframe>\n',
        encoding="utf-8")
