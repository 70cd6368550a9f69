"""Fixtures and switches that all tests share."""
import os
import random
from pathlib import Path

import hypothesis
import numpy as np
import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
# On a busy machine an example may take any time; that says nothing about the code.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run the tests that take minutes too")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="takes minutes; --slow runs it"))


@pytest.fixture(autouse=True)
def seeded():
    """Every test starts from the same randomness."""
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def real_data() -> str:
    """The folder of MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100."""
    folder = os.environ.get("MAMMOTH_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("MAMMOTH_DATA does not name a folder with the real datasets")
    return folder
