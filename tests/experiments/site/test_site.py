"""The docs site: built without network, no dead link, searchable from a folder."""
import re
import sys
from pathlib import Path

import pytest
import warm_python
import yaml

from experiments.site.links import dead_in_repository, dead_in_site, fetched_by_site, headings
from experiments.site.pages import REFERENCE, notebook_page, relinked

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    folder = tmp_path_factory.mktemp("site") / "built"
    done = warm_python.run([sys.executable, "utils/docs.py", "--out", folder], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return folder


def test_links_between_the_files_of_the_repository_live():
    assert dead_in_repository(ROOT) == []


def test_every_page_of_docs_is_in_the_navigation():
    text = re.sub(r"!ENV |!!python\S+ ", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    shown = set(re.findall(r"[\w/-]+\.md", str(yaml.safe_load(text)["nav"])))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= shown
    assert {f"api/{name}.md" for name in REFERENCE} <= shown


def test_site_is_whole_and_asks_no_network(site):
    assert dead_in_site(site) == [] and fetched_by_site(site) == []
    reference = (site / "api" / "npcl_plugin.html").read_text(encoding="utf-8")
    for name in ("npcl_plugin.models.npcl.NPCL", "npcl_plugin.inference.Predictor"):
        assert f'id="{name}"' in reference
    assert 'id="asking.learner.Learner.ask"' in (site / "api" / "mammoth.html").read_text()
    assert "Final Class-IL accuracy" in (site / "explorer-page.html").read_text(encoding="utf-8")
    assert str(ROOT) not in (site / "explorer-page.html").read_text(encoding="utf-8")
    assert (site / "tutorial.html").read_text(encoding="utf-8").count("<pre") > 15


def test_site_is_searched_from_a_folder(site, browser):
    page = browser.new_page()
    asked = []
    page.on("request", lambda r: asked.append(r.url)
            if not r.url.startswith(("file:", "data:", "blob:")) else None)
    page.goto((site / "index.html").as_uri())
    page.wait_for_function("document.querySelector('iframe') && window.__search")
    page.locator("input.md-search__input").click()
    page.keyboard.type("rejection")
    page.wait_for_selector(".md-search-result__item", timeout=120_000)
    page.goto((site / "explorer.html").as_uri())
    page.frame_locator("iframe[title]").locator("#overview table").first.wait_for()
    page.close()
    assert asked == []


def test_dead_links_are_found(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# A `b`, c\n[x](docs/a.md#there) [y](docs/a.md#gone)\n"
                                        "[z](none.md) `[code](no.md)` [w](#a-b-c)\n")
    (tmp_path / "docs" / "a.md").write_text("# There\n[up](../README.md)\n")
    assert dead_in_repository(tmp_path) == ["README.md: docs/a.md#gone", "README.md: none.md"]
    (tmp_path / "b.html").write_text('<a href="c.html#q">x</a><a href="c.html#r">x</a>'
                                     '<img src="no.png"><script src="https://cdn.example/x.js">')
    (tmp_path / "c.html").write_text('<p id="q">x</p>')
    assert dead_in_site(tmp_path) == ["b.html: c.html#r has no such anchor",
                                      "b.html: no.png is not there"]
    assert len(fetched_by_site(tmp_path)) == 1


def test_files_of_the_repository_become_pages(tmp_path):
    assert relinked("[a](docs/x.md#b) [r](../README.md) [t](docs/tutorial.ipynb)") == \
        "[a](x.md#b) [r](index.md) [t](tutorial.md)"
    assert headings("# What `--x 1` does, *now*\n```\n# no\n```") == {"what---x-1-does-now"}
    cells = [{"cell_type": "markdown", "source": ["# T"]},
             {"cell_type": "code", "source": ["1 + 1"],
              "outputs": [{"data": {"text/plain": ["2"]}}, {"text": ["said\n"]},
                          {"data": {"image/png": "aGk="}}]}]
    page = notebook_page({"cells": cells}, tmp_path / "images")
    assert page == ("# T\n\n```python\n1 + 1\n```\n\n```text\n2\n```\n\n```text\nsaid\n```\n\n"
                    "![what the cell above draws](images/tutorial-1.png)\n")
    assert (tmp_path / "images" / "tutorial-1.png").read_bytes() == b"hi"


def test_a_folder_of_somebody_is_not_replaced(tmp_path, capsys):
    from experiments.commands.docs import main

    (tmp_path / "mine.txt").write_text("x")
    assert main(["--out", str(tmp_path)]) == 2
    assert "no site of ours" in capsys.readouterr().err and (tmp_path / "mine.txt").exists()
