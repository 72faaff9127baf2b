"""Stamps of the journal's files: an open journal is read again after any write, and only then."""

import os
import time

import pytest

import surebayes as sb
from surebayes.filter.store.journal import Journal
from surebayes.filter.store.journal_file import FileStamps

OLD = 1_600_000_000_000_000_000


@pytest.fixture
def folder(tmp_path):
    with sb.Filter.create(tmp_path / "f", width=2**12) as mine:
        mine.teach(b"Subject: a\n\nlunch", "ham")
    for each in (tmp_path / "f").iterdir():
        os.utime(each, ns=(OLD, OLD))
    return str(tmp_path / "f")


def test_files_without_a_write_are_current(folder):
    stamps = FileStamps(folder)
    assert stamps.are_current()
    journal = Journal(folder, write=False)
    assert journal.is_current
    journal.close()


@pytest.mark.parametrize("name", ["journal.sqlite-wal", "journal.sqlite-journal"])
def test_a_log_or_a_changed_file_is_noticed(folder, name):
    stamps = FileStamps(folder)
    with open(os.path.join(folder, name), "wb") as log:
        log.write(b"x")
    assert not stamps.are_current()
    os.remove(os.path.join(folder, name))
    assert stamps.are_current()
    os.utime(os.path.join(folder, "journal.sqlite"), ns=(OLD, OLD + 1))
    assert not stamps.are_current()


def test_a_file_written_just_now_is_never_taken_for_unchanged(folder):
    """A second write in the same tick of the clock would leave its time and perhaps its size."""
    path, now = os.path.join(folder, "journal.sqlite"), time.time_ns()
    os.utime(path, ns=(now, now))
    assert not FileStamps(folder).are_current()
    os.utime(path, ns=(now - 10**9, now - 10**9))
    assert FileStamps(folder).are_current()


def test_lessons_of_another_filter_are_read(folder):
    with sb.Filter.open(folder) as reader, sb.Filter.open(folder) as writer:
        session = reader._session
        first, rows = session.reading(), session.reading().last()
        assert session.reading(refresh=True) is first
        writer.teach(b"Subject: b\n\npills", "spam")
        assert session.reading(refresh=True) is not first
        assert session.reading(refresh=True).last() == rows + 1
