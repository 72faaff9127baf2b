"""Two trainings of one folder at once, as two processes, one of which may be killed: what the other learnt is there."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

import surebayes as sb
from command_line import SCRIPT, clean_environment, write_mails
from surebayes.filter.state import Transaction
from surebayes.filter.training import _Training

WORDS = ("--views", "words", "--width", "4096", "--reserve", "0.2", "--json")


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """Two disjoint sets of messages, each as (folder of ham, folder of spam)."""
    return [write_mails(tmp_path_factory.mktemp("mails") / str(i), 80, first=1000 * i) for i in range(2)]


def start(folder, half, *words):
    line = [*SCRIPT, "train", "-m", folder, "--ham", half[0], "--spam", half[1], *WORDS, *words]
    return subprocess.Popen(
        list(map(str, line)), env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores it
    )  # fmt: skip


def finished(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def files(half):
    return [path for folder in half for path in sorted(folder.iterdir())]


def assert_knows(folder, halves):
    """Every mail of these halves is learnt or set aside, none twice, and the journal adds up to the model."""
    with sb.Filter.open(folder) as mine:
        assert mine.problems() == []
        status = mine.status()
        known = sum(status["documents"].values()) + sum(status["reserved"].values())
        mails = [path.read_bytes() for half in halves for path in files(half)]
        assert known == len(mails)
        txn = Transaction(mine._session.current_state(), mine._session.reading())
        assert all(txn.known(sb.read_message(raw).fingerprint) is not None for raw in mails)


@pytest.mark.parametrize("journal", ["--journal", "--no-journal"])
def test_two_trainings_started_together(journal, halves, tmp_path):
    running = [start(tmp_path / "f", half, journal) for half in halves]
    results = [finished(process) for process in running]
    for (code, _, err), half in zip(results, halves):
        if code == 75:  # the other one was busy for too long: nothing is lost by saying so
            assert "Another" in err
            code, _, err = finished(start(tmp_path / "f", half, journal))
        assert code == 0, err
    assert_knows(tmp_path / "f", halves)


@pytest.mark.parametrize("is_open", [False, True])
def test_a_filter_is_read_before_the_row_of_a_training_is_in_the_journal(is_open, tmp_path, monkeypatch):
    """A training without journal writes the model, then its rows: who reads between the two waits for them."""
    commit, known = Transaction.commit, []

    def look():
        with sb.Filter.open(tmp_path / "f") if other is None else other as reading:
            known.append((sum(reading.status()["documents"].values()), reading._session.reading().last()))

    looking = threading.Thread(target=look)

    def commit_while_others_look(txn):
        looking.start()
        looking.join(0.3)
        commit(txn)

    with sb.Filter.create(tmp_path / "f", width=4096) as mine:
        other = sb.Filter.open(tmp_path / "f") if is_open else None
        with monkeypatch.context() as slow:
            slow.setattr(Transaction, "commit", commit_while_others_look)
            assert mine.train(mails(40), reserve=0, journal=False)["learnt"] == 40
        looking.join()
        assert known == [(40, mine._session.reading().last())]
        assert mine.problems() == []


def kill_one_of_two(folder, halves, journal, dice):
    survivor, victim = (start(folder, half, journal) for half in halves)
    deadline = time.monotonic() + 60
    while not os.path.exists(folder) and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(dice.uniform(0, 1.0))
    victim.send_signal(signal.SIGKILL)
    finished(victim)
    code, _, err = finished(survivor)
    assert code == 0, err
    with sb.Filter.open(folder) as mine:
        assert mine.problems() == []
        txn = Transaction(mine._session.current_state(), mine._session.reading())
        assert all(txn.known(sb.read_message(path.read_bytes()).fingerprint) for path in files(halves[0]))
    code, _, err = finished(start(folder, halves[1], journal))
    assert code == 0, err
    assert_knows(folder, halves)


@pytest.mark.parametrize("journal", ["--journal", "--no-journal"])
def test_one_of_two_trainings_is_killed(journal, halves, tmp_path):
    kill_one_of_two(tmp_path / "f", halves, journal, random.Random(1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("journal", ["--journal", "--no-journal"])
def test_one_of_two_trainings_is_killed_at_many_moments(journal, seed, halves, tmp_path):
    kill_one_of_two(tmp_path / "f", halves, journal, random.Random(seed))


@pytest.mark.parametrize("journal", ["--journal", "--no-journal"])
def test_one_of_two_trainings_is_interrupted(journal, halves, tmp_path):
    """Ctrl-C takes away a folder that nobody else has learnt into, and no other."""
    survivor = start(tmp_path / "f", halves[0], journal)
    os.mkfifo(tmp_path / "never")  # the other one waits for its documents
    victim = start(tmp_path / "f", (tmp_path / "never", halves[1][1]), journal)
    code, _, err = finished(survivor)
    victim.send_signal(signal.SIGINT)
    finished(victim)
    if code == 75:
        code, _, err = finished(start(tmp_path / "f", halves[0], journal))
    assert code == 0, err
    assert_knows(tmp_path / "f", halves[:1])


# ---------------------------------------------------------------------- experts are weighed once, on what is new


def mails(n, first=0):
    return list(zip(*sb.synthetic.as_lists(n, 5, first=first)))


def texts(n, first=0):
    pairs = (("gold", "spam"), ("tea", "ham"))
    return [(f"{word} number {i} of {7 * i}", label) for i in range(first, first + n // 2) for word, label in pairs]


READERS = [("mail", mails), ("text", texts)]


def frozen(opened):
    """What a training finds besides the counts."""
    engine = opened._session.fresh_state().engine
    return engine.weights, [list(stage.intercepts) for stage in engine.stages]


def assert_same_filter(cut_short, whole, documents):
    assert cut_short.unweighed() == whole.unweighed() == 0
    assert frozen(cut_short) == frozen(whole)
    assert cut_short.status()["documents"] == whole.status()["documents"]
    assert [cut_short.judge(d).score for d, _ in documents] == [whole.judge(d).score for d, _ in documents]
    assert cut_short.problems() == []


class Killed(BaseException):
    pass


def kill(*_, **__):
    raise Killed


@pytest.mark.parametrize("learnt_before", [0, 60])
@pytest.mark.parametrize("transactions", [0, 2, 5, 99])
@pytest.mark.parametrize(("reader", "made"), READERS)
def test_a_training_that_was_cut_short_ends_as_it_would_have(
    reader, made, transactions, learnt_before, tmp_path, monkeypatch
):
    """After some of its batches, or all of them and before the experts are weighed."""
    documents, before = made(180), made(learnt_before, first=1000)
    monkeypatch.setattr("surebayes.filter.training.BATCH", 20)
    whole, cut_short = (sb.Filter.create(tmp_path / name, reader=reader, width=4096) for name in "ab")
    with whole, cut_short:
        for each in (whole, cut_short) if before else ():
            each.train(before, reserve=0)
        whole.train(documents, reserve=0.1)
        transaction, left = cut_short._session.transaction, list(range(transactions))
        with monkeypatch.context() as death:
            death.setattr(cut_short._session, "transaction", lambda: transaction() if left and [left.pop()] else kill())
            death.setattr(_Training, "_fit_weights", kill)
            death.setattr(_Training, "_fit_in_turns", kill)
            with pytest.raises(Killed):
                cut_short.train(documents, reserve=0.1)
        learnt = sum(cut_short.status()["documents"].values()) - learnt_before
        assert cut_short.unweighed() == (learnt if 2 * learnt >= learnt_before else 0)
        cut_short.train(documents, reserve=0.1)
        assert_same_filter(cut_short, whole, documents[:20])


@pytest.mark.parametrize("others", [0, 9])
def test_a_training_is_killed_before_the_experts_are_weighed(others, tmp_path):
    """By a signal; other messages that come next are lessons, and the same messages repair it."""
    program = """
