"""Remembered verdicts, budgets and counts of several hosts: what one judges another rescues, and each counts once."""

import os
import random
import time

import pytest
from test_hosts import MAILS, SMALL, assert_alike, database_of

import surebayes as sb
from surebayes.filter import hosts
from surebayes.filter.shared import verdicts
from surebayes.filter.shared.database import forget_failures
from surebayes.filter.verdicts import exchanged
from surebayes.filter.verdicts.memory import Memory

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
HAM = [raw for raw, label in MAILS if label == "ham"]
SPAM = [raw for raw, label in MAILS if label == "spam"]


@pytest.fixture
def two(tmp_path, url):
    """Two hosts that share a journal and a budget."""
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    with sb.Filter.create(a, **SMALL) as made:
        made.train(MAILS[:30], reserve=0.3)
        made.remember(always=True, details=True)
        made.calibrate(budget=0.25, burst=3)
    hosts.share(a, url)
    hosts.join(b, url)
    with sb.Filter.open(a) as first, sb.Filter.open(b) as second:
        yield first, second


def exchanged_by(*filters):
    """Exchange until nobody has anything to send."""
    for _ in range(3):
        for each in filters:
            each._session.sync()
            hosts.exchange(each._session)


def memory_of(one):
    """Return everything that hosts must agree on."""
    memory = one._recorder.memory
    memory.flush()
    rows = memory.database.rows
    names = ", ".join(exchanged.Shown._fields[:-1])
    verdicts = {row[0]: row for row in rows(f"SELECT {names} FROM verdicts ORDER BY id")}
    budgets = rows("SELECT label, place, rate, burst, debt, alarms, negatives, threshold, mute, lift, spare, scored, "
                   "allowed, told, presumed FROM budgets ORDER BY label")  # fmt: skip
    scores = sorted(rows("SELECT label, positive, score FROM scores"))
    counts = "SELECT truth, given, person, documents FROM audits WHERE documents != 0"
    audits = sorted(rows(counts)) if rows("SELECT 1 FROM sqlite_master WHERE name = 'audits'") else []
    contents, theirs = rows("SELECT * FROM contents ORDER BY id"), rows("SELECT * FROM theirs ORDER BY id, field")
    return verdicts, budgets, scores, audits, contents, theirs


def assert_one(*filters):
    exchanged_by(*filters)
    first, *rest = [memory_of(each) for each in filters]
    for other in rest:
        for mine, its in zip(first, other, strict=True):
            assert its == mine
    for each in filters:
        assert not exchanged.waits(each._recorder.memory.database)
    return first


def flagged(one, raw):
    """Judge a message, and make its verdict a potential alarm, whatever the model says."""
    one.judge(raw)
    memory = one._recorder.memory
    with memory.lock, memory.database.writing():
        memory.database.mark("fingerprint = ?", (one.fingerprint(raw),))
        memory.database.run(
            "UPDATE verdicts SET flagged = 1, label = 'spam' WHERE fingerprint = ?", (one.fingerprint(raw),)
        )


def budget(one):
    return one.budgets()["spam"]


def test_a_mail_judged_on_one_host_is_rescued_on_the_other(two):
    a, b = two
    flagged(a, HAM[20])
    assert_one(a, b)
    seen = b.remembered(limit=1)[0]
    assert (seen.fingerprint, seen.label, seen.truth) == (a.fingerprint(HAM[20]), "spam", None)
    assert a.remembered_verdict(seen.id).fingerprint == seen.fingerprint
    assert b.remembered_text(seen.id) == a.remembered_text(seen.id) is not None
    assert budget(b)["in_flight"] == 1
    assert b.rescue(HAM[20]).alarm
    assert_one(a, b)
    assert a.remembered_verdict(seen.id).truth == "ham"
    assert [[budget(each)[name] for name in ("alarms", "debt", "in_flight")] for each in two] == [[1, 1, 0]] * 2
    assert a.audit() == b.audit()
    kinds = [[row["kind"] for row in each.alarms()] for each in two]
    assert kinds[0][:1] == kinds[1][:1] == ["alarm"]


