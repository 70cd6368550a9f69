"""Figures as files for a paper: SVG, or PDF through cairosvg where it is installed."""
import re

from experiments.report.figures import run_figures, table_figures, tables
from utils.errors import UsageError


def slug(text):
    """A part of a file name: letters, digits and dashes."""
    return re.sub(r"[^A-Za-z0-9]+", "-", str(text)).strip("-").lower() or "run"


def named_figures(groups):
    """(file name without ending, picture) of every figure, the paper's number first."""
    for table in tables(groups):
        size = "" if table.buffer is None else f"-{table.buffer}"
        for figure in table_figures(table, []):
            yield f"{figure.file_name}-{slug(table.dataset)}{size}", figure.svg
    for group in groups:
        for run in group.runs:
            place = slug(f"{group.dataset} {group.title} seed {run.result['seed']}")
            for figure in run_figures(run, []):
                yield f"{figure.file_name}-{place}", figure.svg


def pdf_writer():
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
    return lambda text, path: svg2pdf(bytestring=text.encode(), write_to=str(path))


def write_figures(groups, folder, kind):
    """Write all figures; returns how many.

    Raises:
        UsageError: the folder cannot be written, or PDF cannot be made.
    """
    write = pdf_writer() if kind == "pdf" else lambda text, path: path.write_text(
        text, encoding="utf-8")
    count, used = 0, set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in named_figures(groups):
            name = name[:180]
            while name in used:
                name += "-2"
            used.add(name)
            write(picture.standalone(), folder / f"{name}.{kind}")
            count += 1
    except OSError as error:
        raise UsageError(f"Figures cannot be written to {folder} ({error.strerror}); choose "
                         "another folder with --figures.") from error
    return count
