"""Shared server of the tests, and a folder for tests that need a separate one."""

import shutil

import pytest
from filters import mails, trained  # noqa: F401
from running import Server


@pytest.fixture
def folder(trained, tmp_path):  # noqa: F811
    return shutil.copytree(trained, tmp_path / "filter")


@pytest.fixture(scope="module")
def server(trained, tmp_path_factory):  # noqa: F811
    """A server with every listener, for tests that leave it as it was."""
    folder = shutil.copytree(trained, tmp_path_factory.mktemp("served") / "filter")
    with Server(folder) as running:
        yield running
