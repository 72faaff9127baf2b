"""Killed at any moment, damaged in any place: nothing that was acknowledged is lost, nothing is silently wrong."""

import os
import random
import shutil
import signal
import time
import warnings

import pytest

import surebayes as sb
from surebayes.errors import StoreError
from surebayes.filter.model import Model
from surebayes.filter.store.journal import Journal
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(60, seed=9)]
SMALL = {"model": "words", "width": 2**12}

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


def write_line(pipe, *words):
    os.write(pipe, (" ".join(map(str, words)) + "\n").encode())


def live(path, seed, pipe):
    """What the victim does: say what it is about to do, do it, say that it is done; until it is killed."""
    dice = random.Random(seed)
    mine = sb.Filter.open(path)
    while True:
        i, what = dice.randrange(len(MAILS)), dice.random()
        if what < 0.55:
            label = dice.choice(["ham", "spam"])
            write_line(pipe, "begin", i, label)
            mine.teach(MAILS[i][0], label)
            write_line(pipe, "done", i, label)
        elif what < 0.8:
            write_line(pipe, "begin", i, "forget")
            mine.forget(MAILS[i][0])
            write_line(pipe, "done", i, "forget")
        elif what < 0.93:
            mine.absorb("for the sake of it")
        elif what < 0.97:
            mine.close()
            mine = sb.Filter.open(path)
        else:
            mine.judge(MAILS[i][0])


def fork():
    with warnings.catch_warnings():  # Python 3.12 warns of threads, which the test runner has and the child doesn't use
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def kill_one(path, seed, delay, since):
    """Let a victim live for a while, counted from when it said a word, or from its birth; return what it said."""
    reading, writing = os.pipe()
    child = fork()
    if child == 0:  # pragma: no cover - it never comes back
        os.close(reading)
        try:
            live(path, seed, writing)
        finally:
            os._exit(13)
    os.close(writing)
    output = b""
    while since not in output:  # which may take seconds where others use the machine
        chunk = os.read(reading, 65536)
        assert chunk, "the victim died of something else"
        output += chunk
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    while chunk := os.read(reading, 65536):
        output += chunk
    os.close(reading)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the victim died of something else"
    return [line.split() for line in output.decode().splitlines()]


def survive(path, kills, longest):
    """Kill so many victims; after each, compare what is known with what was acknowledged."""
    sb.Filter.create(path, **SMALL).close()
    dice, known, done = random.Random(4), {}, 0
    fingerprints = [sb.read_message(raw).fingerprint for raw, _ in MAILS]
    for kill in range(kills):
        output = kill_one(path, kill, dice.uniform(0.005, longest), since=(b"", b"begin", b"done", b"done")[kill % 4])
        for words in output:
            if words[0] == "done":
                known[int(words[1])] = words[2]
                done += 1
        open_end = output and output[-1][0] == "begin" and (int(output[-1][1]), output[-1][2])
        Model.open(str(path)).scores(MAILS[0][0])  # whoever judges in the meantime sees a whole model
        with sb.Filter.open(path) as mine:
            messages = mine._session.reading(refresh=True).messages()
            for i, fingerprint in enumerate(fingerprints):
                label_now = messages[fingerprint][1] if fingerprint in messages else "forget"
                expected = known.get(i, "forget")
                if open_end and open_end[0] == i and label_now == open_end[1]:
                    known[i] = expected = label_now  # it was done, but there was no time left to say so
                assert label_now == expected, (kill, i)
            assert mine.problems() == []
    with sb.Filter.open(path) as mine:  # whoever writes next removes what was left half written
        mine.teach(MAILS[0][0], "spam" if known.get(0) == "ham" else "ham")
    assert [name for name in os.listdir(path) if name.startswith(".tmp-")] == []
    return done


@needs_fork
def test_killed_now_and_then(tmp_path):
    assert survive(tmp_path / "f", 25, 0.12) >= 12


@needs_fork
@pytest.mark.slow
def test_killed_two_hundred_times(tmp_path):
    assert survive(tmp_path / "f", 200, 0.3) > 200


@needs_fork
def test_killed_while_training(tmp_path):
    path = tmp_path / "f"
    sb.Filter.create(path, **SMALL).close()
    for kill in range(6):
        child = fork()
        if child == 0:  # pragma: no cover - it never comes back
            with sb.Filter.open(path) as mine:
                mine.train(MAILS, reserve=0.2)
                mine.calibrate(max_fpr=0.9)
            os._exit(0)
        time.sleep(0.03 * kill)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with sb.Filter.open(path) as mine:
            assert mine.problems() == []
    with sb.Filter.open(path) as mine:
        mine.train(MAILS, reserve=0.2)
        status = mine.status()
        assert sum(status["documents"].values()) + sum(status["reserved"].values()) == len(MAILS)


def in_child(work):
    """Let a child do something; it ends with 0 if nothing was raised."""
    child = fork()
    if child == 0:  # pragma: no cover - it never comes back
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


