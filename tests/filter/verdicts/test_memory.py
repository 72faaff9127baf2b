"""Remembered verdicts and budgets in a filter's folder: the bound holds across restarts, processes and kill -9."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import memory_attacks, memory_steps
from surebayes.errors import BadModel, NewerModel
from surebayes.filter.model import Model
from surebayes.filter.store.events import Lesson
from surebayes.filter.verdicts import alarms
from surebayes.filter.verdicts import budgets as ledger
from surebayes.filter.verdicts import memory as verdict_memory
from surebayes.filter.verdicts.database import NAME, Database
from surebayes.filter.verdicts.memory import Memory, VerdictDetails
from surebayes.guarantees.budget import AlarmBudget
from surebayes.guarantees.prequential import PrequentialThreshold

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where to flush costs nothing
JUDGE = Model(SimpleNamespace(documents=[5, 5]), ["ham", "spam"], {}, None, "m-1")
THREE = Model(SimpleNamespace(documents=[5, 5, 5]), ["a", "b", "c"], {}, None, "m-1")
HIGH, LOW = [9.0], [-9.0]


@pytest.fixture
def tmp_path():
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


def begun(folder, rate=0.25, burst=2, negatives=(0.0,), positives=(5.0, 6.0), labels=("spam",)):
    """Make the memory of a filter with budgets, calibrated on scores."""
    memory = Memory(str(folder), create=True)
    with memory.database.writing():
        for place, label in enumerate(labels):
            ledger.set_terms(memory.database, label, place, rate, burst)
            ledger.calibrate(memory.database, label, list(negatives), list(positives))
    return memory


def state_of(memory, label="spam"):
    return ledger.budgets(memory.database)[label]


def ask(memory, name, scores=HIGH, model=JUDGE):
    return memory.answer(model, scores, name)[0][0]


# ---------------------------------------------------------------------- the bound


def worst(known, rate):
    """The largest alarms - rate n over all stretches, exactly."""
    total = lowest = highest = Fraction(0)
    for alarm in known:
        total += int(alarm) - rate
        highest = max(highest, total - lowest)
        lowest = min(lowest, total)
    return highest


@given(memory_steps, st.sampled_from((0.01, 0.1, 0.5)), st.sampled_from((1, 1.5, 3)))
@settings(max_examples=60, deadline=None)
def test_whatever_comes_alarms_stay_within_the_bound(stream, rate, burst):
    """Scores, labels, delays, restarts and several processes (as connections): the bound holds in every stretch."""
    exact = Fraction(int(rate * 2**40), 2**40)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        one, other = begun(folder, rate, burst), Memory(folder)
        waiting, known, in_flight = [], [], 0
        for i, (score, good, delay, then) in enumerate(stream):
            here = other if then == "other" else one
            flagged = ask(here, f"f{i}", [score]) == "spam"
            if flagged:
                in_flight = max(in_flight, sum(each_flagged and each_good for _, _, each_good, each_flagged in waiting))
            waiting.append((i + delay, f"f{i}", good, flagged))
            for due in [each for each in waiting if each[0] <= i]:
                waiting.remove(due)
                told = here.record_label(due[1], "ham" if due[2] else "spam")
                assert told.alarm == (due[2] and due[3])
                if due[2]:
                    known.append(due[3])
            if then == "restart":
                one.close()
                one = Memory(folder)
        assert worst(known, exact) <= Fraction(burst) + in_flight
        expected = AlarmBudget(rate, burst)
        for alarm in known:
            expected.record(alarm)
        assert state_of(one) == state_of(other) == expected
        one.close()
        other.close()


@pytest.mark.parametrize(("rate", "burst"), [(0.01, 5), (0.25, 2), (0.1, 1)])
def test_an_adversary_who_knows_the_rule_comes_within_one_alarm_and_never_passes(tmp_path, rate, burst):
    memory, known = begun(tmp_path, rate, burst), []
    for i in range(300):
        heard = not memory.in_force()["spam"].mute
        alarm = ask(memory, f"f{i}", [1e9 * (i + 1) if heard else -1e9]) == "spam"
        assert alarm == heard
        assert memory.record_label(f"f{i}", "ham").alarm == alarm
        known.append(alarm)
    assert burst - 1 < worst(known, Fraction(int(rate * 2**40), 2**40)) <= burst
    assert burst + rate * len(known) - 3 <= sum(known) <= burst + rate * len(known)


def test_the_file_follows_the_rules_of_a_threshold_in_memory(tmp_path):
    """The same correct labels give the threshold of `PrequentialThreshold`, lifted by the debt of `AlarmBudget`."""
    draw = random.Random(3)
    memory = begun(tmp_path, 0.02, 3, negatives=(), positives=())
    budget, calibration = AlarmBudget(0.02, 3), PrequentialThreshold(0.02, ledger.CONFIDENCE)
    ask(memory, "first", LOW)
    memory.record_label("first", "ham")  # the first truth told shows that correct labels are told
    budget.record(False)
    for i in range(400):
        spam = draw.random() < 0.4
        score = draw.gauss(4 if spam else 0, 1.5)
        flagged = ask(memory, f"f{i}", [score]) == "spam"
        expected = float("inf") if budget.mute else calibration.lifted(budget.lift)
        assert flagged == (score > expected)
        memory.record_label(f"f{i}", "spam" if spam else "ham")
        if spam or budget.lift <= ledger.CALM:
            calibration.add(score, spam)
        if not spam:
            budget.record(flagged)
    assert state_of(memory) == budget
    assert budget.alarms > 2
    assert ledger.base_threshold(memory.database, "spam") == calibration.threshold


def test_two_processes_count_each_alarm_that_outlived_its_verdict_once(tmp_path):
    """Verdicts on the same documents are given, erased and told by both; nothing is lost, nothing counts twice."""
    memory = begun(tmp_path, 0.001, 1000)
    code = (
        "import sys; from types import SimpleNamespace as N\n"
        "from surebayes.filter.model import Model\n"
        "from surebayes.filter.verdicts.memory import Memory, VerdictDetails\n"
        "memory = Memory(sys.argv[1]); judge = Model(N(documents=[5, 5]), ['ham', 'spam'], {}, None, 'm-1')\n"
        "for i in range(30):\n"
        "    assert memory.answer(judge, [9.0], f'm{i}', VerdictDetails(sys.argv[2]))[0][0] == 'spam'\n"
        "    memory.erase(None, [f'm{i}'])\n"
        "print('erased', flush=True); sys.stdin.readline()\n"
        "for i in range(30):\n"
        "    memory.record_label(f'm{i}', 'ham')\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    others = [subprocess.Popen([sys.executable, "-c", code, tmp_path, name], **pipes) for name in "ab"]
    assert [other.stdout.readline() for other in others] == [b"erased\n"] * 2
    assert memory.size() == 0
    assert memory.in_flight("spam") == 60
    for other in others:
        other.communicate(b"\n")
    assert [other.returncode for other in others] == [0, 0]
    assert (state_of(memory).alarms, state_of(memory).negatives) == (60, 60)
    assert memory.in_flight("spam") == 0


def test_two_processes_spend_one_budget(tmp_path):
    memory = begun(tmp_path, 0.01, 2)
    code = (
        "import sys; from types import SimpleNamespace as N\n"
        "from surebayes.filter.model import Model; from surebayes.filter.verdicts.memory import Memory\n"
        "memory = Memory(sys.argv[1]); judge = Model(N(documents=[5, 5]), ['ham', 'spam'], {}, None, 'm-1')\n"
        "for i in range(30):\n"
        "    name = sys.argv[2] + str(i)\n"
        "    memory.answer(judge, [9.0], name); memory.record_label(name, 'ham')\n"
    )
    others = [subprocess.Popen([sys.executable, "-c", code, tmp_path, name]) for name in "ab"]
    assert [other.wait() for other in others] == [0, 0]
    budget = state_of(memory)
    assert budget.negatives == 60
    assert 2 <= budget.alarms <= 2 + 1  # at most one of the other was in flight
    assert budget.mute


# ---------------------------------------------------------------------- an attacker


class Attacked:
    """A memory that is attacked, and the alarms that were really given and told."""

    def __init__(self, folder, rate, burst):
        self.folder, self.burst, self.exact = folder, burst, Fraction(int(rate * 2**40), 2**40)
        begun(folder, rate, burst).close()
        self.clock, self.floods = 1_700_000_000.0, 0
        self.open = Counter()  # alarms that no truth has counted: by document and person
        self.given = self.told = self.unflagged = self.most_in_flight = 0
        self.memory = Memory(folder)
        self.memory.set(keep_most=6, keep_days=20, presume_days=7)

    def judge(self, name, person, score):
        if self.memory.answer(JUDGE, [score], name, VerdictDetails(person))[0][0] == "spam":
            self.given += not self.open[name, person]
            self.open[name, person] = max(self.open[name, person], 1)
            self.most_in_flight = max(self.most_in_flight, self.open.total())
        else:
            self.unflagged += 1

    def tell(self, name, person, truth):
        wanted = {(name, person)} if person else {(name, each) for each in ("", "ann", "bob")}
        false = sum(self.open[key] for key in wanted) if truth == "ham" else 0
        told = self.memory.record_label(name, truth, (JUDGE, [-9.0]), None, person or None)
        if false:
            assert told.alarm, "an alarm that was told isn't counted"
        elif told.alarm:  # of nobody in particular
            false, wanted = self.open[name, ""], {(name, "")}
            assert false
        self.told += false
        for key in wanted if false else ():
            del self.open[key]

    def step(self, what, number, person, days):
        if what in ("high", "low"):
            self.judge(f"x{number}", person, 9.0 if what == "high" else -9.0)
        elif what in ("ham", "spam"):
            self.tell(f"x{number}", person, what)
        elif what in ("flood", "spam flood"):
            for _ in range(8):
                self.floods += 1
                self.judge(f"f{self.floods}", "", 9.0 if what == "spam flood" else -9.0)
        elif what == "clock":
            self.clock += days * 86_400
        elif what == "erase":
            named = [f"x{number}"] if days > 0 else []
            whose = person or (None if named else "ann")
            self.memory.erase(whose, named)
            for key in [key for key in self.open if key[1] and whose in (None, key[1])]:
                if not named or key[0] in named:
                    self.open[key[0], ""] += self.open.pop(key)
        else:
            self.memory.close()
            self.memory = Memory(self.folder)

    def check(self):
        state = state_of(self.memory)
        assert state.alarms >= self.told
        assert state.alarms <= self.burst + self.exact * state.negatives + self.most_in_flight
        assert state.negatives - state.alarms <= self.unflagged, "paid by what was never judged"


@given(memory_attacks, st.sampled_from((0.01, 0.3)), st.sampled_from((1, 3)))
@settings(max_examples=120, deadline=None)
def test_an_attacker_loses_no_alarm_and_pays_nothing_back(stream, rate, burst):
    """Any order of verdicts and correct labels, floods beyond the memory, clocks that jump, erasures, restarts."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdict_memory, "_TRIM_EVERY", 2)
        attacked = Attacked(folder, rate, burst)
        patch.setattr(time, "time", lambda: attacked.clock)
        for step in stream:
            attacked.step(*step)
            attacked.check()
            if step[0] != "erase":
                assert attacked.memory.in_flight("spam") <= attacked.open.total()
        for name, person in sorted(attacked.open):  # whatever is still open is counted when it is told
            attacked.tell(name, person, "ham")
        attacked.check()
        attacked.memory.close()


