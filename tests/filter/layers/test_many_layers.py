"""A base that learns while many layers judge, and processes that are killed: nothing wrong, nothing lost."""

import os
import random
import signal
import threading
import time
import warnings

import pytest

import surebayes as sb
from surebayes.filter.lean.judge import MappedModel
from surebayes.synthetic import mail_stream

MAILS = [(mail.raw, mail.label) for mail in mail_stream(160, seed=51)]
SMALL = {"model": "words", "width": 2**12}

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


@pytest.fixture
def site(tmp_path):
    with sb.Filter.create(tmp_path / "site", **SMALL) as made:
        made.train(MAILS[:60], reserve=0.0)
    return tmp_path / "site"


def test_the_base_learns_while_a_hundred_layers_judge(site, tmp_path):
    for i in range(100):
        with sb.Filter.create(tmp_path / "users" / str(i), base=site) as made:
            made.teach(*MAILS[60 + i % 20])
    wrong, done = [], threading.Event()

    def judge(numbers):
        opened = {i: sb.Filter.open(tmp_path / "users" / str(i)) for i in numbers}
        while not done.is_set():
            for i, layer in opened.items():
                verdict = layer.judge(MAILS[60 + i % 20][0])
                if verdict.basis != "base" or verdict.label != MAILS[60 + i % 20][1]:
                    wrong.append((i, verdict.basis, verdict.label))
                lean = MappedModel(str(tmp_path / "users" / str(i)))
                if lean.judge.basis != "base":
                    wrong.append((i, lean.standing.problem))

    threads = [threading.Thread(target=judge, args=(range(start, 100, 4),)) for start in range(4)]
    for thread in threads:
        thread.start()
    try:
        with sb.Filter.open(site) as shared:
            for raw, label in MAILS[80:120]:
                shared.teach(raw, label)
                shared.absorb()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    for i in range(0, 100, 9):
        path = tmp_path / "users" / str(i)
        with sb.Filter.open(path) as layer:
            expected = [layer.judge(raw).score for raw, _ in MAILS[120:125]]
            assert [MappedModel(str(path)).scores(raw)[0] for raw, _ in MAILS[120:125]] == expected
            with sb.Filter.create(tmp_path / f"again{i}", base=site) as again:
                again.teach(*MAILS[60 + i % 20])
                assert [again.judge(raw).score for raw, _ in MAILS[120:125]] == expected


def _killed(path, delay, seed):
    """Teach and forget in a process until it is killed; return what it said it had done."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # pragma: no cover - it never comes back
        try:
            dice, victim = random.Random(seed), sb.Filter.open(path)
            while True:
                i = dice.randrange(60, 120)
                os.write(writing, b"begin %d\n" % i)
                victim.teach(*MAILS[i])
                os.write(writing, b"done %d\n" % i)
                if dice.random() < 0.3:
                    victim.absorb()
        finally:
            os._exit(13)
    os.close(writing)
    output = b""
    while b"done" not in output:
        output += os.read(reading, 4096)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(reading, 65536):
        output += more
    os.close(reading)
    return {int(line.split()[1]) for line in output.splitlines() if line.startswith(b"done")}


@needs_fork
def test_a_layer_or_its_base_is_killed(site, tmp_path):
    sb.Filter.create(tmp_path / "mine", base=site).close()
    for seed in range(3):
        for victim in ("mine", "site"):
            done = _killed(tmp_path / victim, 0.05 * seed, seed)
            with sb.Filter.open(tmp_path / victim) as opened:
                for i in done:
                    assert opened.teach(*MAILS[i]) == "already"
                assert opened.problems() == []
            path = tmp_path / "mine"
            with sb.Filter.open(path) as mine:
                mine.absorb()
                assert mine.judge(MAILS[0][0]).basis == "base"
                expected = [mine.judge(raw).score for raw, _ in MAILS[120:130]]
            assert [MappedModel(str(path)).scores(raw)[0] for raw, _ in MAILS[120:130]] == expected
