"""Run the plugin in a Mammoth checkout that knows nothing of plugins.

`launch` registers the models and runs the checkout's own main.py; `link` leaves a one-line file
for each model and its settings there, so that its `main.py --model npcl` works by itself;
`unlink` takes them away again. Where the checkout's own imports fail in this environment (see
`import_hooks`), `link` also leaves a `torchvision.py` that helps them and hands over to the real
package: it is the first thing that the checkout's main.py imports of all that can fail.
"""
import argparse
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npcl_plugin import BACKBONES, MODELS
from npcl_plugin.contract import offer, resolver
from npcl_plugin.settings import FOLDER, read_settings, resolved

HERE = Path(__file__).resolve().parent
_MARK = "# Written by `python -m npcl_plugin link`; `unlink` removes it."
_STAND_IN = "torchvision.py"
_FLAG_OF_HARNESS = ("lr", "batch_size", "n_epochs")


class LinkError(ValueError):
    """The folder is no Mammoth checkout, or a file of somebody else stands in the way."""


def find_checkout(path: str | None) -> Path:
    """The checkout: as given, else $MAMMOTH_PATH, else the current folder.

    Raises:
        LinkError: it has no main.py and models/.
    """
    folder = Path(path or os.environ.get("MAMMOTH_PATH") or ".").resolve()
    if not (folder / "main.py").is_file() or not (folder / "models").is_dir():
        raise LinkError(f"Expected a Mammoth checkout (with main.py and models/), but {folder} is "
                        "none; give --mammoth PATH or set MAMMOTH_PATH.")
    return folder


def published_flags(words: Sequence[str]) -> list[str]:
    """Learning rate, batch size and epochs of our settings, where the user gave none."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("model", "dataset", "buffer_size", *_FLAG_OF_HARNESS):
        parser.add_argument(f"--{name}", nargs="?", const="")  # upstream says what is wrong with it
    given = vars(parser.parse_known_args(words)[0])
    model = (given["model"] or "").replace("-", "_")
    if model not in MODELS or not given["dataset"]:
        return []
    size = given["buffer_size"] or ""
    known = resolved(model, dataset=given["dataset"], setting="", typed={},
                     buffer_size=int(size) if size.isdecimal() and int(size) else None)
    return [word for name in _FLAG_OF_HARNESS if name in known and given[name] is None
            for word in (f"--{name}", str(known[name]))]


def launch(checkout: Path, words: Sequence[str]) -> None:
    """Run the checkout's main.py with our models registered; nothing in it is touched.

    Raises:
        LinkError: a package is missing that the checkout imports.
    """
    sys.path[:] = [str(checkout), *(p for p in sys.path if p not in ("", str(checkout))),
                   str(HERE.parent)]
    try:
        offer(MODELS, BACKBONES)
        sys.argv = [str(checkout / "main.py"), *words, *published_flags(words)]
        runpy.run_path(sys.argv[0], run_name="__main__")
    except ModuleNotFoundError as error:
        raise LinkError(f"{checkout} needs the package `{error.name}`, which is not installed; "
                        f"`python -m npcl_plugin doctor {checkout}` lists all that is "
                        "missing.") from error


def link(checkout: Path) -> list[Path]:
    """Write the shims and settings; returns their paths.

    Raises:
        LinkError: another file has such a name, or it is no upstream checkout; nothing is
            written then.
    """
    if (checkout / "utils" / "torchvision_compat.py").is_file():
        raise LinkError(f"{checkout} is this project's own harness, which knows the models by "
                        "itself; give the path of an upstream checkout.")
    shims = linked_files(checkout)
    for path in shims:
        if path.exists() and not _ours(path):
            raise LinkError(f"{path} exists and is not ours; move it away first.")
    stand_in = checkout / _STAND_IN
    stand_in.unlink(missing_ok=True)
    if imports_work(checkout):
        del shims[stand_in]
    for path, text in shims.items():
        path.write_text(text, encoding="utf-8")
    return list(shims)


def unlink(checkout: Path) -> list[Path]:
    """Remove what `link` wrote; files of others stay."""
    removed = [path for path in linked_files(checkout) if path.exists() and _ours(path)]
    for path in removed:
        path.unlink()
    return removed


def imports_work(checkout: Path) -> bool:
    """Whether the checkout's packages can be imported here without our help."""
    code = "import torchvision, backbone, datasets, models.utils.continual_model"
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    return subprocess.run([sys.executable, "-c", code], cwd=checkout, env=environment,
                          capture_output=True, check=False).returncode == 0


def _ours(path: Path) -> bool:
    return path.read_text(encoding="utf-8").startswith(_MARK)


def _class_name(model: str) -> str:
    """The class in a model's file, from its text: nothing is imported."""
    text = (HERE / "models" / f"{model}.py").read_text(encoding="utf-8")
    names: list[str] = re.findall(r"^class (\w+)", text, re.MULTILINE)
    return names[-1]


def linked_files(checkout: Path) -> dict[Path, str]:
    """path -> contents of every file that `link` writes."""
    hooks = str(HERE / "import_hooks.py")
    files = {checkout / _STAND_IN: f"{_MARK}\nimport runpy; "
                                   f"runpy.run_path({hooks!r})['hand_over'](__file__)\n"}
    for name in MODELS:
        kind = _class_name(name)
        line = (f"import sys; sys.path.append({str(HERE.parent)!r}); "
                f"from npcl_plugin.models.{name} import {kind}  # noqa")
        files[checkout / "models" / f"{name}.py"] = f"{_MARK}\n{line}\n"
        files[checkout / "models" / "config" / f"{name}.yaml"] = _settings(name)
    return files


def _settings(name: str) -> str:
    """What upstream's reader needs of our settings: its own arguments, for each benchmark."""
    import yaml

    return f"{_MARK}\n{yaml.safe_dump(harness_settings(name), sort_keys=False)}"


def harness_settings(name: str) -> dict[str, dict[Any, Any]]:
    """benchmark -> (buffer size ->) the arguments of the harness itself, without `extends`."""
    files = resolver()
    benchmarks: dict[str, set[int]] = {}
    for _, content in files.file_chain(FOLDER / f"{name}.yaml", read_settings):
        for benchmark, section in content.items():
            if benchmark not in ("extends", "default", *files.SETTINGS):
                sizes = {key for key in section if isinstance(key, int)}
                benchmarks.setdefault(benchmark, set()).update(sizes)
    found: dict[str, dict[Any, Any]] = {}
    for benchmark, sizes in benchmarks.items():
        choices: list[int | None] = [*sorted(sizes)] or [None]
        values = {size: {key: value for key, value in resolved(
            name, dataset=benchmark, setting="", buffer_size=size, typed={}).items()
            if key in _FLAG_OF_HARNESS} for size in choices}
        found[benchmark] = values.get(None) or values
    return found
