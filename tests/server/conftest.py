"""A trained filter, mails that it has not seen, and a server that several tests share."""

import shutil

import pytest
from running import Server

import surebayes as sb
from surebayes import synthetic


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with a small filter; copy it to change it."""
    folder = tmp_path_factory.mktemp("trained") / "filter"
    raws, labels = synthetic.as_lists(300, 11)
    with sb.Filter.create(folder, model="words") as mine:
        mine.train(zip(raws, labels))
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "filter")


@pytest.fixture(scope="session")
def mails(trained):
    """A good mail and a bad one, each judged right."""
    raws, labels = synthetic.as_lists(200, 12)
    with sb.Filter.open(trained) as mine:
        right = [(raw, label) for raw, label in zip(raws, labels) if mine.judge(raw).label == label]
    return {name: next(raw for raw, label in right if label == name) for name in ("ham", "spam")}


@pytest.fixture(scope="module")
def server(trained, tmp_path_factory):
    """A server with every door, for tests that leave it as it was."""
    folder = shutil.copytree(trained, tmp_path_factory.mktemp("served") / "filter")
    with Server(folder) as running:
        yield running
