"""Filters of several hosts: what one learns, the rest take over, to the same bits."""

import os
import random
import threading

import pytest

import surebayes as sb
from surebayes.errors import BadInput, BadModel, Busy, JournalAway
from surebayes.filter import hosts
from surebayes.filter.shared import database
from surebayes.filter.store.journal_file import is_shared
from surebayes.synthetic import mail_stream

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
MAILS = [(mail.raw, mail.label) for mail in mail_stream(80, seed=9)]
SMALL = {"model": "words", "width": 2**12}
OWN = ("journal.sqlite", "journal.url", "host.id", "lessons.hash", "lock", "config.toml", "waiting.sqlite",
       "verdicts.sqlite", "verdicts.sqlite-wal", "verdicts.sqlite-shm")  # fmt: skip


def trained(path, mails=MAILS[:30], **more):
    with sb.Filter.create(path, **{**SMALL, **more}) as made:
        made.train(mails)


def files(path):
    """Return the files of a model, and all rows of the journal."""
    from surebayes.filter.store.journal import Journal

    found = {}
    for name in sorted(set(os.listdir(path)) - set(OWN) - {"journal.sqlite-wal", "journal.sqlite-shm"}):
        with open(os.path.join(path, name), "rb") as file:
            found[name] = file.read()
    journal = Journal(path, write=False)
    rows = [row for chunk in journal.rows_after(0, 1000) for row in chunk]
    journal.close()
    return found, rows


def settled(*filters):
    """Bring filters to one row and one file of tables; return what is on their disks."""
    for each in filters:
        each.absorb()
    for each in filters:
        each._session.sync()
        each.compact()
    return [files(each.path) for each in filters]


def database_of(url):
    return url.split("?")[0].rsplit("/", 1)[1]


def assert_alike(*filters):
    first, *rest = settled(*filters)
    for other in rest:
        assert other[1] == first[1]
        assert other[0] == first[0]
    scores = [[each.judge(raw).score for raw, _ in MAILS] for each in filters]
    assert all(score == scores[0] for score in scores)


def test_lessons_of_one_host_reach_the_other(two):
    a, b = two
    assert a.teach(MAILS[40][0], MAILS[40][1]) == "learnt"
    assert b.teach(MAILS[40][0], MAILS[40][1]) == "already"
    assert b.teach(MAILS[41][0], "spam") == "learnt"
    assert a.teach(MAILS[41][0], "ham") == "moved"
    assert b.forget(MAILS[41][0]) == "forgotten"
    assert a.forget(MAILS[41][0]) == "unknown"
    b._session.sync()
    assert a.judge(MAILS[0][0]).score == b.judge(MAILS[0][0]).score
    assert_alike(a, b)


def test_a_lesson_is_visible_after_a_sync_without_opening_again(two):
    a, b = two
    raw, label = MAILS[50]
    before = b.judge(raw).score
    a.teach(raw, label)
    assert b.judge(raw).score == before
    assert b._session.sync() == 1
    assert b.judge(raw).score == a.judge(raw).score != before


def test_a_follower_takes_lessons_over_within_a_second(two, server):
    import time

    a, b = two
    b.follow()
    raw, _label = MAILS[50]
    for round_ in range(3):
        if round_ == 1:
            server.cut()
            time.sleep(2)
        before, began = b.judge(raw).score, time.monotonic()
        a.teach(raw, ("ham", "spam")[round_ % 2])
        while b.judge(raw).score == before:
            time.sleep(0.005)
            assert time.monotonic() - began < 20
        assert b.judge(raw).score == a.judge(raw).score
    assert b._follower.problem == ""


def test_a_follower_survives_a_restart_of_the_server(two, server):
    import time

    a, b = two
    b.follow()
    server.stop()
    end = time.monotonic() + 20
    while not b._follower.problem and time.monotonic() < end:
        time.sleep(0.05)
    assert "can't be reached" in b._follower.problem
    server.start()
    database.forget_failures()
    a.teach(MAILS[50][0], "spam")
    while b._follower.problem or b._session.reading().last() < a._session.reading().last():
        time.sleep(0.05)
        assert time.monotonic() < end + 20
    assert_alike(a, b)


def test_settings_thresholds_and_rollbacks_are_shared(two, tmp_path):
    a, b = two
    version = a.versions()[0]["version"]
    for raw, label in MAILS[30:40]:
        a.teach(raw, label)
    b.calibrate(0.5, 0.5)
    assert_alike(a, b)
    assert a._session.current_state().settings.to_json() == b._session.current_state().settings.to_json()
    b.rollback(version)
    assert_alike(a, b)
    assert a.judge(MAILS[3][0]).threshold == b.judge(MAILS[3][0]).threshold


