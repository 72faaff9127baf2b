"""A trained filter and messages that it has not seen, for tests of the server."""

import pytest

import surebayes as sb
from surebayes import synthetic


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with a small filter; copy it to change it."""
    folder = tmp_path_factory.mktemp("trained") / "filter"
    raws, labels = synthetic.as_lists(300, 11)
    with sb.Filter.create(folder, model="words") as opened:
        opened.train(zip(raws, labels))
    return folder


@pytest.fixture(scope="session")
def mails(trained):
    """A good mail and a bad one, each judged right."""
    raws, labels = synthetic.as_lists(200, 12)
    with sb.Filter.open(trained) as opened:
        right = [(raw, label) for raw, label in zip(raws, labels) if opened.judge(raw).label == label]
    return {name: next(raw for raw, label in right if label == name) for name in ("ham", "spam")}
