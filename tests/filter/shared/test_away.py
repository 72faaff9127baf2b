"""The database is away, frozen or cut off: judging continues, lessons wait and count once."""

import os
import threading
import time

import pytest
from test_hosts import MAILS, assert_alike

import surebayes as sb
from surebayes.errors import JournalAway, JournalFull
from surebayes.filter import hosts
from surebayes.filter.shared import database, outbox
from surebayes.filter.shared.journal import CommitUnknown

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


def back(server):
    server.start()
    database.forget_failures()


def waiting(one):
    return one.status()["shared"]["waiting"]


def test_lessons_wait_and_are_sent_in_order(two, server):
    a, b = two
    server.stop()
    assert a.teach(MAILS[60][0], "ham") == "waiting"
    assert a.teach(MAILS[60][0], "spam") == "waiting"
    assert a.teach(MAILS[61][0], "ham") == "waiting"
    assert a.forget(MAILS[61][0]) == "waiting"
    assert waiting(a) == 4
    assert a.status()["shared"]["waiting_since"].startswith("20")
    a.judge(MAILS[0][0])
    back(server)
    assert b.teach(MAILS[62][0], "ham") == "learnt"
    assert a.teach(MAILS[62][0], "ham") == "already"
    assert waiting(a) == 0
    b.sync()
    assert [row["label"] for row in b.history(MAILS[60][0]) if row["action"] == "learn"] == ["spam", "ham"]
    assert b.forget(MAILS[61][0]) == "unknown"
    assert b.forget(MAILS[60][0]) == "forgotten"
    assert_alike(a, b)


def test_the_time_and_the_teacher_of_a_lesson_that_waited_are_those_of_the_lesson(two, server):
    a, b = two
    server.stop()
    began = time.time()
    a.teach(MAILS[60][0], "ham", who="ann")
    ended = time.time()
    back(server)
    time.sleep(0.1)
    hosts.sync(a._session)
    event = next(event for event in a._session.reading().latest() if event.action == "learn")
    assert event.who == "ann"
    assert began <= event.time <= ended
    assert_alike(a, b)


def test_waiting_lessons_survive_the_process(two, server, url):
    a, b = two
    server.stop()
    a.teach(MAILS[60][0], "ham")
    a.close()
    back(server)
    with sb.Filter.open(a.path) as again:
        assert hosts.sync(again._session)["sent"] == 1
        assert again.teach(MAILS[60][0], "ham") == "already"
        assert_alike(again, b)


def test_a_lesson_is_counted_once_whatever_is_sent_again(two, server, monkeypatch):
    """The host dies after the commit, before it removes the lesson; another host forgets it in the meantime."""
    a, b = two
    server.stop()
    a.teach(MAILS[60][0], "ham")
    a.forget(MAILS[5][0])  # which comes to a row
    a.forget(MAILS[70][0])  # which comes to none
    back(server)

    def dies(*_):
        raise OSError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(outbox.Outbox, "remove", dies)
        with pytest.raises(OSError, match="killed"):
            a.teach(MAILS[61][0], "ham")
    assert waiting(a) == 3
    assert b.forget(MAILS[60][0]) == "forgotten"
    b.teach(MAILS[70][0], "ham")
    b.teach(MAILS[5][0], "spam")
    assert a.teach(MAILS[61][0], "ham") == "already"
    assert waiting(a) == 0
    assert a.forget(MAILS[60][0]) == "unknown"
    assert a.forget(MAILS[70][0]) == "forgotten"
    assert a.forget(MAILS[5][0]) == "forgotten"
    assert_alike(a, b)


def test_a_lesson_that_changed_nothing_is_not_repeated_either(two, server, monkeypatch):
    """It came to no row, and the host died before it removed the lesson: the message is another host's now."""
    a, b = two
    server.stop()
    a.forget(MAILS[70][0])
    back(server)

    def dies(*_):
        raise OSError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(outbox.Outbox, "remove", dies)
        with pytest.raises(OSError, match="killed"):
            hosts.sync(a._session)
    assert b.teach(MAILS[70][0], "ham") == "learnt"
    hosts.sync(a._session)
    assert waiting(a) == 0
    assert a.forget(MAILS[70][0]) == "forgotten"
    assert_alike(a, b)


@pytest.mark.parametrize("arrived", [True, False])
def test_a_commit_that_is_cut_off_counts_once(two, server, monkeypatch, arrived):
    a, b = two
    append = database.append

    def cut(connection, *args):
        if arrived:
            append(connection, *args)
        connection.close()
        raise database.psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(database, "append", cut)
    outcome = a.teach(MAILS[60][0], "ham")
    assert outcome == ("learnt" if arrived else "waiting")
    monkeypatch.setattr(database, "append", append)
    database.forget_failures()
    assert a.teach(MAILS[61][0], "ham") == "learnt"
    assert waiting(a) == 0
    b.sync()
    assert len(b.history(MAILS[60][0])) == 1
    assert_alike(a, b)


