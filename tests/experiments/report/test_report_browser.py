"""The report in a real browser: Debian's chromium, driven by playwright, from a file."""
import json
import re
import sys

import pytest
import warm_python
from report_fixture import SCRIPT, summary, write_run

pytestmark = pytest.mark.long

PATIENCE = 120_000  # milliseconds; a loaded machine is slow, not wrong
EVIL = "<script>document.title='broken'</script>"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A report on two benchmarks, one method without uncertainty, one unfinished run."""
    folder = tmp_path_factory.mktemp("results")
    for seed in range(2):
        write_run(folder, model="er", seed=seed, tasks=5, top=40.0, notes=EVIL)
        write_run(folder, model="der", seed=seed, tasks=5, top=97.0, buffer=1000,
                  measures=summary(5, np_family=False))
    write_run(folder, model="npcl", tasks=20, top=90.0, measures=summary(20))
    write_run(folder, model="sgd", dataset="seq-digits", setting="class-il", buffer=None, top=50.0)
    (write_run(folder, model="gem") / "result.json").unlink()
    done = warm_python.run([sys.executable, SCRIPT, folder])
    assert done.returncode == 0, done.stderr
    return (folder / "report.html").as_uri()


@pytest.fixture
def opened(browser, address):
    """Opens the page; afterwards nothing may have gone wrong and nothing been asked of a net."""
    contexts, problems = [], []

    def open_page(width=1300, scheme="light", tail=""):
        context = browser.new_context(viewport={"width": width, "height": 850},
                                      color_scheme=scheme)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: problems.append(m.text) if m.type != "log" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda r: problems.append(r.url)
                if not r.url.startswith("file:") else None)
        page.goto(address + tail)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def column(page, number):
    """Cells of a column of the first table, commands left out."""
    return page.locator("table.sortable").first.locator(
        f"tbody tr:first-child > :nth-child({number})").all_inner_texts()


def test_table_sorts_by_click_and_by_keyboard(opened):
    page = opened()
    head = page.locator("table.sortable").first.locator("thead th")
    assert column(page, 1) == ["npcl", "er", "der"], "by buffer, the most accurate first"
    head.nth(2).locator("button").click()
    assert column(page, 1) == ["der", "npcl", "er"]
    assert head.nth(2).get_attribute("aria-sort") == "descending"
    head.nth(2).locator("button").press("Enter")
    assert column(page, 1) == ["er", "npcl", "der"]
    assert head.nth(2).get_attribute("aria-sort") == "ascending"
    head.nth(1).locator("button").press("Space")
    assert column(page, 2) == ["200", "200", "1,000"], "numbers, not letters"
    head.nth(0).locator("button").click()
    assert column(page, 1) == ["der", "er", "npcl"]
    assert [h.get_attribute("aria-sort") for h in head.all()].count("none") == head.count() - 1
    head.nth(5).locator("button").click()
    assert column(page, 1)[-1] == "er", "what has no value stays last"


def test_method_shows_the_commands_of_its_runs(opened):
    page = opened()
    button = page.locator("table.sortable").first.locator("button.more", has_text="er").last
    assert button.get_attribute("aria-expanded") == "false"
    row = page.locator(f"#{button.get_attribute('aria-controls')}")
    assert not row.is_visible()
    button.click()
    assert row.is_visible() and button.get_attribute("aria-expanded") == "true"
    text = row.locator("code").first.inner_text()
    assert text.startswith("python mammoth/main.py --model") and text.endswith("--seed 0")
    row.locator("button.copy").first.click()
    page.wait_for_function("[...document.querySelectorAll('.copy')].some(b => "
                           "['Copied', 'Selected'].includes(b.textContent))")


def test_runs_can_be_picked_and_compared(opened):
    page = opened()
    shown = page.locator("#compare")
    assert shown.locator("h4").first.inner_text() == "npcl, buffer 200, seed 0", "the richest first"
    assert shown.locator("figure").count() > 25
    page.select_option("#pick-a", label="er, buffer 200, seed 1 (accuracy)")
    assert shown.locator("figure").count() == 1 and "--uncertainty 1" in shown.inner_text()
    assert EVIL in shown.inner_text() and page.title() != "broken"
    page.select_option("#pick-b", label="der, buffer 1000, seed 0")
    pairs = shown.locator(".pair")
    left, right = (pairs.nth(1).locator("> *").nth(i).bounding_box() for i in (0, 1))
    assert left["y"] == right["y"] and left["x"] + left["width"] <= right["x"]
    assert shown.locator(".absent").count() == shown.locator("figure").count() - 2
    cells = [float(text.replace("−", "-"))
             for text in page.locator("#difference tbody tr").first.locator("td").all_inner_texts()]
    runs = {run["title"]: dict((v[0], v[1]) for v in run["values"])
            for run in json.loads(page.locator("#data").text_content())}
    a, b = (runs[name]["Domain-IL %"] for name in ("er, buffer 200, seed 1",
                                                   "der, buffer 1000, seed 0"))
    assert cells == [round(a, 2), round(b, 2), round(a - b, 2)]
    page.reload()
    assert shown.locator("h4").first.inner_text().endswith("er, buffer 200, seed 1")


@pytest.mark.parametrize("width", [400, 768, 1400])
def test_nothing_is_wider_than_the_screen(opened, width):
    page = opened(width)
    page.select_option("#pick-b", label="npcl, buffer 200, seed 0")
    page.evaluate("""() => {
        document.querySelectorAll('details').forEach(node => { node.open = true; });
        document.querySelectorAll('button.more').forEach(node => node.click());
    }""")
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    beyond = page.evaluate("""width => [...document.querySelectorAll('main *:not(svg *)')]
        .filter(n => !n.closest('.scroll') && n.getBoundingClientRect().right > width + 1)
        .map(n => n.outerHTML.slice(0, 80))""", width)
    assert beyond == []
    if width == 400:
        first, second = (page.locator("#compare .pair").nth(1).locator("> *").nth(i).bounding_box()
                         for i in (0, 1))
        assert second["y"] >= first["y"] + first["height"], "stacked"


def test_no_text_of_a_figure_is_cut_off(opened):
    page = opened()
    cut = page.evaluate("""() => [...document.querySelectorAll('svg.fig')].flatMap(svg => {
        const s = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text')].filter(t => {
            const b = t.getBoundingClientRect();
            return b.left < s.left - 1 || b.right > s.right + 1 || b.top < s.top - 1
                || b.bottom > s.bottom + 1;
        }).map(t => `${svg.getAttribute('aria-label')}: ${t.textContent}`);
    })""")
    assert cut == []


def test_theme_follows_the_system_and_the_button(opened):
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = opened(), opened(scheme="dark")
    assert light.evaluate(colour) != dark.evaluate(colour)
    light.click("#theme")
    assert light.evaluate(colour) == dark.evaluate(colour)
    assert light.locator("#theme").get_attribute("aria-pressed") == "true"
    cell = "getComputedStyle(document.querySelector('svg.fig text')).fill"
    assert light.evaluate(cell) == dark.evaluate(cell)
    light.click("#theme")
    assert light.evaluate(colour) != dark.evaluate(colour)


def test_navigation_leads_to_every_section_and_stays(opened):
    for width in (1400, 768, 400):
        page = opened(width)
        links = page.locator("nav a")
        targets = [link.get_attribute("href") for link in links.all()]
        assert all(page.locator(target).count() == 1 for target in targets)
        sections = page.evaluate("[...document.querySelectorAll('main section')].map(s => s.id)")
        assert {f"#{name}" for name in sections} <= set(targets) and "#run-heads-part" in targets
        page.evaluate("document.querySelector('#run-heads-part').scrollIntoView()")
        page.wait_for_function("document.querySelector('nav a.here')?.hash === '#run-heads-part'")
        assert page.locator("nav a.here").is_visible()


def test_filter_hides_what_is_not_asked_for(opened):
    page = opened()
    page.select_option("select[data-filter=dataset]", "seq-digits")
    assert page.locator("table.sortable tbody:visible").count() == 1
    assert page.locator("#curves h3:visible").all_inner_texts() == ["seq-digits"]
    assert page.locator("#compare h4").first.inner_text() == "sgd, seed 0"
    page.select_option("select[data-filter=dataset]", "")
    page.select_option("select[data-filter=buffer]", "1000")
    assert column_visible(page) == ["der"]
    page.select_option("select[data-filter=buffer]", "")
    page.select_option("select[data-filter=model]", "er")
    assert column_visible(page) == ["er"]
    lines = {line.get_attribute("data-line"): "dim" in (line.get_attribute("class") or "")
             for line in page.locator("#curves [data-line]").all()}
    assert not lines.pop("er") and lines and all(lines.values())


def column_visible(page):
    """Methods of the first table that are shown."""
    return page.locator("table.sortable").first.locator(
        "tbody:visible tr:first-child > th").all_inner_texts()


def test_figures_and_tables_can_be_downloaded(opened):
    page = opened()
    found = {}
    for place in ("#curves figure >> nth=0", "#compare figure >> nth=0",
                  "#overview .table-box >> nth=0", "#claims .table-box"):
        for button in page.locator(place).locator("button.get").all():
            with page.expect_download() as waiting:
                button.click()
            name = waiting.value.suggested_filename
            with open(waiting.value.path(), "rb") as file:
                found[name] = file.read()
    endings = [name.rpartition(".")[2] for name in found]
    assert sorted(endings) == ["csv"] * 2 + ["png"] * 2 + ["svg"] * 2 + ["tex"] * 2
    for name, content in found.items():
        if name.endswith(".png"):
            assert content.startswith(b"\x89PNG") and len(content) > 5000
        if name.endswith(".svg"):
            assert b"var(" not in content and b"<svg" in content and b"#0072b2" in content
    table = next(text.decode() for name, text in found.items()
                 if name.endswith(".csv") and name.startswith("perm"))
    assert table.splitlines()[0].startswith("Method,Buffer,Domain-IL % mean,Domain-IL % sd,")
    assert "der,1000," in table
    assert any(b"\\begin{tabular}" in text and b"$\\pm$" in text for text in found.values())


def test_wide_tables_pin_their_first_columns_and_say_so(opened):
    page = opened(900)
    box = page.locator("#overview .table-box").nth(1)
    assert box.locator(".hint").is_visible()
    name, size = box.locator("tbody th.name").first, box.locator("tbody td.pinned").first
    before = [name.bounding_box()["x"], size.bounding_box()["x"]]
    box.locator(".scroll").evaluate("node => { node.scrollLeft = 300; }")
    assert [name.bounding_box()["x"], size.bounding_box()["x"]] == pytest.approx(before, abs=2)
    assert page.locator("#overview .table-box .hint:visible").count() >= 1


def test_paper_gets_neither_navigation_nor_buttons(opened):
    page = opened()
    page.emulate_media(media="print")
    for part in ("nav", ".filters", "#theme", ".tools", ".pickers"):
        assert not page.locator(part).first.is_visible()
    for part in ("h1", "#answers", "#curves figure"):
        assert page.locator(part).first.is_visible()


def test_no_figure_is_wider_than_its_card_on_a_desktop(opened):
    page = opened(1400)
    cut = page.locator(".card:visible .scroll").evaluate_all(
        "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth + 1)"
        ".map(box => box.closest('.card').dataset.key)")
    assert cut == []


def test_the_page_of_committed_results_filters(browser, tmp_path, width=400):
    done = warm_python.run([sys.executable, SCRIPT, SCRIPT.parents[1] / "results", "--out",
                            tmp_path / "page.html"])
    assert done.returncode == 0, done.stderr
    count = re.search(r"Report of ([\d,]+) runs", done.stdout)
    assert (tmp_path / "page.html").stat().st_size < 3500 * int(count[1].replace(",", ""))
    page = browser.new_page(viewport={"width": width, "height": 850})
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto((tmp_path / "page.html").as_uri())
    page.locator("select[data-filter=dataset]").select_option("seq-mnist")
    page.locator("select[data-filter=model]").select_option("npcl")
    shown = page.locator("#overview tbody:visible th.name").all_inner_texts()
    assert shown and all(text.startswith("npcl") for text in shown)
    page.locator("#overview tbody:visible button.more").first.click()
    command = page.locator("#overview tbody:visible code:visible").first.inner_text()
    assert "--dataset seq-mnist" in command and "--seed" in command
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert problems == []
    page.close()
