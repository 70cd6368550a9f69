"""Fixtures and switches that all tests share."""
import itertools
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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    items[:] = long_first(items)
    if config.getoption("--slow"):
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="takes minutes; --slow runs it"))


def long_first(items):
    """Files of long tests at the head of both halves of the list, short tests at their ends.

    Of two processes each gets one half; who is done takes tests from the end of the other's rest.
    So both end together, and what the tests of a long file share is made in one process.
    """
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    long = [tests for tests in files.values() if tests[0].get_closest_marker("long")]
    here, there = (list(itertools.chain(*long[half::2])) for half in range(2))
    moved = {id(test) for test in (*here, *there)}
    short = [test for test in items if id(test) not in moved]
    middle = max(0, len(items) // 2 - len(here))
    return [*here, *short[:middle], *there, *short[middle:]]


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
