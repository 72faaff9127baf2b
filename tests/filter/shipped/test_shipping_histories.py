"""Random histories: lessons, erasures, shipping, half-copied files and promotions; and processes that are killed."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from shipped_filters import MAILS, bodies, erased_rows, make_source, state

import surebayes as sb
from surebayes.errors import BadModel, NotShipped, ReadOnlyFilter
from surebayes.filter import shipping
from surebayes.filter.shipped import writer
from surebayes.filter.store.journal import Journal

FEW = 8


class Shipped(RuleBasedStateMachine):
    """A source ships to a folder, a program copies it file by file and in any order, and a copy follows that."""

    @initialize(sync=st.booleans())
    def begin(self, sync):
        self.folder = Path(tempfile.mkdtemp())
        self.to, self.there = self.folder / "to", self.folder / "there"
        self.to.mkdir()
        self.there.mkdir()
        self.source, self.copy, self.number = make_source(self.folder / "f0", 2), None, 0
        writer.MOST_SEGMENTS = 4
        shipping.begin(str(self.source), str(self.to), sync)
        self.synchronised()
        self.new_copy()

    def teardown(self):
        writer.MOST_SEGMENTS = 64
        if hasattr(self, "folder"):
            self.opened.close()
            shutil.rmtree(self.folder)

    def new_copy(self):
        self.number += 1
        self.copy = self.folder / f"f{self.number}"
        shipping.start(str(self.copy), str(self.there))
        self.opened = sb.Filter.open(self.copy)

    def synchronised(self):
        shutil.rmtree(self.there)
        shutil.copytree(self.to, self.there)

    @rule(mail=st.integers(0, FEW - 1), other=st.booleans())
    def teach(self, mail, other):
        raw, label = MAILS[mail]
        with sb.Filter.open(self.source) as source:
            source.teach(raw, {"ham": "spam", "spam": "ham"}[label] if other else label)

    @rule(mail=st.integers(0, FEW - 1))
    def forget(self, mail):
        with sb.Filter.open(self.source) as source:
            source.forget(MAILS[mail][0])

    @rule(mail=st.integers(0, FEW - 1))
    def erase(self, mail):
        with sb.Filter.open(self.source) as source:
            source.erase(documents=[MAILS[mail][0]])

    @rule()
    def ship(self):
        with sb.Filter.open(self.source) as source:
            shipping.ship_of(source)

    @rule(sync=st.booleans())
    def change_mode(self, sync):
        shipping.begin(str(self.source), str(self.to), sync)

    @rule(at=st.integers(0, 50), share=st.sampled_from([0.0, 0.3, 0.99, 1.0]))
    def copy_a_file(self, at, share):
        names = sorted(os.listdir(self.to))
        content = (self.to / names[at % len(names)]).read_bytes()
        (self.there / names[at % len(names)]).write_bytes(content[: int(share * len(content))])

    @rule(at=st.integers(0, 50))
    def lose_a_file(self, at):
        names = sorted(os.listdir(self.there))
        if names:
            (self.there / names[at % len(names)]).unlink()

    @rule()
    def follow(self):
        with contextlib.suppress(NotShipped, BadModel):
            shipping.pull_of(self.opened)

    @rule()
    def reopen(self):
        self.opened.close()
        self.opened = sb.Filter.open(self.copy)

    @rule()
    def follow_everything(self):
        self.ship()
        self.synchronised()
        shipping.pull_of(self.opened)
        self.opened.absorb()
        assert state(self.copy) == state(self.source)
        erased = erased_rows(self.source)
        assert erased_rows(self.copy) == erased
        assert all(bodies(self.to).get(row, b"") == b"" for row in erased)
        assert all(body == b"" for body in own_bodies(self.copy, erased))

    @precondition(lambda self: self.number < 4)
    @rule()
    def promote(self):
        self.ship()
        self.opened.close()
        shipping.move(str(self.copy), str(self.to))
        assert shipping.promote(str(self.copy))["fenced"]
        assert state(self.copy)[0] == state(self.source)[0]
        with sb.Filter.open(self.source) as source, pytest.raises(ReadOnlyFilter):
            shipping.ship_of(source)
        self.source = self.copy
        shipping.begin(str(self.source), str(self.to))
        self.synchronised()
        self.new_copy()

    @invariant()
    def the_copy_judges(self):
        if self.copy is not None:
            assert self.opened.judge(MAILS[30][0], remember=False).label in ("ham", "spam")


def own_bodies(folder, rows):
    journal = Journal(str(folder), write=False)
    try:
        return [row[-1] for some in journal.rows_after(0, 1000) for row in some if row[0] in rows]
    finally:
        journal.close()


SUPPRESSED = list(HealthCheck)
TestHistories = Shipped.TestCase
TestHistories.settings = settings(
    max_examples=4, stateful_step_count=12, deadline=None, suppress_health_check=SUPPRESSED, derandomize=True
)


class LongHistories(Shipped):
    """The same, for longer."""


TestLongHistories = pytest.mark.slow(LongHistories.TestCase)
TestLongHistories.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None, suppress_health_check=SUPPRESSED
)


# ---------------------------------------------------------------------- kills

SOURCE = """
import sys
import surebayes as sb
from shipped_filters import MAILS
with sb.Filter.open(sys.argv[1]) as source:
    source.follow()
    for i in range(10**9):
        raw, label = MAILS[i % len(MAILS)]
        name = f"{sys.argv[2]}-{i}"
        outcome = source.teach(f"Subject: {name}\\n\\n{name} ".encode() + raw[-200:], label, who=name)
        print(name, outcome, flush=True)
