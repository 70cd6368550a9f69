"""Figures as files for a paper: SVG, or PDF through cairosvg where it is installed."""
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from engine.errors import UsageError
from experiments.identity import Experiment
from experiments.report.figure import figures_of_methods, figures_of_run
from experiments.report.figures import methods_by_benchmark, shown_runs
from experiments.report.svg import Svg, slug

_LONGEST = 180


def named_figures(experiments: Sequence[Experiment]) -> Iterator[tuple[str, Svg]]:
    """(file name without ending, picture) of every figure, the paper's number first."""
    for methods in methods_by_benchmark(experiments):
        size = "" if methods.buffer is None else f"-{methods.buffer}"
        for figure in figures_of_methods(methods, []):
            yield f"{figure.file_name}-{slug(methods.dataset)}{size}", figure.svg
    for shown in shown_runs(experiments):
        one = shown.experiment
        place = slug(f"{one.dataset} {one.title} seed {shown.run.seed}")
        for figure in figures_of_run(shown, []):
            yield f"{figure.file_name}-{place}", figure.svg


def pdf_writer() -> Callable[[str, Path], None]:
    """A function from SVG text and a path to a PDF file.

    Raises:
        UsageError: cairosvg, or the cairo library that it needs, is absent.
    """
    try:
        from cairosvg import svg2pdf
    except (ImportError, OSError) as error:
        raise UsageError("PDF files need the package cairosvg and the library cairo; install the "
                         "extra `figures` (pip install cairosvg; apt-get install libcairo2) or "
                         "take --format svg.") from error

    def write(text: str, path: Path) -> None:
        svg2pdf(bytestring=text.encode(), write_to=str(path))

    return write


def _write_svg(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8")


def write_figures(experiments: Sequence[Experiment], folder: Path, kind: str) -> int:
    """Write all figures; returns how many.

    Raises:
        UsageError: the folder cannot be written, or PDF cannot be made.
    """
    write = pdf_writer() if kind == "pdf" else _write_svg
    used: Counter[str] = Counter()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in named_figures(experiments):
            name = name[:_LONGEST]
            used[name] += 1
            ending = f"-{used[name]}" if used[name] > 1 else ""
            write(picture.standalone(), folder / f"{name}{ending}.{kind}")
    except OSError as error:
        raise UsageError(f"Figures cannot be written to {folder} ({error.strerror}); choose "
                         "another folder with --figures.") from error
    return used.total()