@given(memory_attacks)
@settings(max_examples=60, deadline=None)
def test_where_even_fingerprints_are_dropped_no_alarm_is_free(stream):
    """Beyond their share of the memory fingerprints are dropped, and what has no verdict may have been one of them."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdict_memory, "_TRIM_EVERY", 2)
        patch.setattr(alarms, "SHARE", 3 * alarms.BYTES_OF_ONE / verdict_memory.KEEP_BYTES)
        attacked = Attacked(folder, 0.3, 2)
        patch.setattr(time, "time", lambda: attacked.clock)
        told = given = 0
        for what, number, _, days in stream:
            if what == "erase":
                continue
            if what in ("ham", "spam"):
                told += attacked.open.pop((f"x{number}", ""), 0) if what == "ham" else 0
                attacked.memory.record_label(f"x{number}", what, (JUDGE, [-9.0]))
            else:
                attacked.step(what, number, "", days)
            state, given = state_of(attacked.memory), attacked.given
            assert told <= state.alarms <= given
            assert alarms.bytes_taken(attacked.memory.database) <= (3 + 8) * alarms.BYTES_OF_ONE
        attacked.memory.close()


def test_alarms_beyond_the_memory_are_counted(tmp_path, monkeypatch):
    """A flood between an alarm and its rescue: all of them count, and while mute nothing is paid back."""
    memory = begun(tmp_path, 0.01, 200)
    memory.set(keep_most=1000)
    for i in range(120):
        assert ask(memory, f"x{i}") == "spam"
    for i in range(3000):
        ask(memory, f"f{i}")
    assert memory.in_flight("spam") == 3120
    assert memory.size() <= 1000 + 256
    told = [memory.record_label(f"x{i}", "ham", (JUDGE, LOW)).alarm for i in range(120)]
    assert all(told)
    assert (state_of(memory).alarms, state_of(memory).negatives) == (120, 120)
    assert not memory.record_label("x0", "ham", (JUDGE, LOW)).alarm  # once


def test_a_truth_that_changes_finds_its_alarm_after_a_flood(tmp_path):
    memory = begun(tmp_path, 0.01, 200)
    memory.set(keep_most=1000)
    ask(memory, "x")
    memory.record_label("x", "spam")
    for i in range(3000):
        ask(memory, f"f{i}")
    assert memory.in_flight("spam") == 3000
    assert memory.record_label("x", "ham").alarm


def test_erasure_forgets_who_and_not_the_debt(tmp_path):
    memory = begun(tmp_path, 0.01, 10)
    for person in ("annabel", "bob"):
        memory.answer(
            JUDGE, HIGH, "x", VerdictDetails(person, "annabel@example.org", "hello", "<1@a>", b"said in mail")
        )
    assert memory.erase("annabel") == 1
    assert memory.erase(fingerprints=["x"]) == 1
    memory.close()
    assert not any(word in (tmp_path / NAME).read_bytes() for word in (b"annabel", b"bob", b"said"))
    memory = Memory(str(tmp_path))
    assert memory.in_flight("spam") == 2
    assert memory.record_label("x", "ham", person="annabel").alarm
    assert state_of(memory).alarms == 2


def test_a_budget_that_ends_takes_its_fingerprints_along(tmp_path):
    memory = begun(tmp_path)
    ask(memory, "x")
    memory.erase(fingerprints=["x"])
    with memory.database.writing():
        ledger.end(memory.database, "spam", None)
        alarms.forget_class(memory.database, "spam")
    assert memory.in_flight("spam") == 0


# ---------------------------------------------------------------------- kill -9

_KILLED = """
import os, sys
from types import SimpleNamespace as N
from surebayes.filter.model import Model
from surebayes.filter.verdicts.memory import Memory
memory = Memory(sys.argv[1])
judge = Model(N(documents=[5, 5]), ["ham", "spam"], {}, None, "m-1")
for i in range(10_000):
    label = memory.answer(judge, [9.0 if i % 3 else -9.0], f"f{i}")[0][0]
    os.write(1, f"answered {i} {label}\\n".encode())
    if i % 2:
        told = memory.record_label(f"f{i}", "ham")
        os.write(1, f"told {i} {told.alarm}\\n".encode())
