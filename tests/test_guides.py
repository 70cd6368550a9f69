"""The tutorial, the examples and the code of the guides run as they stand."""
import importlib.util
import json
import logging
import re
import shlex
import tempfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from datasets.utils.digits import load_digits
from experiments.commands.ask import main as ask
from main import main, parse_args

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parent.parent
SHORT = ["--n_global", "4", "--n_epochs", "1", "--non_verbose", "1", "--seed", "0"]


def blocks(page, language):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(page):
    return [line for block in blocks(page, "sh") for line in block.splitlines() if line.strip()]


def typed_runs():
    """Runs that any page of the docs spells out, also in passing; not those with a gap to fill."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
        for words in re.findall(r"^ *python mammoth/main\.py (.+)$", text, re.MULTILINE):
            if not re.search(r"\b[A-Z]{3,}\b", words):
                yield pytest.param(words, id=f"{page.stem} {words}")


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folders and files that stand for the capital names in the guides."""
    folder = tmp_path_factory.mktemp("guides")
    images, labels = (part.numpy()[:300] for part in load_digits(True))
    np.savez(folder / "IMAGES.npz", train_x=images, train_y=labels)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        (folder / "PHOTOS" / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / "PHOTOS" / str(label) / f"{number}.png")
    main(parse_args([*shlex.split("--model npcl --dataset seq-digits --buffer_size 50 --savecheck "
                                  "last --stop_after 4"), *SHORT, "--base_path", str(folder),
                     "--checkpoint_path", str(folder / "checks")]))
    return {"CHECKPOINT": str(next((folder / "checks").glob("*_last.pt"))),
            "IMAGES.npz": str(folder / "IMAGES.npz"), "PHOTOS": str(folder / "PHOTOS"),
            "IMAGES": str(folder / "PHOTOS" / "1"), "mine.pt": str(folder / "mine.pt")}


def filled(text, place):
    return re.sub("|".join(map(re.escape, place)), lambda found: place[found[0]], text)


def test_tutorial_runs_and_shows_what_it_says(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    notebook = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    scope = {}
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), scope)
    finally:
        logging.disable(logging.NOTSET)
    right, known, novel = scope["right"], scope["known"], scope["everything"].novel
    assert right.mean() > 0.5 and right[scope["verdict"].kept].mean() >= right.mean()
    assert novel[~known].mean() > novel[known].mean()
    assert scope["model"].tasks_learned == 5 and scope["page"].stat().st_size > 10_000
    shown = [cell for cell in notebook["cells"] if cell.get("outputs")]
    assert len(shown) > 8, "the notebook is to be kept with its outputs"


def test_example_of_own_data(tmp_path, capsys):
    module = example("own_data")
    module.main(tmp_path, module.write_digits(tmp_path / "digits", per_class=20))
    shown = capsys.readouterr().out
    assert "6: 0, 1, 2, 3, 4, 5" in shown and "answers are sure enough" in shown


def test_example_of_an_np_variant(tmp_path, capsys, monkeypatch):
    from models import REGISTRY

    module = example("own_np_variant")
    try:
        monkeypatch.setattr(module, "load_runner", lambda name, data, args: shortened(
            name, data, args))
        module.main(tmp_path)
    finally:
        REGISTRY.entries.pop("soft-npcl", None)
    shown = re.findall(r"(\w+) +class-IL ([\d.]+) %", capsys.readouterr().out)
    assert [name for name, _ in shown] == ["npcl", "soft_npcl"]
    assert all(float(accuracy) > 20 for _, accuracy in shown)


def shortened(name, data, args):
    from utils.notebooks import load_runner

    return load_runner(name, data, {**args, "n_epochs": 1, "n_global": 4, "stop_after": 3})


@pytest.mark.parametrize("words", typed_runs())
def test_runs_that_the_docs_spell_out_are_accepted(words, tmp_path):
    args = parse_args([*shlex.split(words), "--base_path", str(tmp_path)])  # or it raises
    assert f"--dataset {args.dataset}" in words and args.conf_key


@pytest.mark.parametrize("command", commands("asking.md") + commands("own-data.md"))
def test_commands_of_the_guides_work(command, place, tmp_path, capsys):
    program, *words = shlex.split(filled(command, place))[1:]
    if program == "utils/ask.py":
        assert ask(words) == 0 and capsys.readouterr().out
        return
    result = main(parse_args([*words, *SHORT, "--stop_after", "2", "--base_path", str(tmp_path),
                              "--checkpoint_path", str(tmp_path / "c")]))
    assert result["accuracy"]["class-il"] > 0


def test_python_of_the_guide_to_asking_works(place):
    asking, teaching, hook = blocks("asking.md", "python")
    scope = {}
    exec(filled(asking, place), scope)
    assert len(scope["verdict"]) == len(scope["answer"])
    images, labels = load_digits(True)
    new = labels >= 8
    scope |= {"images": images[new], "labels": labels[new]}
    exec(filled(teaching, place), scope)
    assert Path(place["mine.pt"]).is_file()
    compile(hook, "hook", "exec")


def test_dataset_class_of_the_guide_is_complete(tmp_path):
    from datasets import REGISTRY

    scope = {"__name__": "stripes_of_the_guide"}
    exec(blocks("own-data.md", "python")[0], scope)
    try:
        REGISTRY.register("stripes")(scope["Stripes"])
        result = main(parse_args([
            *shlex.split("--model npcl --dataset stripes --buffer_size 50 --seed 0 --n_global 8 "
                         "--non_verbose 1 --base_path"), str(tmp_path)]))
    finally:
        REGISTRY.entries.pop("stripes", None)
    assert result["accuracy"]["class-il"] > 80