import os, signal, sys
import surebayes as sb
from surebayes.filter.training import _Training
_Training._fit_weights = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
with sb.Filter.create(sys.argv[1], width=4096) as mine:
    mine.train(zip(*sb.synthetic.as_lists(180, 5)), reserve=0.1)
"""
    ended = subprocess.run([sys.executable, "-c", program, tmp_path / "a"], env=clean_environment(), timeout=60)
    assert ended.returncode == -signal.SIGKILL
    with sb.Filter.open(tmp_path / "a") as mine, sb.Filter.create(tmp_path / "b", width=4096) as whole:
        learnt = sum(mine.status()["documents"].values())
        assert mine.unweighed() == learnt > 90
        if others:
            mine.train(mails(others, first=5000), reserve=0)
            assert mine.unweighed() == learnt
        mine.train(mails(180), reserve=0.1)
        assert mine.unweighed() == 0
        if not others:
            whole.train(mails(180), reserve=0.1)
            assert_same_filter(mine, whole, mails(20))


@pytest.mark.parametrize("more", [0, 30])
@pytest.mark.parametrize(("reader", "made"), READERS)
def test_documents_that_another_training_learnt_in_between(reader, made, more, tmp_path, monkeypatch):
    """What the other one weighed and fitted stays: of documents that are new there are too few."""
    documents, late = made(180), made(more, first=1000)[:more]
    decide, seen = _Training.fits_weights, []

    def decide_before_the_other_trains(training, state):
        decided = decide(training, state)
        if not seen:
            seen.append(decided)
            with sb.Filter.open(tmp_path / "f") as other:
                assert other.train(documents, reserve=0)["learnt"] == len(documents)
                seen.append(frozen(other))
        return decided

    monkeypatch.setattr(_Training, "fits_weights", decide_before_the_other_trains)
    with sb.Filter.create(tmp_path / "f", reader=reader, width=4096) as mine:
        done = mine.train(documents + late, reserve=0)
        assert (done["learnt"], done["already"]) == (len(late), len(documents))
        assert sum(mine.status()["documents"].values()) == len(documents) + len(late)
        assert seen[0] is True
        (weights, stages), (weights_now, stages_now) = seen[1], frozen(mine)
        assert (weights_now.bias, stages_now) == (weights.bias, stages)
        assert weights_now == weights or (late and reader == "mail")  # of which some are lessons, with their steps
        assert mine.unweighed() == 0
        assert mine.problems() == []