"""


@pytest.mark.parametrize("after", [0.02, 0.05, 0.11, 0.2])
def test_kill_nine_loses_no_acknowledged_truth_and_forgives_no_debt(tmp_path, after):
    begun(tmp_path, 0.001, 1000).close()
    process = subprocess.Popen([sys.executable, "-c", _KILLED, tmp_path], stdout=subprocess.PIPE)
    first = process.stdout.readline()
    time.sleep(after)
    os.kill(process.pid, signal.SIGKILL)
    lines = [line.split() for line in (first + process.communicate()[0]).decode().splitlines() if line.count(" ") == 2]
    memory = Memory(str(tmp_path))
    rows = dict(memory.database.rows("SELECT fingerprint, truth FROM verdicts"))
    flagged = {f"f{i}" for what, i, label in lines if (what, label) == ("answered", "spam")}
    told = {f"f{i}": alarm == "True" for what, i, alarm in lines if what == "told"}
    assert flagged <= set(rows)  # session before they were answered
    assert all(rows[name] == "ham" for name in told)
    budget, least = state_of(memory), AlarmBudget(0.001, 1000)
    for alarm in told.values():
        least.record(alarm)
    assert budget.alarms >= least.alarms
    assert budget.debt >= least.debt - 0.001
    assert budget.negatives - len(told) in (0, 1)  # the one that was not acknowledged
    assert memory.database.rows("PRAGMA integrity_check") == [("ok",)]


# ---------------------------------------------------------------------- which documents count


def test_a_document_counts_once_however_often_it_is_judged_and_told(tmp_path):
    memory = begun(tmp_path, 0.25, 10)
    assert [ask(memory, "x") for _ in range(3)] == ["spam"] * 3
    assert memory.in_flight("spam") == 1
    assert memory.record_label("x", "ham").alarm
    assert not memory.record_label("x", "ham").alarm
    assert (state_of(memory).alarms, state_of(memory).negatives) == (1, 1)
    memory.record_label("x", "spam")
    memory.record_label("x", "ham")
    assert (state_of(memory).alarms, state_of(memory).negatives) == (1, 1)  # minds may change, debt isn't forgiven
    ask(memory, "x", LOW)
    memory.record_label("x", "ham")
    assert state_of(memory).negatives == 1  # nor does a known document pay twice
    assert ask(memory, "x") == "spam"
    assert memory.record_label("x", "ham").alarm  # flagged again after it was rescued: another alarm
    assert state_of(memory).alarms == 2


def test_what_was_flagged_stays_so_until_its_truth_is_known(tmp_path):
    memory = begun(tmp_path, 0.25, 10)
    assert ask(memory, "x") == "spam"
    assert ask(memory, "x", LOW) == "ham"
    assert memory.record_label("x", "ham").alarm


def test_spam_that_was_flagged_costs_nothing(tmp_path):
    memory = begun(tmp_path)
    ask(memory, "x")
    assert not memory.record_label("x", "spam").alarm
    assert state_of(memory).negatives == 0
    assert memory.record_label("x", "ham").alarm  # a truth that turns out to be wrong
    assert state_of(memory).alarms == 1


def test_one_without_a_verdict_is_judged_first(tmp_path):
    memory = begun(tmp_path)
    assert memory.record_label("x", "ham", judged=(JUDGE, HIGH)).alarm
    assert not memory.record_label("y", "ham", judged=(JUDGE, LOW)).alarm
    assert (state_of(memory).alarms, state_of(memory).negatives) == (1, 1)  # who has no verdict pays nothing back
    assert memory.record_label("z", "ham").documents == 0  # nothing to judge it by: nothing is counted


def test_persons_have_verdicts_of_their_own(tmp_path):
    memory = begun(tmp_path, 0.25, 10)
    for person in ("ann", "bob"):
        memory.answer(JUDGE, HIGH, "x", VerdictDetails(person))
    assert memory.record_label("x", "ham", person="ann").documents == 1
    assert state_of(memory).alarms == 1
    assert memory.record_label("x", "ham").documents == 1  # everybody's
    assert state_of(memory).alarms == 2


def test_while_mute_nothing_is_flagged_and_good_documents_end_it(tmp_path):
    memory = begun(tmp_path, 0.25, 1)
    ask(memory, "x")
    memory.record_label("x", "ham")
    force = memory.in_force()["spam"]
    assert (force.mute, force.left, force.lift) == (True, 0, 1.0)
    (label, _, threshold, _), shown = memory.answer(JUDGE, [1e300], "y")
    assert (label, threshold) == ("ham", 1e9)
    assert shown["spam"].mute
    for i in range(4):
        ask(memory, f"g{i}", LOW)
        memory.record_label(f"g{i}", "ham")
    assert ask(memory, "z") == "spam"


# ---------------------------------------------------------------------- silence


def aged(memory, days):
    with memory.database.writing():
        memory.database.run("UPDATE verdicts SET time = time - ?", (days * 86_400,))


def test_silence_pays_back_and_never_calibrates(tmp_path):
    memory = begun(tmp_path, 0.25, 3)
    ask(memory, "x")
    memory.record_label("x", "ham")
    for i in range(3):
        ask(memory, f"g{i}", [-3.0])
    ask(memory, "flagged")
    before = ledger.base_threshold(memory.database, "spam"), state_of(memory).debt
    aged(memory, 6.9)
    assert not memory.presume()
    aged(memory, 0.2)
    assert memory.presume()
    budget = state_of(memory)
    assert budget.debt == before[1] - 0.75
    assert budget.negatives == 4  # those that nobody complained about, and not what was flagged
    assert ledger.base_threshold(memory.database, "spam") == before[0]
    assert not memory.presume()
    assert not memory.record_label("g0", "ham").alarm
    assert state_of(memory) == budget  # it had paid already
    memory.set(presume_days=0)
    ask(memory, "late", LOW)
    aged(memory, 100)
    assert not memory.presume()


def test_who_tells_mistakes_only_does_not_move_the_threshold(tmp_path):
    memory = begun(tmp_path, 0.25, 50, negatives=[float(i) / 10 for i in range(10)])
    base = ledger.base_threshold(memory.database, "spam")
    for i in range(20):
        ask(memory, f"x{i}", [8.0 + i])
        memory.record_label(f"x{i}", "ham")
    assert ledger.base_threshold(memory.database, "spam") == base
    for i in range(40):  # now correct labels of quiet documents come too
        ask(memory, f"y{i}", [1.5])
        memory.record_label(f"y{i}", "ham")
    assert ledger.base_threshold(memory.database, "spam") > base


def test_one_shot_processes_leave_payments_to_others_until_they_add_up(tmp_path):
    memory = begun(tmp_path, 0.01, 1)
    for i in range(5):
        ask(memory, f"g{i}", LOW)
    aged(memory, 8)
    alone = Memory(str(tmp_path), one_shot=True)
    assert not alone.presume()  # no debt: nothing is waiting for it
    ask(memory, "x")  # a process that lives on counts them at once
    assert state_of(memory).negatives == 5
    memory.record_label("x", "ham")
    ask(memory, "late", LOW)
    aged(memory, 8)
    assert alone.presume()  # mute: every payment counts


# ---------------------------------------------------------------------- bounds


def test_memory_is_bounded_in_size_and_age_and_what_may_become_an_alarm_goes_last(tmp_path):
    memory = begun(tmp_path, 0.5, 1_000_000)
    memory.set(keep_most=1000)
    for i in range(300):
        ask(memory, f"x{i}")
    for i in range(2000):
        ask(memory, f"g{i}", LOW)
    names = [name for (name,) in memory.database.rows("SELECT fingerprint FROM verdicts")]
    assert len(names) <= 1000 + 256
    assert {f"x{i}" for i in range(300)} <= set(names)
    assert "g1999" in names
    aged(memory, 61)
    for i in range(256):
        ask(memory, f"new{i}", LOW)
    names = {name for (name,) in memory.database.rows("SELECT fingerprint FROM verdicts")}
    assert all(name.startswith("new") for name in names)


def test_scores_and_ledger_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "SPARE", 50)
    monkeypatch.setattr(ledger, "RECENT", 40)
    monkeypatch.setattr(ledger, "MOST_ROWS", 30)
    memory = begun(tmp_path, 0.5, 1000)
    draw = random.Random(1)
    for i in range(600):
        spam, score = draw.random() < 0.3, draw.gauss(0, 1)
        ask(memory, f"f{i}", [score])
        memory.record_label(f"f{i}", "spam" if spam else "ham")
    assert memory.database.rows("SELECT count(*) FROM scores WHERE positive")[0][0] <= 40
    assert memory.database.rows("SELECT count(*) FROM ledger")[0][0] <= 30


# ---------------------------------------------------------------------- several classes


def test_every_class_has_its_own_budget(tmp_path):
    memory = begun(tmp_path, 0.25, 1, labels=("a", "b", "c"))
    assert ask(memory, "x", [-5.0, 9.0, -5.0], THREE) == "b"
    assert memory.record_label("x", "c").alarm
    force = memory.in_force()
    assert [force[label].mute for label in "abc"] == [False, True, False]
    assert [state_of(memory, label).negatives for label in "abc"] == [1, 1, 0]
    assert ask(memory, "y", [-5.0, 9.0, -5.0], THREE) == "unsure"
    assert ask(memory, "z", [-5.0, 9.0, 7.0], THREE) == "c"


# ---------------------------------------------------------------------- the file


def test_files_that_are_none_of_ours_are_refused(tmp_path):
    with pytest.raises(BadModel, match="missing"):
        Database(str(tmp_path))
    assert not os.listdir(tmp_path)
    (tmp_path / NAME).write_bytes(b"not a database at all, whatever it is" * 100)
    with pytest.raises(BadModel):
        Database(str(tmp_path))
    (tmp_path / NAME).unlink()
    begun(tmp_path).close()
    with sqlite3.connect(tmp_path / NAME) as file:
        file.execute("CREATE TRIGGER forgive AFTER INSERT ON verdicts BEGIN UPDATE budgets SET debt = 0; END")
    file.close()
    with pytest.raises(BadModel, match="trigger"):
        Database(str(tmp_path))
    with sqlite3.connect(tmp_path / NAME) as file:
        file.execute("DROP TRIGGER forgive")
        file.execute("PRAGMA user_version=7")
    file.close()
    with pytest.raises(NewerModel, match="version 7"):
        Database(str(tmp_path))


def test_a_failed_transaction_leaves_nothing(tmp_path):
    memory = begun(tmp_path)
    before = state_of(memory)

    def fail():
        with memory.database.writing():
            ledger.record(memory.database, "spam", True, "x", None)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert state_of(memory) == before


@pytest.mark.parametrize(
    ("rate", "burst", "message"),
    [(0, 5, "rate"), (1, 5, "rate"), (float("nan"), 5, "rate"), (0.1, 0.5, "burst"), (0.1, 1e9, "burst")],
)
def test_bad_terms_are_refused_and_leave_nothing(tmp_path, rate, burst, message):
    memory = Memory(str(tmp_path), create=True)
    with pytest.raises(ValueError, match=message), memory.database.writing():
        ledger.set_terms(memory.database, "spam", 0, rate, burst)
    assert ledger.budgets(memory.database) == {}


def test_permissions_are_those_of_the_folder(tmp_path):
    tmp_path.chmod(0o770)
    begun(tmp_path).close()
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o660


def test_the_ledger_says_what_happened(tmp_path):
    memory = begun(tmp_path, 0.25, 3)
    for i in range(3):
        ask(memory, f"g{i}", LOW)
        memory.record_label(f"g{i}", "ham")
    ask(memory, "x")
    memory.record_label("x", "ham", lesson=Lesson("ann"))
    rows = ledger.ledger(memory.database)
    assert [(row["kind"], row["documents"]) for row in rows] == [("alarm", 1), ("paid", 3), ("terms", 0)]
    assert (rows[0]["debt"], rows[0]["left"], rows[0]["fingerprint"], rows[0]["who"]) == (1.0, 2, "x", "ann")
    json.dumps(rows)
