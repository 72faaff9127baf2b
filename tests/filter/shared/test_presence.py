"""Reports of the hosts: each sees all others, how far they are, and whether their lessons are the same."""

import time

import pytest
from test_hosts import MAILS, database_of

import surebayes as sb
from surebayes.cli.doctor import _hosts
from surebayes.filter import hosts
from surebayes.filter.receipts import scope_of
from surebayes.filter.shared.presence import described, state_here
from surebayes.filter.store import digest_file

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


def reported(*filters):
    for each in filters:
        hosts.sync_of(each)
    return described(hosts.known_hosts(filters[0].path))


def test_hosts_report_equal_digests(two):
    a, b = two
    a.teach(MAILS[40][0], "spam")
    b.teach(MAILS[41][0], "spam")
    b.forget(MAILS[1][0])
    found = reported(a, b, a)
    assert [host["state"] for host in found] == ["equal", "equal"]
    assert found[0]["digest"] == found[1]["digest"] == a.lesson_digest()["digest"]
    assert sorted(host["this"] for host in found) == [False, True]
    assert all(host["release"] == sb.__version__ and host["seconds"] < 60 for host in found)
    assert [check.state for check in _hosts(a.path)] == ["ok"]
    a.teach(MAILS[42][0], "spam")
    assert sorted(host["state"] for host in reported(a)) == ["behind", "equal"]
    assert "behind at their last report" in _hosts(a.path)[0].detail


def test_a_different_digest_is_reported_everywhere(two, server, url):
    a, b = two
    reported(a, b)
    there = server.sql(database_of(url), "UPDATE surebayes.hosts SET digest = 'other' WHERE slot = 2 RETURNING host")
    assert len(there) == 1
    assert [host["state"] for host in described(hosts.known_hosts(a.path))] == ["different"] * 2
    assert [check.state for check in _hosts(a.path)] == ["problem"]
    a.teach(MAILS[42][0], "spam")  # now at another row, where digests don't show it: the journal does
    reported(a)
    assert [check.state for check in _hosts(a.path)] == ["problem"]


def test_a_follower_reports_and_status_shows_the_hosts(two, monkeypatch):
    from surebayes.filter import following

    monkeypatch.setattr(following, "HEARTBEAT", 0.1)
    monkeypatch.setattr(following, "POLL", 0.2)
    a, b = two
    a.follow()
    b.follow()
    b.teach(MAILS[43][0], "spam")
    end = time.monotonic() + 30
    while [host["state"] for host in a.status()["shared"]["hosts"]] != ["equal"] * 2:
        assert time.monotonic() < end, a.status()["shared"]
        time.sleep(0.05)
    assert {host["row"] for host in a.status()["shared"]["hosts"]} == {a._session.reading(refresh=True).last()}


def test_a_long_journal_is_hashed_in_steps(two, monkeypatch):
    a, _ = two
    monkeypatch.setattr(digest_file, "MOST", 10)
    steps = [reported(a)[0]["digest"] for _ in range(6)]
    assert steps[0] == ""
    assert steps[-1] == a.lesson_digest()["digest"]


def test_a_host_that_left_is_not_listed_and_its_slot_stays_taken(two, tmp_path, url):
    a, b = two
    reported(a, b)
    b.close()
    hosts.unshare(b.path)
    assert [host["this"] for host in reported(a)] == [True]
    hosts.join(str(tmp_path / "c"), url)
    with sb.Filter.open(tmp_path / "c") as c:
        hosts.sync_of(c)
    slots = [slot for (slot,) in _slots(url)]
    assert sorted(slots) == [1, 2, 3]


def _slots(url):
    import psycopg

    with psycopg.connect(url) as connection:
        return connection.execute("SELECT slot FROM surebayes.hosts").fetchall()


def test_a_damaged_hash_is_computed_again(two):
    a, _ = two
    reported(a)
    for damage in (b"", b"x" * 100, b"\xff" * (24 + 2048)):
        with open(f"{a.path}/{digest_file.NAME}", "wb") as file:
            file.write(damage)
        assert reported(a)[0]["digest"] == a.lesson_digest()["digest"]


def test_a_host_that_has_not_erased_is_named(two):
    a, b = two
    for each in two:
        hosts.sync(each._session)
    assert a.not_erased_on() == []
    a.erase(documents=[MAILS[0][0]])
    assert [(host["this"], host["erased"]) for host in a.not_erased_on()] == [(False, False)]
    assert b.not_erased_on() == []  # it doesn't know of the erasure
    hosts.sync(b._session)
    assert a.not_erased_on() == []
    assert {host["erased"] for host in reported(*two)} == {True}


def test_a_host_that_was_killed_before_it_erased_says_so_and_erases_later(two, monkeypatch):
    from surebayes.filter.store.journal import Journal

    a, b = two
    for each in two:
        hosts.sync(each._session)
    a.erase(documents=[MAILS[0][0]])

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "blank", killed)
        with pytest.raises(KeyboardInterrupt):
            b._session.sync()
    path = b.path
    b._session.drop_state()
    row, digest = state_here(path, scope_of(b._session)[0])
    assert (row < a.status()["shared"]["erasure"], digest) == (True, "")
    with sb.Filter.open(path) as again:
        assert again._session.reading().first_not_erased() is not None
        hosts.sync(again._session)
        assert again._session.reading().first_not_erased() is None
    assert a.not_erased_on() == []


def test_verdicts_that_another_host_has_not_erased_count(two):
    a, b = two
    a.remember(always=True)
    raw = MAILS[50][0]
    a.judge(raw)
    for each in (a, b, a, b):
        hosts.sync(each._session)
    assert a.not_erased_on() == []
    assert a.erase_remembered(documents=[raw]) == 1
    assert [host["this"] for host in a.not_erased_on()] == [False]
    hosts.sync(b._session)
    assert a.not_erased_on() == []
