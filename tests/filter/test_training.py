"""A first training counts all messages at once: the very filter that learns them bit by bit."""

import contextlib
import signal
import subprocess
import sys
import threading

import pytest

import surebayes as sb
from command_line import clean_environment
from surebayes.filter import training
from surebayes.filter.store import journal_file, spool
from surebayes.persist.manifest import read_manifest
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(150, seed=5)]
GIVEN = [*MAILS[:90], MAILS[3], (MAILS[7][0], "ham"), (MAILS[7][0], "spam")]
"""Some twice, and one of both classes."""


def trained(path, monkeypatch, fewest, mails=GIVEN, journal=False, **options):
    """Return a filter that has learnt these messages, whether it counted them at once, and what it said of it."""
    calls = []
    count_first = training.count_first
    monkeypatch.setattr(training, "MIN_AT_ONCE", fewest)
    monkeypatch.setattr(training, "count_first", lambda *args: calls.append(args) or count_first(*args))
    mine = sb.Filter.create(path, **{"width": 2**14, **options})
    steps = []
    done = mine.train(mails, journal=journal, progress=lambda *step: steps.append(step))
    return mine, bool(calls), (done, steps[-1])


def content(path):
    manifest = read_manifest(path)
    scoring = {name: value for name, value in manifest["scoring"].items() if name != "model"}
    return scoring, [entry["sha256"] for name, entry in manifest["files"].items() if name != "pending"]


def journaled(mine):
    """What the journal has of each message, in whatever order; and the last of its rows."""
    rows = mine.history(limit=1000)
    messages = sorted((row["action"], row["fingerprint"], row["label"]) for row in rows if row["fingerprint"])
    return messages, [(row["action"], row["label"]) for row in rows if not row["fingerprint"]]


@pytest.mark.parametrize("model", ["pool", "words"])
@pytest.mark.parametrize("journal", [True, False])
@pytest.mark.parametrize("classes", [("ham", "spam"), ("ham", "spam", "odd")])
def test_the_same_filter_as_bit_by_bit(tmp_path, monkeypatch, classes, journal, model):
    mails = GIVEN if len(classes) == 2 else [*GIVEN, *((raw + b"odd", "odd") for raw, _ in MAILS[90:120])]
    options = {"classes": classes, "journal": journal, "model": model}
    mine, at_once, done = trained(tmp_path / "a", monkeypatch, 1, mails, **options)
    other, bit_by_bit, expected = trained(tmp_path / "b", monkeypatch, 10**9, mails, **options)
    assert (at_once, bit_by_bit) == (True, False)
    assert done == expected
    assert (done[0]["reserved"] > 0) is journal
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert journaled(mine) == journaled(other)
    assert mine.held_out_scores() == other.held_out_scores()
    assert taught_on(mine) == taught_on(other)


def taught_on(mine):
    """The scores of a filter, before and after it is taught more; those of its files are the same."""
    with mine:
        scores = [mine.judge(raw).score for raw, _ in MAILS]
        mine.teach(*MAILS[140])
        scores += [mine.judge(raw).score for raw, _ in MAILS]
        mine.train(MAILS[:110], reserve=0)
        mine.forget(MAILS[100][0])
        after = [mine.judge(raw).score for raw, _ in MAILS]
        assert mine.problems() == []
    with sb.Filter.open(mine.path) as again:
        assert [again.judge(raw).score for raw, _ in MAILS] == after
    return scores + after


def test_messages_that_are_known_or_many_are_learnt_as_before(tmp_path, monkeypatch):
    """Not at once: messages that were learnt before, terms that went to a file, a layer, too many for a transaction."""
    mine, at_once, _ = trained(tmp_path / "known", monkeypatch, 1, MAILS[:20])
    calls = []
    monkeypatch.setattr(training, "count_first", lambda *args: calls.append(args))
    with mine:
        assert at_once
        mine.train(MAILS[:120], journal=False)
        mine.train(MAILS)
    with sb.Filter.create(tmp_path / "base", model="words", width=2**14):
        pass
    with sb.Filter.create(tmp_path / "layer", base=tmp_path / "base") as other:
        other.train(MAILS[:60])
    with monkeypatch.context() as patched, sb.Filter.create(tmp_path / "many", width=2**14) as other:
        patched.setattr(training, "MAX_AT_ONCE", 50)
        other.train(MAILS[:60])
    monkeypatch.setattr(spool, "HELD", 1000)
    with sb.Filter.create(tmp_path / "spilt", width=2**14) as other:
        other.train(MAILS[:60], journal=False)
    assert not calls


def test_what_was_set_aside_is_not_learnt_without_journal(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "MIN_AT_ONCE", 1)
    with sb.Filter.create(tmp_path / "f", width=2**14, model="words") as mine:
        aside = [mail for mail in MAILS if training.is_reserved(mine.judge(mail[0]).fingerprint, 0.3)]
        assert mine.train([m for m in aside if m[1] == "ham"], reserve=0.3)["learnt"] == 0
        ham = sum(label == "ham" for _, label in aside)
        done = mine.train(aside, journal=False)
        assert (done["learnt"], done["already"]) == (len(aside) - ham, ham)


def test_another_training_was_quicker(tmp_path, monkeypatch):
    """Between the look at the filter and the transaction another process trains it: what it learnt is already known."""
    monkeypatch.setattr(training, "MIN_AT_ONCE", 1)
    mine = sb.Filter.create(tmp_path / "f", width=2**14)
    transaction = mine._session.transaction

    def late():
        mine._session.transaction = transaction
        with sb.Filter.open(mine.path) as other:
            other.train(MAILS[:60], reserve=0)
        return transaction()

    mine._session.transaction = late
    with mine:
        done = mine.train(MAILS[:90], reserve=0)
        assert (done["learnt"], done["already"]) == (30, 60)
        assert mine.problems() == []


