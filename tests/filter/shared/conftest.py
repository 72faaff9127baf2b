"""A server of PostgreSQL, and two hosts on it, for the tests of this folder."""

import pytest

import surebayes as sb
from postgres import Server, why_not
from surebayes.filter import hosts
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


@pytest.fixture
def two(tmp_path, url):
    """Two hosts that share a journal, each with a folder."""
    from test_hosts import trained

    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    trained(a)
    hosts.share(a, url)
    hosts.join(b, url)
    with sb.Filter.open(a) as first, sb.Filter.open(b) as second:
        yield first, second
