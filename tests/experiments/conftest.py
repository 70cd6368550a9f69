"""What the tests of `experiments` share: the plugins' measures, figures and tables are there."""
import pytest


@pytest.fixture(scope="session", autouse=True)
def contributions():
    from experiments.contributions import load_contributions
    from experiments.report.figures import load_figures

    load_figures()
    load_contributions()