def test_a_verdict_is_labelled_by_its_number_on_any_host(two):
    a, b = two
    a.judge(HAM[21])
    b.judge(HAM[22])
    assert_one(a, b)
    number = a.remembered(limit=1)[0].id
    assert b.set_label(number, "ham") in ("learnt", "noted")
    assert_one(a, b)
    assert a.remembered_verdict(number).truth == "ham"
    assert a.clear_label(number) == "forgotten"
    assert_one(a, b)
    assert b.remembered_verdict(number).truth is None


def test_a_label_of_two_hosts_counts_once(two):
    a, b = two
    flagged(a, HAM[20])
    a.judge(HAM[21])
    assert_one(a, b)
    for each in two:  # neither knows of the other
        each.rescue(HAM[20])
        each.teach(HAM[21], "ham")
    _, budgets, _, audits, *_ = assert_one(a, b)
    assert budgets[0][5:7] == (1, 2)
    assert sum(n for truth, _, _, n in audits if truth) == 2


def test_an_alarm_counts_though_its_label_came_to_a_host_that_had_not_heard_of_it(two):
    a, b = two
    flagged(a, HAM[20])
    b.rescue(HAM[20])
    assert budget(b)["alarms"] == 0
    _, budgets, *_ = assert_one(a, b)
    assert budgets[0][5] == 1
    a.rescue(HAM[20])
    _, budgets, *_ = assert_one(a, b)
    assert budgets[0][5] == 1


def test_the_label_may_come_first(two):
    a, b = two
    b.rescue(HAM[20])
    exchanged_by(b)
    flagged(a, HAM[20])
    _, budgets, *_ = assert_one(a, b)
    assert budgets[0][5] == 1


def test_both_judge_one_mail(two):
    a, b = two
    for each in two:
        each.judge(HAM[23])
    flagged(b, HAM[24])
    a.judge(HAM[24])
    verdicts, *_ = assert_one(a, b)
    assert len({row[1] for row in verdicts.values()}) == len(verdicts)
    both = [row for row in verdicts.values() if row[1] == a.fingerprint(HAM[24])]
    assert [row[6] for row in both] == [1]


def test_silence_pays_back_once(two):
    a, b = two
    flagged(a, HAM[20])
    for raw in HAM[21:27]:
        a.judge(raw)
    assert_one(a, b)
    a.rescue(HAM[20])
    for each in two:
        each.remember(presume_good_after=0.0000001)
        each.judge(HAM[28])
    _, budgets, _, audits, *_ = assert_one(a, b)
    assert budgets[0][-1] == sum(n for truth, *_, n in audits if not truth) >= 7
    assert budget(a)["debt"] == 0


def test_the_words_of_verdicts_from_other_hosts_are_found(two):
    a, b = two
    for i, raw in enumerate(HAM[20:26]):
        (a, b)[i % 2].judge(raw)
    for each in two:
        each.index_verdicts()
    for i, raw in enumerate(SPAM[20:26]):
        (a, b)[i % 2].judge(raw)
    assert_one(a, b)
    for each in two:
        each.index_verdicts()
    word = a.remembered(limit=1)[0].subject.split()[0]
    found = [sorted(v.id for v in each.search(f'subject:"{word}"').verdicts) for each in two]
    assert found[0] == found[1] != []


def test_verdicts_leave_the_database_beyond_the_age_and_the_number_that_hosts_keep(two, server, url, monkeypatch):
    monkeypatch.setattr(verdicts, "_TRIM_EVERY", 1)
    a, b = two
    for raw in HAM[20:26]:
        a.judge(raw)
    assert_one(a, b)

    def stored():
        rows = server.sql(database_of(url), "SELECT fingerprint FROM surebayes.verdicts ORDER BY time DESC")
        return [fingerprint for (fingerprint,) in rows]

    newest = [a.fingerprint(raw) for raw in reversed(HAM[20:26])]
    assert stored() == newest
    facts = Memory.facts
    monkeypatch.setattr(Memory, "facts", lambda memory: facts(memory) | {"keep_most": 4})
    a.judge(HAM[26])
    exchanged_by(a, b)
    assert stored() == [a.fingerprint(HAM[26]), *newest[:3]]
    monkeypatch.setattr(Memory, "facts", lambda memory: facts(memory) | {"keep_days": 0.0})
    a.judge(HAM[27])
    exchanged_by(a, b)
    assert stored() == []