@needs_fork
def test_two_learn_while_a_third_folds_and_a_fourth_judges(tmp_path):
    path, over = tmp_path / "f", tmp_path / "over"
    sb.Filter.create(path, **SMALL).close()

    def learn(mine_of):
        with sb.Filter.open(path) as mine:
            for raw, label in mine_of:
                assert mine.teach(raw, label) == "learnt"

    def until_over(step):
        times = 0
        while not over.exists() or not times:
            step()
            times += 1

    def fold():
        with sb.Filter.open(path) as mine:
            mine.absorb()
            mine.compact()

    def judge():
        Model.open(str(path)).scores(MAILS[0][0])
        with sb.Filter.open(path) as mine:
            mine.judge(MAILS[1][0])

    learners = [in_child(lambda: learn(MAILS[::2])), in_child(lambda: learn(MAILS[1::2]))]
    others = [in_child(lambda: until_over(fold)), in_child(lambda: until_over(judge))]
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in learners]
    over.touch()
    ended += [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in others]
    assert ended == [0, 0, 0, 0]
    with sb.Filter.open(path) as mine, sb.Filter.create(tmp_path / "alone", **SMALL) as alone:
        for raw, label in MAILS:
            alone.teach(raw, label)
        assert mine.problems() == []
        assert mine.status()["documents"] == alone.status()["documents"]
        assert [mine.judge(raw).score for raw, _ in MAILS] == [alone.judge(raw).score for raw, _ in MAILS]


# ---- damage


class FoundOut(Exception):
    """The filter's own check has found something."""


def everything(path):
    """All that a filter answers, from its files alone and through its journal."""
    lean = Model.open(str(path))
    scores = [list(lean.scores(raw)) for raw, _ in MAILS]
    with sb.Filter.open(path) as mine:
        judged = [mine.judge(raw).score for raw, _ in MAILS]
        told = mine.teach(b"Subject: one more\n\nmessage", "ham")
        known = mine._session.journal.messages()
        messages = {f: (a, label) for f, (a, label, _) in known.items()}
        bodies = [mine._session.journal.content(row) for _, _, row in known.values()]
        if problems := mine.problems():
            raise FoundOut(problems)
        after = [mine.judge(raw).score for raw, _ in MAILS]
    return scores, judged, told, messages, bodies, after


def damage(path, dice):
    """Flip a bit of some file, or cut it."""
    content = bytearray(path.read_bytes())
    if dice.random() < 0.2:
        del content[dice.randrange(len(content)) :]
    else:
        for _ in range(dice.choice([1, 1, 1, 5])):
            content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content)


def detected_or_harmless(tmp_path, times, seed):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        for raw, label in MAILS[:25]:
            mine.teach(raw, label)
        mine.forget(MAILS[3][0])
    shutil.copytree(tmp_path / "f", tmp_path / "whole")
    right = everything(tmp_path / "whole")
    files = sorted(name for name in os.listdir(tmp_path / "f") if name != "lock")
    dice, noticed = random.Random(seed), 0
    for n in range(times):
        victim = tmp_path / "victim"
        shutil.rmtree(victim, ignore_errors=True)
        shutil.copytree(tmp_path / "f", victim)
        damage(victim / files[n % len(files)], dice)
        try:
            content = everything(victim)
        except (StoreError, OSError, FoundOut):
            noticed += 1
            continue
        assert content == right, (n, files[n % len(files)])
    return noticed


def test_damage_is_noticed_or_harmless(tmp_path):
    assert detected_or_harmless(tmp_path, 60, 1) > 20


@pytest.mark.slow
def test_damage_in_three_hundred_places(tmp_path):
    assert detected_or_harmless(tmp_path, 300, 2) > 100


def test_a_damaged_write_ahead_log(tmp_path):
    """Rows that were absorbed are missed; what the log alone had is dropped whole, never read wrong."""
    mine = sb.Filter.create(tmp_path / "f", **SMALL)
    for raw, label in MAILS[:20]:
        mine.teach(raw, label)
    shutil.copytree(tmp_path / "f", tmp_path / "copy")
    mine.close()
    log = tmp_path / "copy" / "journal.sqlite-wal"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    (tmp_path / "copy" / "journal.sqlite-shm").unlink()
    with sb.Filter.open(tmp_path / "copy") as opened:
        assert 0 < sum(opened.status()["documents"].values()) < 20
        assert opened.problems() == []


def test_a_journal_that_is_missing(tmp_path):
    with sb.Filter.create(tmp_path / "f", **SMALL) as mine:
        mine.teach(*MAILS[0])
    Journal(str(tmp_path / "f")).close()
    (tmp_path / "f" / "journal.sqlite").unlink()
    with pytest.raises(StoreError, match="missing"):
        sb.Filter.open(tmp_path / "f")
    Model.open(str(tmp_path / "f")).scores(MAILS[0][0])  # mail is judged nevertheless