@pytest.mark.parametrize("arrived", [True, False])
def test_a_commit_of_which_nobody_knows_counts_once(two, server, monkeypatch, arrived):
    """The connection broke during the commit, and the database stays away afterwards."""
    a, b = two
    append, lent = database.append, database.lent

    def cut(connection, *args):
        if arrived:
            append(connection, *args)
        connection.close()
        monkeypatch.setattr(database, "lent", gone)
        raise database.psycopg.OperationalError("server closed the connection unexpectedly")

    def gone(*_):
        raise JournalAway("gone")

    monkeypatch.setattr(database, "append", cut)
    assert a.teach(MAILS[60][0], "ham") == "waiting"
    monkeypatch.setattr(database, "append", append)
    monkeypatch.setattr(database, "lent", lent)
    (lesson,) = outbox.Outbox(a.path).lessons()
    assert lesson.commit is not None
    b.sync()
    assert b.forget(MAILS[60][0]) == ("forgotten" if arrived else "unknown")
    a.teach(MAILS[61][0], "ham")
    assert waiting(a) == 0
    assert a.forget(MAILS[60][0]) == ("unknown" if arrived else "forgotten")
    assert_alike(a, b)


def test_an_unknown_commit_names_its_row():
    error = CommitUnknown("gone", (1, 2, 3))
    assert isinstance(error, JournalAway)
    assert error.row == (1, 2, 3)


def test_lessons_are_refused_where_the_settings_say_so_or_the_room_is_used_up(two, server, monkeypatch):
    a, _ = two
    with open(os.path.join(a.path, "config.toml"), "w") as file:
        file.write('when_away = "refuse"\n')
    server.stop()
    try:
        with pytest.raises(JournalAway, match="can't be reached"):
            a.teach(MAILS[60][0], "ham")
        with open(os.path.join(a.path, "config.toml"), "w") as file:
            file.write("waiting_bytes = 1100\n")
        assert a.forget(MAILS[60][0]) == a.forget(MAILS[61][0]) == "waiting"
        with pytest.raises(JournalAway, match="waiting_bytes"):
            a.forget(MAILS[62][0])
        with pytest.raises(JournalAway, match="waiting_bytes"):
            a.teach(MAILS[62][0], "ham")
        assert waiting(a) == 2
        with pytest.raises(JournalAway):
            a.erase(documents=[MAILS[0][0]])
        with pytest.raises(JournalAway):
            a.rollback(3)
    finally:
        back(server)
    hosts.sync(a._session)
    assert waiting(a) == 0


def test_a_full_database_keeps_lessons_too(two, server, url):
    a, b = two
    name = url.split("?")[0].rsplit("/", 1)[1]
    server.sql(
        name,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$",
        "CREATE TRIGGER full_disk BEFORE INSERT ON surebayes.events EXECUTE FUNCTION full_disk()",
    )
    assert a.teach(MAILS[60][0], "ham") == "waiting"
    with pytest.raises(JournalFull, match="No space left"):
        a.calibrate(0.5, 0.5)
    server.sql(name, "DROP TRIGGER full_disk ON surebayes.events")
    assert a.teach(MAILS[61][0], "ham") == "learnt"
    assert waiting(a) == 0
    assert_alike(a, b)


def test_a_frozen_server_holds_up_no_verdict(two, server, monkeypatch):
    monkeypatch.setattr(database.BoundedConnection, "patience", 2.0)
    monkeypatch.setattr(database, "PATIENCE", 2.0)
    a, b = two
    b.follow()
    a.teach(MAILS[59][0], "ham")
    slowest, outcomes = 0.0, []
    with server.frozen():
        teaching = threading.Thread(target=lambda: outcomes.append(a.teach(MAILS[60][0], "ham")))
        teaching.start()
        end = time.monotonic() + 30
        while teaching.is_alive() and time.monotonic() < end:
            for one in (a, b):
                began = time.monotonic()
                one.judge(MAILS[0][0])
                slowest = max(slowest, time.monotonic() - began)
        teaching.join(60)
    assert outcomes == ["waiting"]
    assert slowest < 2.0
    database.forget_failures()
    hosts.sync(a._session)
    assert waiting(a) == 0
    assert_alike(a, b)


def test_judging_uses_the_files_while_a_commit_hangs(two):
    a, _ = two
    expected = a.judge(MAILS[0][0]).score
    a._session.current_state()
    ready, stop = threading.Event(), threading.Event()

    def hang():
        with a._session.mutex:
            ready.set()
            stop.wait(20)

    thread = threading.Thread(target=hang)
    thread.start()
    ready.wait()
    try:
        began = time.monotonic()
        assert a.judge(MAILS[0][0]).score == expected
        assert time.monotonic() - began < 15
    finally:
        stop.set()
        thread.join()


def test_a_follower_sends_what_waited(two, server):
    a, b = two
    server.stop()
    a.teach(MAILS[60][0], "ham")
    back(server)
    a.follow()
    end = time.monotonic() + 30
    while waiting(a) and time.monotonic() < end:
        time.sleep(0.05)
    assert waiting(a) == 0
    b.sync()
    assert b.history(MAILS[60][0])