@pytest.mark.parametrize("what", ["documents", "message_ids", "person"])
def test_erased_verdicts_leave_every_host_and_the_database(two, what, server, url):
    a, b = two
    for raw in HAM[20:24]:
        a.judge(raw, person="Ann")
        b.judge(raw, person="Bob")
    b.teach(HAM[21], "ham", person="Ann")
    assert_one(a, b)
    b.judge(HAM[25], person="Ann")  # not sent yet
    b.teach(HAM[25], "ham", person="Ann")
    message_id = next(v.message_id for v in a.remembered(limit=50) if v.fingerprint == a.fingerprint(HAM[20]))
    chosen = {"documents": {"documents": [HAM[20]]}, "message_ids": {"message_ids": [message_id]},
              "person": {"person": "Ann"}}[what]  # fmt: skip
    assert a.erase_remembered(**chosen) > 0
    verdicts, *_ = assert_one(a, b)
    fingerprint = a.fingerprint(HAM[20])
    left = [row for row in verdicts.values() if (row[2] == "Ann" if what == "person" else row[1] == fingerprint)]
    assert left == []
    there = server.sql(database_of(url), "SELECT * FROM surebayes.verdicts")
    assert len(there) == len(verdicts)
    tables = "verdicts", "memory", "notices", "hosts", "layers", "removals"
    everything = str([server.sql(database_of(url), f"SELECT * FROM surebayes.{table}") for table in tables])
    assert ("Ann" in everything) == (what != "person")
    for each in two:
        assert str(each._recorder.memory.database.rows("SELECT * FROM common")).count("Ann") == 0 or what != "person"
    assert a.audit() == b.audit()
    b.judge(HAM[20], person="Ann")  # afterwards it is a verdict like any other
    verdicts, *_ = assert_one(a, b)
    assert len([row for row in verdicts.values() if row[1:3] == (fingerprint, "Ann")]) == 1


@pytest.mark.parametrize("seed", range(int(os.environ.get("SUREBAYES_HISTORIES", "2"))))
def test_random_histories_are_one(two, tmp_path, url, seed):
    dice = random.Random(seed)
    a, b = two
    for step in range(400):
        one, raw = dice.choice(two), dice.choice(HAM[15:30] + SPAM[15:25])
        what = dice.random()
        if what < 0.35:
            one.judge(raw, person=dice.choice([None, "Ann"]))
        elif what < 0.5:
            flagged(one, raw)
        elif what < 0.75:
            one.teach(raw, dice.choice(["ham", "spam"]), person=dice.choice([None, "Ann"]))
        elif what < 0.8 and (known := one.remembered(known=True, limit=5)):
            one.clear_label(dice.choice(known).id)
        elif what < 0.82:
            one.erase_remembered(documents=[raw])
        elif what < 0.83:
            one.erase_remembered(person="Ann")
        elif what < 0.85:
            one.calibrate(budget=dice.choice([0.25, 0.2]), burst=3)
        else:
            one._session.sync()
            hosts.exchange(one._session)
        if step % 50 == 49:
            assert_one(a, b)
    first = assert_one(a, b)
    hosts.join(str(tmp_path / "late"), url)
    with sb.Filter.open(tmp_path / "late") as late:
        assert_one(a, b, late)
        alike = set(budget(a)) - {"in_flight"}  # each host keeps the alarms of erased verdicts for itself
        assert {name: budget(late)[name] for name in alike} == {name: budget(a)[name] for name in alike}
    assert first[1][0][4] >= 0


def test_cut_off_hosts_count_alone_and_agree_again(two, server):
    a, b = two
    for each in two:
        each.judge(HAM[19])
    for place, each in enumerate(two):
        for raw in HAM[20 + 4 * place : 23 + 4 * place]:
            flagged(each, raw)
    assert_one(a, b)
    server.stop()
    try:
        for place, each in enumerate(two):
            for raw in HAM[20 + 4 * place : 23 + 4 * place]:
                each.rescue(raw)
        assert [budget(each)["alarms"] for each in two] == [3, 3]
        assert [budget(each)["mute"] for each in two] == [True, True]
        for each in two:  # at most burst on each: the spent budget flags no more
            assert each.judge(SPAM[10]).label == "ham"
    finally:
        server.start()
        forget_failures()
    _, budgets, *_ = assert_one(a, b)
    assert budgets[0][5] == 6  # hosts x burst
    assert budget(a)["mute"]


