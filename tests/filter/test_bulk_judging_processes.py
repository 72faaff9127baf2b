"""Verdicts by several processes: those of one, in order, with few documents in memory."""

import multiprocessing
import os
import signal
from collections import namedtuple

import pytest

from surebayes import Filter
from surebayes.errors import Busy, StoreError
from surebayes.filter.bulk_judging import AHEAD, judging
from surebayes.filter.model import CHUNK, Model
from surebayes.synthetic import mail_stream

Document = namedtuple("Document", "number content")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("filter") / "f"
    with Filter.create(path, model="words") as mine:
        for mail in mail_stream(120, seed=1):
            mine.teach(mail.raw, mail.label)
    return str(path)


def documents(n):
    return (Document(k, mail.raw) for k, mail in enumerate(mail_stream(n, seed=2)))


def test_the_same_verdicts_in_the_same_order(folder):
    with judging(folder, 2) as judge:
        several = list(judge.verdicts(documents(300)))
        assert judge.classes == Model.open(folder, hold=True).names
    assert several == list(Model.open(folder, hold=True).verdicts(documents(300)))


def test_few_documents_are_read_ahead(folder):
    read = []

    def noted():
        for document in documents(600):
            read.append(document.number)
            yield document

    with judging(folder, 2) as judge:
        for document, _ in judge.verdicts(noted()):
            assert len(read) - document.number <= (2 * AHEAD + 1) * CHUNK


def test_no_documents(folder):
    with judging(folder, 2) as judge:
        assert list(judge.verdicts(iter(()))) == []


def test_a_process_that_dies_is_reported(folder):
    with judging(folder, 2) as judge:
        verdicts = judge.verdicts(documents(2000))
        next(verdicts)
        for process in multiprocessing.active_children():
            os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(StoreError, match="fewer --jobs"):
            list(verdicts)


def test_verdicts_of_two_models_are_never_mixed(folder, tmp_path):
    import shutil

    copy = shutil.copytree(folder, tmp_path / "copy")
    with judging(str(copy), 2) as judge:
        with Filter.open(copy) as mine:
            for mail in mail_stream(3, seed=9):
                mine.teach(mail.raw, mail.label)
        with pytest.raises(Busy, match="Run the command again"):
            list(judge.verdicts(documents(5)))
