"""Three hosts, a server killed, frozen and restarted, connections cut: nothing acknowledged is lost."""

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from test_hosts import OWN, SMALL, assert_alike, files
from test_verdicts import assert_one

import surebayes as sb
from command_line import clean_environment
from surebayes.filter import hosts
from surebayes.filter.shared import database
from surebayes.filter.store.journal import Journal
from surebayes.synthetic import mail_stream

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
OPERATIONS = int(os.environ.get("SUREBAYES_DISASTERS", "120"))
"""Operations of each host."""


class Host:
    """A process that teaches, killed and started again until its operations are done."""

    def __init__(self, name, folder, seed):
        self.name, self.folder, self.seed = name, str(folder), seed
        self.log = f"{folder}.log"
        self.process = None
        self.kills = 0

    def start(self):
        words = [sys.executable, str(Path(__file__).with_name("one_host.py")), self.folder, self.log, self.name]
        self.process = subprocess.Popen(
            [*words, str(self.seed), str(OPERATIONS)], env=clean_environment(), stderr=subprocess.PIPE
        )

    def is_done(self):
        if self.process.poll() is None:
            return False
        error = self.process.stderr.read().decode()
        self.process.stderr.close()
        assert self.process.returncode in (0, -9), error
        if self.process.returncode == 0:
            return True
        self.start()
        return False

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.kills += 1

    def outcomes(self):
        with open(self.log) as file:
            return dict(line.strip().split(" ", 1) for line in file)


def test_nothing_acknowledged_is_lost_and_all_hosts_are_equal(tmp_path, server, url):
    dice = random.Random(5)
    first = str(tmp_path / "h0")
    with sb.Filter.create(first, **SMALL) as made:
        made.train([(mail.raw, mail.label) for mail in mail_stream(100, seed=9)][60:], reserve=0.3)
        made.remember(always=True, details=True)
        made.calibrate(budget=0.25, burst=5)
    hosts.share(first, url)
    running = []
    for i in range(3):
        if i:
            hosts.join(str(tmp_path / f"h{i}"), url)
        running.append(Host(f"h{i}", tmp_path / f"h{i}", 3))
        running[i].start()
    end, disasters = time.monotonic() + 240, Counter()
    left = list(running)
    while left:
        assert time.monotonic() < end, "the hosts don't get on"
        time.sleep(dice.uniform(0.5, 2.0))
        what = dice.choice(["kill", "cut", "restart", "freeze", "crash", "nothing", "nothing"])
        disasters[what] += 1
        if what == "kill":
            dice.choice(left).kill()
        elif what == "cut":
            server.cut()
        elif what == "restart":
            server.restart()
        elif what == "freeze":
            with server.frozen():
                time.sleep(1)
        elif what == "crash":
            server.kill()
            server.start()
        left = [host for host in left if not host.is_done()]
    database.forget_failures()
    database.close_idle()

    opened = [sb.Filter.open(host.folder) for host in running]
    try:
        for each in opened:
            hosts.sync(each._session)
            assert each.status()["shared"]["waiting"] == 0
        assert_alike(*opened)
        verdicts, *_ = assert_one(*opened)
        judged = {who for host in running for who, outcome in host.outcomes().items() if outcome == "judged"}
        assert len(judged) > 5
        assert judged <= {row[2] for row in verdicts.values()}
        events = [event for event, _ in opened[0]._session.reading().heads()]
        acknowledged(running, events)
        for each in opened:
            assert each.problems() == []
        hosts.join(str(tmp_path / "late"), url)
        with sb.Filter.open(tmp_path / "late") as late:
            assert_alike(*opened, late)
    finally:
        for each in opened:
            each.close()
    alone(tmp_path, running[0].folder)


def acknowledged(running, events):
    """Check that each acknowledged lesson is in the journal, and none twice."""
    learnt = Counter(event.who for event in events if event.action == "learn")
    forgotten = Counter(event.who for event in events if event.action == "forget")
    assert {who for who, times in learnt.items() if times > 1} == {"train"}
    counted = 0
    for host in running:
        for who, outcome in host.outcomes().items():
            if outcome in ("learnt", "moved"):
                assert learnt[who] == 1, (who, outcome)
                counted += 1
            elif outcome == "forgotten":
                assert forgotten[who] == 1, (who, outcome)
                counted += 1
            elif outcome in ("already", "unknown"):
                assert learnt[who] == 0
                assert forgotten[who] == 0
            else:
                assert outcome.startswith(("waiting", "judged", "refused", "erased", "rescued")), outcome
    waited = sum(outcome == "waiting" for host in running for outcome in host.outcomes().values())
    assert counted > 10
    assert counted + waited > OPERATIONS


def alone(tmp_path, folder):
    """Check that one machine that replays the journal from its first row has the same files."""
    from surebayes.filter.session import Session
    from surebayes.filter.state import State
    from surebayes.pool.specs import views_of

    again, journal = str(tmp_path / "alone"), Journal(folder, write=False)
    rows = [row for chunk in journal.rows_after(0, 1000) for row in chunk]
    facts = dict(journal.facts)
    journal.close()
    made = Session.create(again, "mail", ["ham", "spam"], views_of("words", "mail", 2, SMALL["width"]))
    made.close()
    for name in ("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm"):
        if os.path.exists(f"{again}/{name}"):
            os.unlink(f"{again}/{name}")
    shutil.copy(f"{folder}/config.toml", again)  # the manifest says whether there is a budget
    copy = Journal(again, create=True, facts=facts)
    copy.append_rows(rows)
    state = State.new("mail", ["ham", "spam"], views_of("words", "mail", 2, SMALL["width"]))
    state.belong_to(copy)
    state._apply_all(list(copy.heads()), copy)
    copy.close()
    session = Session(again)
    session.journal, session.state = Journal(again), state.into_memory()
    state.write_all()
    with session.exclusive():
        session.write_model(keep_replaced=False)
    session.close()
    assert set(OWN) >= {"journal.sqlite"}
    expected, expected_rows = files(folder)
    found, found_rows = files(again)
    assert found_rows == expected_rows
    assert found == expected