def test_a_host_that_joins_late_has_the_same_files(two, tmp_path, url):
    a, b = two
    for i, (raw, label) in enumerate(MAILS[30:60]):
        (a, b)[i % 2].teach(raw, label)
    a.erase(documents=[MAILS[33][0]])
    b.forget(MAILS[34][0])
    hosts.join(str(tmp_path / "c"), url)
    with sb.Filter.open(tmp_path / "c") as c:
        assert_alike(a, b, c)
        assert c.problems() == [] == b.problems()


def test_erased_content_leaves_every_copy(two):
    a, b = two
    for raw, label in MAILS[30:40]:
        a.teach(raw, label)
    b._session.sync()
    gone = MAILS[35][0]
    body = b._session.reading().rows_of(b.history(gone)[0]["fingerprint"])
    assert len(body) == 1
    a.erase(documents=[gone])
    b._session.sync()
    assert b._session.reading().blanked([body[0].seq]) == {body[0].seq}
    assert b.forget(gone) == "unknown"
    b.absorb()
    kept = b._session.open_journal()
    kept.settle()
    with open(kept.path, "rb") as file:
        assert len(file.read()) > 0
    assert_alike(a, b)
    assert a.problems() == [] == b.problems()


@pytest.mark.parametrize("behind", [0, 3, 8])
def test_a_message_erased_while_a_host_was_away_is_never_read_there(two, behind):
    """The host has `behind` of the rows; the content of the rest was erased before it came."""
    a, b = two
    chosen = MAILS[40:48]
    for i, (raw, label) in enumerate(chosen):
        if i == behind:
            b._session.sync()
        a.teach(raw, label)
    a.teach(chosen[1][0], "ham" if chosen[1][1] == "spam" else "spam")
    a.erase(documents=[chosen[1][0], chosen[4][0], chosen[7][0]])
    a.teach(chosen[4][0], chosen[4][1])
    assert_alike(a, b)
    assert a.problems() == [] == b.problems()


def test_random_histories_are_equal_to_one_machine(two, tmp_path, url):
    dice = random.Random(7)
    for _ in range(120):
        one, (raw, _label) = dice.choice(two), dice.choice(MAILS[20:60])
        what = dice.random()
        if what < 0.6:
            one.teach(raw, dice.choice(["ham", "spam"]))
        elif what < 0.75:
            one.forget(raw)
        elif what < 0.8:
            one.erase(documents=[raw])
        elif what < 0.9:
            one._session.sync()
        else:
            one.absorb("x" if what > 0.95 else None)
    assert_alike(*two)
    counted = two[0]._session.loaded_state()
    assert two[0].problems() == []
    hosts.join(str(tmp_path / "late"), url)
    with sb.Filter.open(tmp_path / "late") as late:
        assert late._session.loaded_state().engine.documents == counted.engine.documents
        assert_alike(*two, late)


def test_threads_of_both_hosts_teach_at_once(two):
    a, b = two
    errors = []

    def teach(one, start):
        try:
            for raw, label in MAILS[start::4]:
                one.teach(raw, label)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=teach, args=((a, b)[i % 2], i)) for i in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not errors
    assert_alike(a, b)
    assert sum(a.status()["documents"].values()) == len(MAILS) - sum(a.status()["reserved"].values())


def test_moving_is_repeatable_and_goes_both_ways(tmp_path, url):
    a = str(tmp_path / "a")
    trained(a)
    before = files(a)
    first = hosts.share(a, url)
    assert first["moved"] == first["rows"]
    assert is_shared(a)
    again = hosts.share(a, url)
    assert again["moved"] == 0
    assert again["rows"] >= first["rows"]
    hosts.unshare(a)
    assert not is_shared(a)
    assert files(a)[1][: len(before[1])] == before[1]
    with sb.Filter.open(a) as alone:
        assert alone.teach(MAILS[60][0], MAILS[60][1]) == "learnt"
    back = hosts.share(a, url)  # nobody else has added a row
    assert back["moved"] >= 1


def test_an_interrupted_move_continues(tmp_path, url, monkeypatch):
    a = str(tmp_path / "a")
    trained(a)
    monkeypatch.setattr(database, "CHUNK", 7)
    append, calls = database.append, []

    def fails(*args):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        append(*args)

    monkeypatch.setattr(database, "append", fails)
    with pytest.raises(KeyboardInterrupt):
        hosts.share(a, url)
    assert not is_shared(a)
    monkeypatch.setattr(database, "append", append)
    done = hosts.share(a, url)
    assert done["rows"] - done["moved"] == 14
    hosts.join(str(tmp_path / "b"), url)
    with sb.Filter.open(a) as one, sb.Filter.open(tmp_path / "b") as two:
        assert_alike(one, two)


