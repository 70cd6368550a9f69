"""Build the docs site: the Markdown of this repository, an API reference, the page of results.

    python utils/docs.py                  into site/
    python utils/docs.py --out FOLDER     elsewhere

Needs the extra `docs` (mkdocs-material, mkdocstrings), no network, no server: open
site/index.html. Links that lead nowhere, and pages that would load something from a network, are
named, and the exit code is 1.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from engine.errors import RunError, UsageError
from experiments.commands import command_parser, told
from experiments.paths import MAIN, ROOT

_MARK = "sitemap.xml"  # what a folder has that mkdocs made


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """The command line."""
    parser = command_parser(__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "site",
                        help="folder of the built site, replaced (default: site/)")
    return parser.parse_args(argv)


def build(options: Namespace) -> int:
    """Write the pages, let mkdocs build them, look for dead links.

    Raises:
        UsageError: this is no checkout, mkdocs is not installed, or the folder is somebody's.
        RunError: mkdocs fails.
    """
    if not (ROOT / "mkdocs.yml").is_file():
        raise UsageError("The docs are built in a checkout of the project, and this is none.")
    for package in ("mkdocs", "material", "mkdocstrings"):
        if find_spec(package) is None:
            raise UsageError(f"The docs need the package `{package}`; run `pip install "
                             "mkdocs-material 'mkdocstrings[python]'`.")
    out = options.out.resolve()
    if out.exists() and not out.is_dir() or out.is_dir() and any(out.iterdir()) \
            and not (out / _MARK).is_file():
        raise UsageError(f"{options.out} exists and is no site of ours; choose another folder "
                         "with --out.")
    from experiments.site.links import dead_in_repository, dead_in_site, fetched_by_site
    from experiments.site.pages import settle_worker, write_pages

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_pages(ROOT, place / "pages")
        shutil.copy(ROOT / "mkdocs.yml", place)
        _mkdocs(place)
        settle_worker(place / "site")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(place / "site", out)
    wrong = dead_in_repository(ROOT) + dead_in_site(out) + fetched_by_site(out)
    for sentence in wrong:
        print(f"dead link: {sentence}", file=sys.stderr)
    pages = sum(1 for _ in out.rglob("*.html"))
    print(f"Site of {pages} pages: {out / 'index.html'}")
    return 1 if wrong else 0


def _mkdocs(place: Path) -> None:
    """Build; whatever mkdocs warns about is an error."""
    environment = {**os.environ, "CHECKOUT": str(ROOT), "HARNESS": str(MAIN.parent),
                   "NO_MKDOCS_2_WARNING": "1", "SOURCE_DATE_EPOCH": "0"}
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"],
                          cwd=place, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise RunError("mkdocs does not build the pages: " + " | ".join(lines[-12:])[:2000])


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    return told(lambda: build(parse_args(argv)))