def test_a_change_that_arrived_without_an_answer_counts_once(two, monkeypatch):
    a, b = two
    flagged(a, HAM[20])
    assert_one(a, b)
    a.rescue(HAM[20])
    for raw in HAM[21:23]:  # with scores
        a.judge(raw)
        a.teach(raw, "ham")
    with monkeypatch.context() as patch:

        def lost(*_):
            raise OSError("the answer is lost")

        patch.setattr(exchanged, "sent", lost)
        with pytest.raises(OSError, match="lost"):
            hosts.exchange(a._session)
    _, budgets, *_ = assert_one(a, b)
    assert budgets[0][5] == 1


def old_tables(server, url):
    """Make the tables those of the release before verdicts were shared."""
    tables = "verdicts", "memory", "notices", "hosts", "layers", "removals"
    server.sql(database_of(url), *[f"DROP TABLE surebayes.{table}" for table in tables],
               "DELETE FROM surebayes.version WHERE version > 1")  # fmt: skip


def test_with_older_tables_each_host_has_its_own_until_they_are_upgraded(tmp_path, server, url):
    paths = [str(tmp_path / name) for name in "ab"]
    with sb.Filter.create(paths[0], **SMALL) as made:
        made.train(MAILS[:30], reserve=0.3)
    hosts.share(paths[0], url)
    hosts.join(paths[1], url)
    old_tables(server, url)
    for path, raw in zip(paths, HAM[20:22], strict=True):
        with sb.Filter.open(path) as one:
            one.remember(always=True)
            one.calibrate(budget=0.25, burst=3)
            flagged(one, raw)
            assert one.rescue(raw).alarm
            assert hosts.exchange(one._session) == (0, 0, 0)
            assert hosts.sync_of(one)["verdicts"] == 0
    hosts.share(paths[0], url)  # upgrades the tables
    with sb.Filter.open(paths[0]) as a, sb.Filter.open(paths[1]) as b:
        verdicts, budgets, *_ = assert_one(a, b)
        assert len(verdicts) == 2
        assert budgets[0][4:7] == (2 * 2**40, 2, 2)  # debts of before add up


def test_a_host_that_leaves_keeps_its_memory(two, tmp_path):
    a, b = two
    flagged(a, HAM[20])
    assert_one(a, b)
    b.close()
    hosts.unshare(b.path)
    with sb.Filter.open(b.path) as alone:
        assert alone.rescue(HAM[20]).alarm
        assert not Memory(b.path).database.is_exchanged
        alone.remember(presume_good_after=0.0000001)
        alone.judge(HAM[22])
        time.sleep(0.05)
        assert alone.audit()["spam"]["presumed"] == 1


def test_damaged_verdicts_of_the_database_are_refused(two, server, url):
    a, b = two
    a.judge(HAM[20])
    exchanged_by(a)
    for damage in ("[]", "{}", "x", "[" * 5000, '["1"' + ", null" * 19 + "]"):
        server.sql(database_of(url), f"UPDATE surebayes.verdicts SET body = '{damage}'")
        with pytest.raises(sb.errors.BadModel, match="damaged"):
            hosts.exchange(b._session)
        b.judge(HAM[21])


def test_a_clock_that_jumps_loses_nothing(two, monkeypatch):
    dice, real = random.Random(3), time.time
    monkeypatch.setattr(time, "time", lambda: real() + dice.choice([-3, 0, 0, 3]) * 86_400)
    a, b = two
    for raw, label in MAILS[40:60]:
        dice.choice(two).judge(raw)
        dice.choice(two).teach(raw, label)
        if dice.random() < 0.3:
            exchanged_by(dice.choice(two))
    verdicts, *_ = assert_one(a, b)
    monkeypatch.undo()
    assert len({row[1] for row in verdicts.values()}) == 20
    assert_alike(a, b)
    assert all(a.teach(raw, label) == "already" for raw, label in MAILS[40:60])


