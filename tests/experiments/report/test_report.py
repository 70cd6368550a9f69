"""The report from made-up runs: its numbers, escaping, damaged runs, size, files, mistakes."""
import contextlib
import io
import json
import re
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from report_fixture import SCRIPT, summary, write_run

from experiments.commands.report import main

VOID = {"meta", "br", "wbr", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Elements, attributes and text of a page; checks that what is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.rows, self.open = [], [], []
        self.feed(text)
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.rows and self.rows[-1] and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def row_of(self, method):
        return next(row for row in self.rows if row and row[0].startswith(method))


def run(*words):
    """The command in this process, which is faster; what it prints and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


def report(folder, *words):
    done = run(folder, "--out", folder / "page.html", *words)
    assert done.returncode == 0, done.stderr
    return (folder / "page.html").read_text(encoding="utf-8"), done


def test_table_shows_mean_and_sd_of_the_results(tmp_path):
    for seed in range(3):
        write_run(tmp_path, seed=seed)
        write_run(tmp_path, model="der", seed=seed, top=90.0, measures=summary(np_family=False))
    text, _ = report(tmp_path)
    page = Page(text)
    for model in ("er", "der"):
        files = tmp_path.glob(f"runs/*/{model}/*/result.json")
        results = [json.loads(path.read_text()) for path in files]
        row, expected = page.row_of(model), []
        for values, digits in (([r["accuracy"]["domain-il"] for r in results], 2),
                               ([r["transfer"]["backward_transfer"]["domain-il"]
                                 for r in results], 2),
                               ([r["transfer"]["forgetting"]["domain-il"] for r in results], 2)):
            expected.append(f"{statistics.mean(values):.{digits}f} ± "
                            f"{statistics.stdev(values):.{digits}f}".replace("-", "−"))
        assert row[1:5] == ["200", *expected]
        assert row[5] == ("0.123 ± 0.000" if model == "der" else "–")
        assert row[6:] == ["13.5 ± 1.0", "3"]
    for path in tmp_path.glob("runs/*/*/*/args.json"):
        command = json.loads(path.read_text())["command"]
        assert text.count(f"<code>{command}</code>") >= 2, "in the table and at its figures"


def test_each_setting_has_a_column_and_the_matrix_its_numbers(tmp_path):
    path = write_run(tmp_path, setting="class-il", dataset="seq-digits", buffer=None)
    text, _ = report(tmp_path)
    result = json.loads((path / "result.json").read_text())
    row = Page(text).row_of("er")
    assert row[1:4] == ["–", f"{result['accuracy']['class-il']:.2f}",
                        f"{result['accuracy']['task-il']:.2f}"]
    for setting in ("class-il", "task-il"):
        figure = re.search(rf'data-key="accuracy-matrix-{setting}".*?</figure>', text, re.S)[0]
        cells = sorted(re.findall(r"<text x=\"\d+\" y=\"\d+\">([\d.]+)</text>", figure))
        expected = sorted(f"{v:.1f}" for r in result["accuracy_matrix"][setting] for v in r)
        assert cells == expected


def test_text_from_files_is_escaped_everywhere(tmp_path):
    evil = '<script>alert("x")</script>&\'"><img src=x onerror=alert(1)>'
    measures = summary()
    measures["definitions"]["ece"] = evil
    measures["notes"] = [evil]
    measures["run"]["class_names"] = [evil] * 10
    measures["novelty"]["data"] = evil
    write_run(tmp_path, model=evil, notes=evil, measures=measures, name="evil")
    write_run(tmp_path, model=evil, notes=evil, other=evil, name="evil2", seed=1)
    (tmp_path / "runs" / "x<script>").mkdir()
    (tmp_path / "runs" / "x<script>" / "args.json").write_text("{")
    text, _ = report(tmp_path, "--figures", tmp_path / "figures")
    page = Page(text)
    scripts = [attrs for tag, attrs in page.elements if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "data"}, {}]
    assert "img" not in {tag for tag, _ in page.elements}
    assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
    assert "&lt;script&gt;alert(" in text and "<script>alert" not in text
    island = re.search(r'id="data">(.*?)</script>', text, re.S)[1]
    assert evil in json.loads(island)[0]["title"]
    for path in (tmp_path / "figures").iterdir():
        ET.parse(path)


def test_damaged_and_unfinished_runs_are_named_and_left_out(tmp_path):
    write_run(tmp_path, name="whole")
    broken = {
        "cut": ("result.json", '{"model": "er"'), "list": ("result.json", "[]"),
        "nan": ("result.json", None), "binary": ("args.json", "\x00\ud7ff"),
        "no-command": ("args.json", '{"args": {}}')}
    for seed, (name, (file, content)) in enumerate(broken.items(), 1):
        path = write_run(tmp_path, name=name, seed=seed)
        if content is None:
            result = json.loads((path / file).read_text())
            result["accuracy_matrix"]["domain-il"][0][0] = float("nan")
            content = json.dumps(result)
        (path / file).write_text(content)
    (write_run(tmp_path, name="going", seed=9) / "result.json").unlink()
    (write_run(tmp_path, name="lost", seed=10) / "args.json").unlink()
    text, done = report(tmp_path)
    for name in (*broken, "going", "lost"):
        assert re.search(rf"left out: \S*/{name} \(", done.stderr)
        assert f"perm-digits/er/{name}:" in text
    assert "not finished: 1 task evaluated" in text
    assert Page(text).row_of("er")[-1] == "1"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", ["{", '{"format": 2}', "[1]"])
def test_damaged_uncertainty_leaves_the_accuracies(tmp_path, content):
    path = write_run(tmp_path, measures=summary())
    (path / "uncertainty" / "summary.json").write_text(content)
    text, done = report(tmp_path)
    assert 'data-key="accuracy-matrix-domain-il"' in text and 'data-key="rel' not in text
    assert "Uncertainty is left out" in text and "npcl_plugin.uncertainty" in done.stderr


def test_section_of_another_form_takes_only_itself(tmp_path):
    measures = summary()
    measures["heads"] = {"accuracy": 3}
    measures["calibration"]["reliability"] = None
    write_run(tmp_path, measures=measures)
    text, done = report(tmp_path)
    keys = {a["data-key"] for tag, a in Page(text).elements if tag == "figure"}
    assert {"rejection", "qq", "accuracy-matrix-domain-il"} <= keys
    assert not keys & {"reliability", "head-accuracy"}
    assert done.stderr.count("another form than documented") == 3


def test_every_measure_has_a_figure_and_its_caption(tmp_path):
    write_run(tmp_path, model="npcl", measures=summary())
    text, _ = report(tmp_path)
    keys = [a["data-key"] for tag, a in Page(text).elements if tag == "figure"]
    assert {"calibration-errors", "reliability", "rejection", "proper-scores", "transfer",
            "head-accuracy", "head-entropy", "head-confusion", "head-inference", "novelty-auroc",
            "novelty-fpr95", "novelty-variance-softmax", "novelty-variance-entropy",
            "novelty-histograms", "interval-width-true-head", "t-test-true-head", "qq",
            "latent-means", "latent-standard-deviations", "latent-units", "latent-drift",
            "attention-queries", "attention-share", "self-attention", "context-accuracy",
            "context-entropy", "context-seconds", "draws-accuracy", "inference-time",
            "novelty-by-method", "drift-by-method", "ece-curves", "rejection-curves"} <= set(keys)
    assert len(re.findall(r"<figcaption>.*?<p>[A-Z0-9].{40,}?</p>", text)) == len(keys)
    assert "ECE (15 equal-width bins) 0.123." in text
    assert "15 bins of equal width." in text and "match neither scale" in text


def test_run_without_uncertainty_says_which_command_adds_it(tmp_path):
    path = write_run(tmp_path)
    text, _ = report(tmp_path)
    command = json.loads((path / "args.json").read_text())["command"]
    assert f"<code>{command} --uncertainty 1</code>" in text


def test_groups_differ_by_settings_and_repetitions_count_once(tmp_path):
    write_run(tmp_path, name="a", lr=0.1, alpha=1)
    write_run(tmp_path, name="b", lr=0.2, alpha=1.0)
    write_run(tmp_path, name="c", lr=0.2, alpha=1, seed=1, results_path="elsewhere")
    write_run(tmp_path, name="d", lr=0.2, alpha=1, seed=1, measures=summary())
    write_run(tmp_path, name="e", lr=0.2, alpha=1, seed=1)
    text, done = report(tmp_path)
    rows = [row for row in Page(text).rows if row and row[0].startswith("er")]
    assert sorted((row[0], row[-1]) for row in rows) == [
        ("erlr=0.1", "1"), ("erlr=0.2", "2"), ("erlr=0.2", "2")]
    assert done.stderr.count("the same experiment as runs/perm-digits/er/d") == 2


def test_one_run_folder_and_joint_training_can_be_shown(tmp_path):
    path = write_run(tmp_path, model="joint", tasks=4)
    result = json.loads((path / "result.json").read_text())
    result["transfer"] = {}
    (path / "result.json").write_text(json.dumps(result))
    text, _ = report(path)
    figure = re.search(r'data-key="accuracy-matrix-domain-il".*?</figure>', text, re.S)[0]
    assert ">end</text>" in figure and len(re.findall(r'<text x="\d+" y="\d+">', figure)) == 4
    assert Page(text).row_of("joint")[3:5] == ["–", "–"]


def test_page_of_fifteen_runs_of_twenty_tasks_is_small_and_self_contained(tmp_path):
    for model, np_family in (("er", 0), ("der", 0), ("anp", 1), ("npcl", 1), ("npcl-plus", 1)):
        for seed in range(3):
            write_run(tmp_path, model=model, seed=seed, tasks=20,
                      measures=summary(20, np_family=bool(np_family)))
    text, _ = report(tmp_path)
    assert len(text.encode()) < 5e6
    page = Page(text)
    loaded = [a for tag, a in page.elements if tag != "a" and {"src", "href"} & set(a)]
    assert not loaded and "http://" not in text and "https://" not in text and "@import" not in text
    policy = next(a["content"] for tag, a in page.elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")


def test_figures_are_files_with_the_papers_numbers(tmp_path):
    write_run(tmp_path, model="npcl", measures=summary())
    write_run(tmp_path, model="npcl", measures=summary(), dataset="seq-cifar100",
              setting="class-il")
    _, done = report(tmp_path, "--figures", tmp_path / "figures")
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    place = "perm-digits-npcl-buffer-200-seed-0.svg"
    assert {f"fig04a-head-accuracy-{place}", f"fig10-qq-{place}", f"fig03b-latent-units-{place}",
            f"extra-reliability-{place}", f"fig07-transfer-{place}",
            "fig09b-head-entropy-seq-cifar100-npcl-buffer-200-seed-0.svg"} <= names
    assert f"{len(names)} figures" in done.stdout
    for path in (tmp_path / "figures").iterdir():
        text = path.read_text()
        assert "var(" not in text and ET.fromstring(text).tag.endswith("svg")


def test_figures_as_pdf(tmp_path):
    from engine.errors import UsageError
    from experiments.report import files as report_files
    try:
        report_files.pdf_writer()
    except UsageError as error:
        pytest.skip(str(error))
    write_run(tmp_path)
    report(tmp_path, "--figures", tmp_path / "figures", "--format", "pdf")
    files = list((tmp_path / "figures").iterdir())
    assert files and all(path.read_bytes().startswith(b"%PDF") for path in files)


def test_pdf_without_cairosvg_is_one_sentence(tmp_path, monkeypatch):
    from engine.errors import UsageError
    from experiments.report import files as report_files
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    with pytest.raises(UsageError, match="extra `figures`"):
        report_files.write_figures([], tmp_path, "pdf")


def test_command_runs_from_anywhere_and_writes_beside_the_runs(tmp_path):
    write_run(tmp_path)
    done = subprocess.run([sys.executable, str(SCRIPT), "."], capture_output=True, text=True,
                          cwd=tmp_path)
    assert done.returncode == 0 and "1 run," in done.stdout and done.stderr == ""
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("kind", ["absent", "empty", "unfinished", "file", "unwritable"])
def test_mistakes_are_one_sentence_and_exit_code_two(tmp_path, kind):
    source, words = tmp_path / "results", []
    if kind != "absent":
        source.mkdir()
    if kind == "unfinished":
        (write_run(source) / "result.json").unlink()
    if kind == "file":
        source = tmp_path / "file"
        source.write_text("")
    if kind == "unwritable":
        write_run(source)
        (tmp_path / "file").write_text("")
        words = ["--out", tmp_path / "file" / "page.html"]
    done = run(source, *words)
    errors = [line for line in done.stderr.splitlines() if not line.startswith("left out")]
    assert done.returncode == 2 and len(errors) == 1 and errors[0].startswith("error: ")
    assert not (source / "report.html").exists()


def test_heat_colours_are_readable_and_even():
    from experiments.report import theme

    for scale in theme.SCALES:
        for kind in ("light", "dark"):
            colours = theme.heat_colours(scale, kind)
            assert all(theme.contrast(cell, ink) > 4.3 for cell, ink in colours)
            light = [theme._to_oklab(cell)[0] for cell, _ in colours]
            steps = [b - a for a, b in zip(light, light[1:], strict=False)]
            assert max(steps) - min(steps) < 0.01


def test_methods_of_one_benchmark_have_different_colours():
    from experiments.report.figures import styles_of

    def groups(dataset, labels):
        return [SimpleNamespace(dataset=dataset, label=label) for label in labels]

    styles = styles_of(groups("a", "bcdefghi") + groups("b", "hijklmn"))
    for labels in ("bcdefghi", "hijklmn"):
        assert len({styles[label] % 8 for label in labels}) == len(labels)
    many = styles_of(groups("a", "abcdefghijklmnopqrst"))
    assert len(set(many.values())) == 20


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.2, 4.7), (0.0001, 0.0004), (99.1, 99.3)])
def test_ticks_are_round_and_inside(low, high):
    from experiments.report.svg import ticks

    found = ticks(low, high)
    assert 2 <= len(found) <= 8 and low <= found[0] and found[-1] <= high + 1e-12
    assert all(len(f"{v:.6g}".lstrip("-0.").replace(".", "")) <= 4 for v in found)


def test_run_that_only_evaluates_is_no_method(tmp_path):
    write_run(tmp_path, name="trained")
    write_run(tmp_path, name="asked", seed=1, top=60.0, inference_only=True)
    text, done = report(tmp_path)
    rows = [row for row in Page(text).rows if row and row[0].startswith("er")]
    assert {row[-1] for row in rows} == {"1"}
    assert "er/asked (it evaluates a checkpoint and trains nothing" in done.stderr


def test_answers_name_the_best_and_how_sure(tmp_path):
    for seed, noise in enumerate((0.1, -0.2, 0.05)):
        write_run(tmp_path, model="er", seed=seed, top=80.0)
        write_run(tmp_path, model="der", seed=seed, top=90.0 + noise)
    text, _ = report(tmp_path)
    section = re.search(r'id="answers".*?</section>', text, re.S)[0]
    assert "der is the most accurate of 2" in section and "points above er." in section
    assert "That is more than luck (paired t-test over 3 common seeds: p &lt; 0.001)." in section


def test_one_seed_is_no_test(tmp_path):
    write_run(tmp_path, model="er", top=80.0)
    write_run(tmp_path, model="der", top=90.0)
    assert "not two common seeds, so nobody knows whether this is luck" in report(tmp_path)[0]


@pytest.mark.parametrize(("narrow", "verdict"), [(0.1, "holds"), (0.5, "not here")])
def test_claims_are_judged_by_the_numbers(tmp_path, narrow, verdict):
    measures = summary()
    measures["confidence"]["true_head"]["piw_correct"] = narrow
    write_run(tmp_path, model="npcl", measures=measures)
    text, _ = report(tmp_path)
    claims = re.search(r'id="claims".*?</section>', text, re.S)[0]
    row = next(row for row in re.findall(r"<tr.*?</tr>", claims) if "narrower" in row)
    assert f"{verdict}</span>" in row and f"{100 * narrow:g} right, 30 wrong" in row
    card = re.search(r'data-key="interval-width-true-head".*?</figure>', text, re.S)[0]
    assert f"{verdict}</span> The paper says" in card


def test_claim_against_rivals_is_open_where_seeds_do_not_decide(tmp_path):
    for seed in range(3):
        write_run(tmp_path, model="er", seed=seed, top=80.0)
        write_run(tmp_path, model="npcl", seed=seed, top=80.5 + (-1) ** seed, name=f"n{seed}")
    claims = re.search(r'id="claims".*?</section>', report(tmp_path)[0], re.S)[0]
    assert "? open</span>" in next(row for row in re.findall(r"<tr.*?</tr>", claims)
                                   if "ER, DER" in row)


def test_neighbouring_heat_maps_share_their_scale(tmp_path):
    for seed, factor in enumerate((1, 3)):
        measures = summary()
        measures["heads"]["entropy"] = [[factor * v for v in row]
                                        for row in measures["heads"]["entropy"]]
        write_run(tmp_path, model="npcl", seed=seed, measures=measures)
    text, _ = report(tmp_path)
    for key in ("head-entropy", "entropy-matrix"):
        figures = re.findall(rf'data-key="{key}".*?</figure>', text, re.S)
        assert len(figures) == 2 and all('class="m n">2.7</text>' in one for one in figures)


def test_many_bands_stand_in_charts_of_their_own(tmp_path):
    for model in ("er", "der", "sgd", "agem"):
        for seed in range(2):
            write_run(tmp_path, model=model, seed=seed)
    figure = re.search(r'data-key="accuracy-curves-domain-il".*?</figure>', report(tmp_path)[0],
                       re.S)[0]
    assert figure.count('class="w s') == 4 and figure.count('class="v"') == 4 * 3
    assert len(re.findall(r'<g data-line="er">', figure)) == 2


def test_numbers_and_plurals_are_as_people_write_them():
    from experiments.words import amount, counted, listed

    assert [amount(v) for v in (17.0, 12345, 0.5, 15.04, -3, None, True, 0.00012)] == [
        "17", "12,345", "0.5", "15.04", "−3", "None", "True", "0.00012"]
    assert amount(15.04, 1) == "15"
    assert counted(1, "run") == "1 run" and counted(2000, "run") == "2,000 runs"
    assert [listed(list(words)) for words in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]


def test_accuracy_figures_of_a_benchmark_share_their_axis(tmp_path):
    write_run(tmp_path, model="er", dataset="seq-digits", setting="class-il", top=50.0)
    write_run(tmp_path, model="der", dataset="seq-digits", setting="class-il", top=90.0)
    assert run(tmp_path, "--figures", tmp_path / "figures").returncode == 0
    found = [re.findall(r'class="m e">([^<]+)<', path.read_text())
             for path in sorted((tmp_path / "figures").glob("*accuracy-curves*"))]
    assert len(found) == 2 and found[0] == found[1]


def test_a_number_that_is_not_there_is_said_in_words(tmp_path):
    measures = summary(3)
    for head in ("answering_head", "true_head"):
        measures["confidence"][head] |= {"n_not_rejected": 0, "accuracy_not_rejected": None}
    write_run(tmp_path, model="npcl", tasks=3, measures=measures)
    assert run(tmp_path).returncode == 0
    text = (tmp_path / "report.html").read_text()
    assert "undefined %" not in text and "no unsure answer" in text


def test_the_committed_results_are_a_page_of_the_same_making(tmp_path):
    records = json.loads((SCRIPT.parents[1] / "results" / "cifar10-small.json").read_text())
    ours = [record for record in records if record["model"] == "er"]
    records += [{**record, "command": f"{record['command']} --n_epochs 1",
                 "settings": {"n_epochs": 1}} for record in ours]
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "some.json").write_text(json.dumps(records))
    done = run(tmp_path / "records", "--out", tmp_path / "page.html")
    assert done.returncode == 0 and not done.stderr, done.stderr
    text = (tmp_path / "page.html").read_text()
    page = Page(text)
    assert 'id="runs"' not in text and "#runs" not in text.split("<script")[0]
    for record in records:
        assert record["command"].replace("'", "&#x27;") in text
    values = [record["accuracy"]["class-il"] for record in ours]
    assert page.row_of("er")[2] == f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"
    assert "reduced: n_epochs 1" in text
    assert text.count('data-key="final-accuracy-class-il"') >= 1


def test_joint_training_is_never_the_best_that_learns_task_by_task(tmp_path):
    record = {"model": "npcl", "dataset": "perm-mnist", "setting": "domain-il", "buffer_size": 200,
              "accuracy": {"domain-il": 94.0}, "backward_transfer": 0.0, "seconds": 1.0}
    command = "python mammoth/main.py --model {} --dataset perm-mnist --buffer_size 200 --seed {}"
    records = [{**record, "seed": seed, "command": command.format("npcl", seed) + " --joint 1"}
               for seed in range(2)]
    records += [{**record, "model": "er", "seed": seed, "command": command.format("er", seed),
                 "accuracy": {"domain-il": 70.0 + seed}} for seed in range(2)]
    (tmp_path / "some.json").write_text(json.dumps(records))
    assert run(tmp_path).returncode == 0
    assert "er alone was run" in (tmp_path / "report.html").read_text()
