"""One set of tests for both journals: the one in a folder, and the one that hosts share."""

import contextlib
import threading

import pytest

from postgres import why_not
from surebayes.errors import BadModel, Busy
from surebayes.filter.shared import database
from surebayes.filter.shared.address import write_url
from surebayes.filter.shared.journal import SharedJournal, name_of
from surebayes.filter.store.events import Event, Lesson, number_rows, row_of
from surebayes.filter.store.journal import Journal

pytestmark = pytest.mark.postgres
GUARD = threading.RLock()


class Backend:
    """A journal that can be opened again, and read by somebody else."""

    def __init__(self, folder, url):
        self.folder, self.url, self.closing = str(folder), url, []
        with contextlib.closing(Journal(self.folder, create=True)) as made:
            if url is not None:
                database.make_tables(url)
                with database.lent(url) as connection:
                    number = database.journal_number(connection, name_of(made.facts), make=True)
                    database.add_facts(connection, number, made.facts)
        if url is not None:
            write_url(self.folder, url)

    def open(self):
        opened = Journal(self.folder) if self.url is None else SharedJournal(self.folder)
        self.closing.append(opened)
        return opened


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request, tmp_path):
    if request.param == "postgres" and why_not():
        pytest.skip(why_not())
    made = Backend(tmp_path, None if request.param == "sqlite" else request.getfixturevalue("url"))
    yield made
    for journal in made.closing:
        journal.close()


def add(journal, *events, blank=()):
    """Add rows as a transaction does."""
    with journal.locked(5, GUARD):
        last = journal.last()
        number_rows(events, last, journal.chain_at(last) or 0)
        journal.begin()
        journal.append_rows([row_of(event) for event in events], blank)
    return [event.seq for event in events]


def lesson(fingerprint, label="ham", body=b"content", **more):
    return Event("learn", fingerprint, label, time=5.5, who="änn", body=body, reader=1, **more)


def fields(events):
    return [(e.seq, e.action, e.fingerprint, e.label, e.source, e.time, e.who, e.reader, e.message_id) for e in events]


def test_rows_come_back_as_they_were_added(backend):
    journal = backend.open()
    name = journal.hashed("<a@example.org>")
    body = bytes(range(256)) * 20
    events = [
        lesson("0a", body=body, message_id=name),
        Event("mark", None, "train", time=0.1 + 0.2),
        Event("learn", "0b", "späm", time=-1.5, body=b""),
        Event("forget", "0a", "ham", 1, time=1e300),
    ]
    assert add(journal, *events) == [1, 2, 3, 4]
    for opened in (journal, backend.open()):
        assert fields(event for event, _ in opened.heads()) == fields(events)
        assert [chain for _, chain in opened.heads()] == [event.chain for event in events]
        assert opened.chain_at(4) == events[3].chain
        assert opened.chain_at(5) is None
        assert opened.last() == 4
        assert list(opened.bodies([1, 3])) == [(body, 1), (b"", None)]
        assert opened.problems() == []


def test_many_rows_are_added_at_once(backend):
    journal = backend.open()
    events = [lesson(f"{i:04x}", body=bytes([i % 256]) * (i % 50)) for i in range(1500)]
    add(journal, *events[:1200])
    add(journal, *events[1200:])
    again = backend.open()
    assert fields(event for event, _ in again.heads()) == fields(events)
    assert again.body(777) == bytes([776 % 256]) * (776 % 50)


def test_the_state_of_a_message_is_that_of_its_last_row(backend):
    journal = backend.open()
    add(journal, lesson("0a"), Event("reserve", "0b", "ham", time=1.0, body=b"x", reader=1))
    assert journal.known("0a") == ("learn", "ham", 1)
    assert journal.known("0b") == ("reserve", "ham", 2)
    assert journal.known("0c") is None
    add(
        journal,
        Event("forget", "0a", "ham", 1, time=2.0),
        lesson("0c", "spam"),
        Event("learn", "0a", "spam", 1, time=3.0),
    )
    assert journal.known("0a") == ("learn", "spam", 1)
    assert journal.known("0c") == ("learn", "spam", 4)
    assert journal.messages() == {"0b": ("reserve", "ham", 2), "0c": ("learn", "spam", 4), "0a": ("learn", "spam", 1)}
    assert journal.lessons() == (2, 3.0)
    assert [event.seq for event in journal.latest("0a")] == [5, 3, 1]
    assert [event.seq for event in journal.latest(limit=2)] == [5, 4]


def test_scores_of_misjudged_messages_and_settings_are_found(backend):
    journal = backend.open()
    add(
        journal,
        lesson("0a"),
        Event("judged", "0a", "ham", time=1.0, body=b"{}"),
        Event("settings", time=2.0, body=b'{"set": {}}'),
    )
    assert journal.judged("0a") == ("ham", 2)
    assert journal.judged("0b") is None
    assert [event.seq for event in journal.of_actions("settings")] == [3]
    assert journal.times("settings") == {3: 2.0}
    add(journal, Event("unjudged", "0a", "ham", 2, time=3.0))
    assert journal.judged("0a") is None


def test_messages_are_found_by_their_message_id(backend):
    journal = backend.open()
    add(journal, lesson("0a", message_id=journal.hashed("<a@example.org>")))
    assert backend.open().fingerprints_of(["<a@example.org>", "<b@example.org>"]) == {"0a"}


def test_erased_content_is_gone_and_says_so(backend):
    journal = backend.open()
    add(journal, lesson("0a"), lesson("0b"))
    add(journal, Event("erase", "0a", "ham", 1, time=9.0), blank=[1])
    for opened in (journal, backend.open()):
        assert opened.erased() == {1}
        assert opened.rows_of("0a") == []
        assert opened.blanked([1, 2]) == {1}
        with pytest.raises(BadModel, match="was erased"):
            opened.body(1)
        assert opened.body(2) == b"content"
        assert opened.problems() == []


def test_facts_are_kept_and_the_last_value_holds(backend):
    journal = backend.open()
    with journal.locked(5, GUARD):
        journal.set_fact("about", "one")
        journal.set_fact("about", "two")
    assert backend.open().facts["about"] == "two"
    assert journal.keeps_content


def test_a_row_out_of_order_is_refused_and_changes_nothing(backend):
    journal, other = backend.open(), backend.open()
    add(journal, lesson("0a"))
    event = lesson("0b")
    number_rows([event], 4, 0)
    with other.locked(5, GUARD):
        other.begin()
        with pytest.raises(Busy, match="without its lock"):
            other.append_rows([row_of(event)])
    assert journal.last() == 1
    add(other, lesson("0c"))
    assert backend.open().last() == 2


def test_an_empty_transaction_leaves_nothing(backend):
    journal = backend.open()
    with journal.locked(5, GUARD):
        assert journal.begin() == 0
        journal.cancel()
        journal.cancel()
    assert add(journal, lesson("0a")) == [1]


def test_a_lesson_of_numpy_and_str_subclasses_is_plain(backend):
    np = pytest.importorskip("numpy")

    class Name(str):
        pass

    journal = backend.open()
    event = Event.of(Lesson(Name("ann"), np.float64(3.25)), "learn", "0a", np.str_("ham"), body=b"x", reader=1)
    add(journal, event)
    found = backend.open().latest()[0]
    assert (found.label, found.who, found.time) == ("ham", "ann", 3.25)