"""
COPY = """
import sys, time
import surebayes as sb
from surebayes.filter import shipping
with sb.Filter.open(sys.argv[1]) as copy:
    print("ready", flush=True)
    while True:
        shipping.pull_of(copy)
"""


def start(code, *words, **options):
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, env=environment, text=True, **options)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_source_and_copy_are_killed(tmp_path):
    dice = random.Random(5)
    to = tmp_path / "to"
    to.mkdir()
    source, copy = make_source(tmp_path / "f", 2), tmp_path / "c0"
    shipping.begin(str(source), str(to), sync=True)
    shipping.start(str(copy), str(to))
    acknowledged = []
    for i in range(12):
        with open(tmp_path / "log", "w+") as log:
            one, other = start(SOURCE, source, i, stdout=log), start(COPY, copy, stdout=subprocess.DEVNULL)
            end = time.monotonic() + 60
            while os.path.getsize(tmp_path / "log") == 0:
                assert time.monotonic() < end
                time.sleep(0.01)
            for process in dice.sample([one, other], 2):
                time.sleep(dice.random() * 0.7)
                process.send_signal(signal.SIGKILL)
            assert [one.wait(), other.wait()] == [-signal.SIGKILL] * 2
            log.seek(0)
            acknowledged += [line.split()[0] for line in log if line.endswith("\n")]
        if i % 4 == 3:  # a failover, and the old source as it was left
            done = shipping.promote(str(copy))
            assert done["fenced"]
            assert_has(copy, acknowledged)
            with sb.Filter.open(source) as old, pytest.raises(ReadOnlyFilter):
                old.teach(*MAILS[-1])
            source, copy = copy, tmp_path / f"c{i}"
            shipping.begin(str(source), str(to), sync=True)
            shipping.start(str(copy), str(to))
    assert len(acknowledged) > 100
    with sb.Filter.open(copy) as opened:
        shipping.pull_of(opened)
    with sb.Filter.open(source) as opened:
        shipping.ship_of(opened)
    with sb.Filter.open(copy) as opened:
        assert shipping.pull_of(opened)["equal"] is True
    assert state(copy) == state(source)


def assert_has(folder, names):
    journal = Journal(str(folder), write=False)
    try:
        there = {event.who for event, _ in journal.heads() if event.action == "learn"}
    finally:
        journal.close()
    assert [name for name in names if name not in there] == []
    with sb.Filter.open(folder) as opened:
        assert opened.problems() == []


@pytest.mark.slow
def test_a_promotion_while_the_source_teaches(tmp_path):
    to = tmp_path / "to"
    to.mkdir()
    source, copy = make_source(tmp_path / "f", 2), tmp_path / "c"
    shipping.begin(str(source), str(to), sync=True)
    shipping.start(str(copy), str(to))
    with open(tmp_path / "log", "w+") as log:
        running = start(SOURCE, source, "x", stdout=log, stderr=subprocess.PIPE)
        while os.path.getsize(tmp_path / "log") < 200:
            time.sleep(0.01)
        shipping.promote(str(copy))
        _, error = running.communicate(timeout=60)
        assert "ReadOnlyFilter" in error
        log.seek(0)
        assert_has(copy, [line.split()[0] for line in log])