@pytest.mark.parametrize(
    ("journal", "failing"),
    [
        (True, "surebayes.filter.state.Transaction.commit"),
        (False, "surebayes.filter.store.model_folder.put_manifest"),
    ],
)
def test_a_training_that_fails_has_learnt_nothing(tmp_path, monkeypatch, journal, failing):
    def fails(*args):
        raise OSError("no room")

    monkeypatch.setattr(training, "MIN_AT_ONCE", 1)
    with sb.Filter.create(tmp_path / "f", width=2**14) as mine:
        with monkeypatch.context() as patched:
            patched.setattr(failing, fails)
            with pytest.raises(OSError, match="no room"):
                mine.train(GIVEN, reserve=0, journal=journal)
        assert not mine.history(limit=1000)
        assert sum(mine.status()["documents"].values()) == 0
        assert mine.train(GIVEN, reserve=0, journal=journal)["learnt"] == 89
        assert mine.problems() == []


# ---------------------------------------------------------------------- its rows go right into the journal's file


@pytest.fixture
def modes(monkeypatch):
    """How the first rows of a journal were written: "delete" for right into the file, "wal" for through the log."""
    written = []
    real = journal_file.without_log

    @contextlib.contextmanager
    def noted(connection, folder, wanted=True):
        with real(connection, folder, wanted):
            if wanted:
                written.append(connection.execute("PRAGMA journal_mode").fetchone()[0])
            yield

    monkeypatch.setattr(journal_file, "without_log", noted)
    monkeypatch.setattr(journal_file, "MANY", 50)
    return written


@pytest.mark.parametrize("is_open", [False, True])
def test_first_rows_go_into_the_file_unless_somebody_has_it_open(is_open, modes, tmp_path, monkeypatch):
    other = None
    if is_open:
        sb.Filter.create(tmp_path / "f", width=2**14).close()
        other = journal_file.open_for_writing(str(tmp_path / "f"))
        other.execute("SELECT count(*) FROM events").fetchall()
        mine = sb.Filter.open(tmp_path / "f")
        monkeypatch.setattr(training, "MIN_AT_ONCE", 1)
        mine.train(GIVEN)
    else:
        mine, *_ = trained(tmp_path / "f", monkeypatch, 1, journal=True)
    with mine:
        assert modes == ["wal" if is_open else "delete"]
        assert mine._session.open_journal()._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        mine.teach(*MAILS[100])  # by the log as ever
        assert len(modes) == 1
        assert mine.problems() == []
    if other is not None:
        other.close()
    assert sum(sb.Filter.open(tmp_path / "f").status()["documents"].values()) > 60


class AtTheEnd:
    """A connection that has something done before a transaction ends."""

    def __init__(self, connection, work):
        self.connection, self.work = connection, work

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def execute(self, text, *values):
        if text == "COMMIT":
            self.work()
        return self.connection.execute(text, *values)


def test_who_reads_while_first_rows_go_into_the_file_waits_for_them(modes, tmp_path, monkeypatch):
    seen = []
    looking = threading.Thread(target=lambda: seen.append(journal_rows(tmp_path / "f")))

    def look():
        if looking.ident is None:
            looking.start()
            looking.join(0.3)

    monkeypatch.setattr(training, "MIN_AT_ONCE", 1)
    with sb.Filter.create(tmp_path / "f", width=2**14, model="words") as mine:
        journal = mine._session.open_journal()
        journal._db.execute("PRAGMA cache_size=1")  # rows are in the file before all of them are
        journal._db = AtTheEnd(journal._db, look)
        mine.train(MAILS)
        looking.join()
        assert modes == ["delete"]
        assert seen[0] >= len(MAILS)
        assert mine.problems() == []


def journal_rows(folder):
    connection = journal_file.open_for_reading(str(folder))
    try:
        return connection.execute("SELECT count(*) FROM events").fetchone()[0]
    finally:
        connection.close()


@pytest.mark.parametrize("pages", [2000, 1])
def test_a_process_that_dies_while_first_rows_go_into_the_file_leaves_none(pages, tmp_path):
    """Also where many of them were in the file already."""
    program = f"""
import os, signal, sys
import surebayes as sb
from surebayes.filter import training
from surebayes.filter.store import journal_file
training.MIN_AT_ONCE, journal_file.MANY = 1, 50
class Dying:
    def __init__(self, db): self.db = db
    def __getattr__(self, name): return getattr(self.db, name)
    def execute(self, text, *more):
        if text == "COMMIT": os.kill(os.getpid(), signal.SIGKILL)
        return self.db.execute(text, *more)
mine = sb.Filter.open(sys.argv[1])
opened = mine._session.open_journal()
opened._db.execute("PRAGMA cache_size={pages}")
opened._db = Dying(opened._db)
mine.train(list(zip(*sb.synthetic.as_lists(200, 5))), reserve=0.1)
"""
    sb.Filter.create(tmp_path / "f", width=2**14, model="words").close()
    ended = subprocess.run([sys.executable, "-c", program, tmp_path / "f"], env=clean_environment(), timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert (tmp_path / "f" / "journal.sqlite-journal").exists()
    assert journal_rows(tmp_path / "f") == 0  # of a copy: to read leaves no trace
    assert (tmp_path / "f" / "journal.sqlite-journal").exists()
    with sb.Filter.open(tmp_path / "f") as mine:
        assert mine.status()["documents"] == {"ham": 0, "spam": 0}
        assert mine.problems() == []
        mine.train(MAILS, reserve=0)
        assert sum(mine.status()["documents"].values()) == len(MAILS)
    assert not (tmp_path / "f" / "journal.sqlite-journal").exists()
