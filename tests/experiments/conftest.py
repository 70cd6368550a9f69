"""What the tests of `experiments` share: the plugins' measures, figures and tables are there."""
import os
import shutil

import pytest


@pytest.fixture(scope="session", autouse=True)
def contributions():
    from experiments.contributions import load_contributions
    from experiments.report.figures import load_figures

    load_figures()
    load_contributions()


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium; tests that need it skip where it is absent."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(
        shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    with api.sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=program, timeout=120_000,
                                               args=["--no-sandbox", "--disable-gpu"])
        except api.Error as error:
            pytest.skip(f"chromium does not start here: {str(error).splitlines()[0]}")
        yield found
        found.close()
