"""Real clients and mail servers from Debian's packages; `make test-integration` installs them."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))
from filters import mails, trained  # noqa: F401
from running import Server


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def program():
    """Return the path of a program; the test is skipped where there is none."""

    def find(name):
        path = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin:/usr/local/sbin")
        if path is None:
            pytest.skip(f"{name} isn't installed: make test-integration")
        return path

    return find


@pytest.fixture(scope="module")
def server(trained, tmp_path_factory):  # noqa: F811
    folder = shutil.copytree(trained, tmp_path_factory.mktemp("served") / "filter")
    socket = tmp_path_factory.mktemp("sockets") / "spamd.sock"
    with Server(folder) as running, Server(folder, "--spamd", f"unix:{socket}", listeners=()) as beside:
        running.socket, running.beside = socket, beside
        yield running
