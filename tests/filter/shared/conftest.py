"""A server of PostgreSQL for the tests of this folder."""

import pytest

from postgres import Server, why_not
from surebayes.filter.shared.address import VARIABLE


@pytest.fixture(scope="session")
def server():
    """A server for all tests; skipped with the reason where there is none."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    running = Server()
    yield running
    running.close()


@pytest.fixture
def url(server, monkeypatch):
    """The URL of an empty database."""
    from surebayes.filter.shared.database import close_idle, forget_failures

    monkeypatch.delenv(VARIABLE, raising=False)
    forget_failures()
    yield server.database()
    close_idle()