def test_copies_that_both_learnt_are_refused(tmp_path, url):
    import shutil

    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    trained(a)
    shutil.copytree(a, b)
    with sb.Filter.open(b) as other:
        other.teach(MAILS[70][0], MAILS[70][1])
    hosts.share(a, url)
    with sb.Filter.open(a) as one:
        one.teach(MAILS[71][0], MAILS[71][1])
    with pytest.raises(BadInput, match="different rows"):
        hosts.share(b, url)
    assert not is_shared(b)


def test_a_copy_of_the_folder_joins_by_moving(tmp_path, url):
    import shutil

    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    trained(a)
    shutil.copytree(a, b)
    hosts.share(a, url)
    with sb.Filter.open(a) as one:
        one.teach(MAILS[71][0], MAILS[71][1])
        hosts.share(b, url)
        with sb.Filter.open(b) as other:
            assert_alike(one, other)


def test_messages_learnt_without_a_journal_cannot_be_shared(tmp_path, url):
    a = str(tmp_path / "a")
    with sb.Filter.create(a, **SMALL) as made:
        made.train(MAILS[:30], journal=False)
    with pytest.raises(BadInput, match="without a journal"):
        hosts.share(a, url)
    assert not is_shared(a)


def test_a_database_restored_from_an_older_copy_is_noticed(two, server, url):
    a, _b = two
    a.teach(MAILS[60][0], MAILS[60][1])
    rows = "surebayes.events WHERE seq > 25"
    server.sql(database_of(url), f"CREATE TABLE newer AS SELECT * FROM {rows}", f"DELETE FROM {rows}")
    with pytest.raises(BadModel, match="is not the one"):
        a.teach(MAILS[61][0], MAILS[61][1])
    assert a.judge(MAILS[0][0]).score is not None
    server.sql(database_of(url), "INSERT INTO surebayes.events SELECT * FROM newer")
    assert a.teach(MAILS[61][0], MAILS[61][1]) == "learnt"


def test_other_rows_than_those_of_the_copy_are_noticed(two, server, url):
    a, _b = two
    last = a._session.reading().last()
    server.sql(database_of(url), f"UPDATE surebayes.events SET chain = chain + 1 WHERE seq = {last}")
    with pytest.raises(BadModel, match="is not the one"):
        a.teach(MAILS[61][0], MAILS[61][1])
    server.sql(database_of(url), f"UPDATE surebayes.events SET chain = chain - 1 WHERE seq = {last}")
    assert a.teach(MAILS[61][0], MAILS[61][1]) == "learnt"


def test_a_damaged_row_in_the_database_is_refused(two, server, url):
    a, b = two
    row = a._session.reading().last() + 1
    a.teach(MAILS[60][0], MAILS[60][1])
    server.sql(database_of(url), f"UPDATE surebayes.events SET label = 'spa' WHERE seq = {row}")
    before = b.judge(MAILS[0][0]).score
    with pytest.raises(BadModel, match="damaged or missing"):
        b._session.sync()
    assert b.judge(MAILS[0][0]).score == before
    server.sql(database_of(url), f"UPDATE surebayes.events SET label = '{MAILS[60][1]}' WHERE seq = {row}")
    assert b._session.sync() == 1


def test_without_the_database_judging_continues_and_what_needs_it_says_so(two, server):
    a, b = two
    server.stop()
    try:
        assert a.judge(MAILS[0][0]).label in ("ham", "spam")
        with pytest.raises(JournalAway, match="can't be reached"):
            a.rollback(3)
        assert isinstance(JournalAway(""), Busy)
        a.absorb()
    finally:
        server.start()
        database.forget_failures()
    assert a.forget(MAILS[0][0]) in ("forgotten", "unknown")
    assert_alike(a, b)


def test_a_running_process_notices_that_its_journal_was_moved(tmp_path, url):
    a = str(tmp_path / "a")
    trained(a)
    with sb.Filter.open(a) as running:
        running.teach(MAILS[60][0], MAILS[60][1])
        hosts.share(a, url)
        running.teach(MAILS[61][0], MAILS[61][1])
        hosts.join(str(tmp_path / "b"), url)
        with sb.Filter.open(tmp_path / "b") as other:
            assert other.history(MAILS[61][0])
            assert_alike(running, other)