def test_a_lost_file_of_verdicts_comes_back_with_its_debt(two):
    a, b = two
    flagged(a, HAM[20])
    a.rescue(HAM[20])
    b.judge(HAM[21])
    before = assert_one(a, b)
    b.close()
    for name in ("verdicts.sqlite", "verdicts.sqlite-wal", "verdicts.sqlite-shm"):
        if os.path.exists(f"{b.path}/{name}"):
            os.unlink(f"{b.path}/{name}")
    with sb.Filter.open(b.path) as again:
        with pytest.raises(sb.errors.BadModel, match="debt"):
            again.judge(HAM[22])
        exchanged_by(again)
        again.judge(HAM[22])
        assert budget(again)["debt"] == 1
        verdicts, *rest = assert_one(a, again)
        assert len(verdicts) == len(before[0]) + 1
        assert rest[:3] == list(before[1:4])


def test_threads_that_exchange_at_once_take_each_exchange_in_once(two):
    import threading

    a, b = two
    for raw in HAM[20:30]:
        b.judge(raw)
        b.teach(raw, "ham")
        exchanged_by(b)
    errors, gate, real = [], threading.Barrier(2), exchanged.take_in

    def take():
        try:
            hosts.exchange(a._session)
        except Exception as error:
            errors.append(error)

    def together(*args):
        gate.wait(20)  # both have read the same exchanges
        real(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchanged, "take_in", together)
        threads = [threading.Thread(target=take) for _ in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert not errors
    assert_one(a, b)


def test_scores_of_notices_are_condensed(two, server, url, monkeypatch):
    a, b = two
    for each in two:
        each.calibrate(budget=0.25, burst=3)

    def scores():
        query = "SELECT value FROM surebayes.notices WHERE kind IN ('score', 'scores', 'more scores')"
        return server.sql(database_of(url), query)

    def label(one, raw, truth):
        one.judge(raw)
        one.teach(raw, truth)

    for i, (raw, truth) in enumerate(MAILS[30:60]):
        label(two[i % 2], raw, truth)
        exchanged_by(two[i % 2])
    assert_one(a, b)
    before, many = sum(len(value) for (value,) in scores()), len(scores())
    assert many > 10
    kept = [memory_of(each) for each in two]
    with monkeypatch.context() as patch:
        patch.setattr(verdicts, "_TRIM_EVERY", 1)
        label(a, *MAILS[60])
        exchanged_by(a)
    assert len(scores()) == 1
    assert sum(len(value) for (value,) in scores()) < before
    label(b, *MAILS[61])  # a change of a host that hasn't the condensed scores yet
    assert_one(a, b)
    assert memory_of(a) != kept[0]
    for raw, truth in MAILS[62:66]:
        label(b, raw, truth)
    assert_one(a, b)
    assert a.budgets() == b.budgets()
    rows = [each._recorder.memory.database.rows("SELECT score, positive FROM scores ORDER BY 1, 2") for each in two]
    assert rows[0] == rows[1] != []


def test_labels_are_sent_at_once_and_other_verdicts_together(two, monkeypatch):
    a, _ = two
    one = hosts.exchange_of(a._session)
    one.run()
    assert not one.is_due()
    a.judge(HAM[20])
    a._recorder.memory.flush()
    one._sent = time.monotonic()
    assert not one.is_due()
    a.teach(HAM[20], "ham")
    assert one.is_due()
    one.run()
    assert not one.is_due()
    a.judge(HAM[21])
    a._recorder.memory.flush()
    one._sent = time.monotonic() - verdicts.TOGETHER_FOR
    assert one.is_due()
    one.close()


def test_verdicts_that_arrive_while_others_are_sent_wait_for_the_next_exchange(two, monkeypatch):
    a, b = two
    one, sends, send = hosts.exchange_of(a._session), [], verdicts.Exchange._send
    one.run()

    def sending(self, *more):
        sends.append(send(self, *more))
        a.judge(HAM[21 + len(sends)])
        a._recorder.memory.flush()
        return sends[-1]

    a.judge(HAM[20])
    a._recorder.memory.flush()
    monkeypatch.setattr(verdicts.Exchange, "_send", sending)
    assert one.run() == (0, 1)
    assert sends == [1]
    monkeypatch.undo()
    one.close()
    assert_one(a, b)
