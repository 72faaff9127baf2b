"""Pages in a real browser; `make test-site` installs it."""

from pathlib import Path

import pytest
from chromium import running


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.site)


@pytest.fixture(scope="session")
def browser():
    with running() as started:
        yield started
