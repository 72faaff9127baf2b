"""Transactions: several threads share a commit, a failing one harms nobody, and nothing uncommitted is ever read."""

import random
import threading
import time

import pytest

import surebayes as sb
from surebayes.filter.session import HandoverLock
from surebayes.filter.state import Transaction
from surebayes.synthetic import as_lists

SMALL = {"width": 2**12, "model": "words"}
MAILS = list(zip(*as_lists(120, seed=9)))


class Refused(Exception):
    """A lesson that is refused on purpose."""


def in_threads(work, count):
    errors = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    return errors


@pytest.mark.parametrize("seed", range(6))
def test_threads_that_fail_at_random_harm_nobody(tmp_path, seed, monkeypatch):
    """Each thread learns, is refused before a change, or fails after one; exactly the lessons that ended are learnt."""
    ended, lock = [], threading.Lock()
    commits = []
    commit = Transaction.commit

    def counted(txn):
        commits.append(len(txn.rows))
        commit(txn)

    monkeypatch.setattr(Transaction, "commit", counted)

    def work(number):
        chosen = random.Random(1000 * seed + number)
        for i in range(number, len(MAILS), 6):
            raw, label = MAILS[i]
            kind = chosen.choice(["learn", "learn", "learn", "refuse", "fail"])
            try:
                with session.transaction() as txn:
                    if kind == "refuse":
                        raise Refused
                    assert txn.learn(txn.state.features_of(raw), label) == "learnt"
                    if kind == "fail":
                        raise Refused
            except Refused:
                assert kind != "learn"
            else:
                with lock:
                    ended.append(i)

    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        session = mine._session
        assert in_threads(work, 6) == []
        assert sum(mine.status()["documents"].values()) == len(ended)
        assert mine.problems() == []
        assert not session.mutex.is_mine
    with sb.Filter.open(tmp_path / "f") as mine:
        assert sum(mine.status()["documents"].values()) == len(ended)
        assert mine.problems() == []
        assert all(mine.teach(*MAILS[i]) == "already" for i in ended)
    with sb.Filter.create(tmp_path / "g", **SMALL) as alone:
        for i in sorted(ended, reverse=True):
            alone.teach(*MAILS[i])
        with sb.Filter.open(tmp_path / "f") as mine:
            assert [mine.judge(raw).score for raw, _ in MAILS] == [alone.judge(raw).score for raw, _ in MAILS]


def test_waiting_threads_share_a_commit(tmp_path, monkeypatch):
    commits = []
    commit = Transaction.commit

    def counted(txn):
        commits.append(len(txn.rows))
        commit(txn)

    monkeypatch.setattr(Transaction, "commit", counted)
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        session = mine._session

        def work(number):
            with session.transaction() as txn:
                txn.learn(txn.state.features_of(MAILS[number][0]), MAILS[number][1])

        with session.turn:
            threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            while session._waiting < 8:
                time.sleep(0.001)
        for thread in threads:
            thread.join(60)
        assert commits == [8]


@pytest.mark.parametrize("failing", [1, 2])
def test_nothing_uncommitted_is_ever_read(tmp_path, monkeypatch, failing):
    """While a commit fails, other threads judge: each verdict is that of the filter before the lessons."""
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        for raw, label in MAILS[:20]:
            mine.teach(raw, label)
        session, before = mine._session, mine.judge(MAILS[0][0]).score
        asked, stop = [], threading.Event()

        def fails(txn):
            time.sleep(0.05)
            raise OSError(28, "No space left on device")

        def look():
            while not stop.is_set():
                asked.append(mine.judge(MAILS[0][0], remember=False).score)

        def work(number):
            with session.transaction() as txn:
                txn.learn(txn.state.features_of(MAILS[30 + number][0]), MAILS[30 + number][1])
                time.sleep(0.02)

        looking = threading.Thread(target=look)
        looking.start()
        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "commit", fails)
            errors = in_threads(work, failing)
        stop.set()
        looking.join(60)
        assert [type(error) for error in errors] == [OSError] * failing
        assert set(asked) == {before}
        assert mine.problems() == []


def test_an_interrupted_thread_leaves_its_transaction_to_the_next(tmp_path):
    """Ctrl-C between a lesson and its commit: whoever comes next commits it."""
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        session = mine._session
        session._waiting += 1  # as if a thread were about to join, which never comes
        done = []

        def work(number):
            with session.transaction() as txn:
                txn.learn(txn.state.features_of(MAILS[0][0]), MAILS[0][1])
            done.append(number)

        assert in_threads(work, 1) == []
        session._waiting -= 1
        assert done == [0]
        assert mine.teach(*MAILS[0]) == "already"


def test_exclusive_work_waits_for_the_open_transaction(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        session = mine._session
        session._waiting += 1
        thread = threading.Thread(target=lambda: mine.teach(*MAILS[0]))
        thread.start()
        with session.exclusive():
            state = session.ready_to_write()
            assert sum(state.engine.documents) in (0, 1)
        session._waiting -= 1
        thread.join(60)
        assert mine.teach(*MAILS[0]) == "already"


def test_one_session_of_many_threads_and_a_second_process_agree(tmp_path):
    """Two sessions of one folder, four threads each."""
    sb.Filter.create(tmp_path / "f", **SMALL).close()
    first, second = sb.Filter.open(tmp_path / "f"), sb.Filter.open(tmp_path / "f")

    def work(number):
        mine = (first, second)[number % 2]
        for i in range(number, len(MAILS), 8):
            assert mine.teach(*MAILS[i]) == "learnt"

    with first, second:
        assert in_threads(work, 8) == []
        for mine in (first, second):
            mine.absorb()
        assert first.status()["documents"] == second.status()["documents"]
        assert sum(first.status()["documents"].values()) == len(MAILS)
        assert first.problems() == second.problems() == []


def test_a_lock_is_handed_over():
    lock, order = HandoverLock(), []
    with lock:
        with lock:
            assert lock.is_mine
        lock.hand_over()
        assert not lock.is_mine

        def next_one():
            lock.take_over()
            order.append("second")
            lock.__exit__()

        waiting = threading.Thread(target=lambda: (lock.__enter__(), order.append("third"), lock.__exit__()))
        waiting.start()
        time.sleep(0.05)
        assert order == []
        thread = threading.Thread(target=next_one)
        thread.start()
        thread.join(10)
        waiting.join(10)
        assert order == ["second", "third"]
        lock.__enter__()  # the block's end releases it


@pytest.mark.parametrize("opened_to_write", [False, True])
def test_a_session_writes_nothing_into_a_folder_that_replaced_its_own(tmp_path, opened_to_write):
    """As with a person who is forgotten and taught again: an old session must not touch the new folder."""
    from surebayes.errors import BadModel

    path, other = tmp_path / "mine", tmp_path / "other"
    with sb.Filter.create(path, **SMALL) as old:
        if opened_to_write:
            old.teach(*MAILS[0])
        state = old._session.loaded_state()
        path.rename(tmp_path / "gone")
        with sb.Filter.create(other, **SMALL) as made:
            made.absorb()
        other.rename(path)
        manifest = (path / "manifest.json").read_bytes()
        for change in (lambda: old.teach(*MAILS[1]), lambda: old.absorb("a note"), old._session.absorb):
            old._session.state = state
            with pytest.raises(BadModel, match="replaced"):
                change()
            assert (path / "manifest.json").read_bytes() == manifest
        path.rename(other)
        (tmp_path / "gone").rename(path)
        old._session.drop_state()
    with sb.Filter.open(other) as made:
        assert made.teach(*MAILS[0]) == "learnt"
