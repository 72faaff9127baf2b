"""Fixtures of the tests of commands."""

import pytest

from command_line import run_here


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command in this process."""

    def runner(*words, stdin=b""):
        return run_here(capsys, monkeypatch, *words, stdin=stdin)

    return runner
