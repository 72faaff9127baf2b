"""What went through a filter day by day, and correct labels held against its promise."""

import threading
import time

import pytest

import surebayes as sb
from surebayes import synthetic
from surebayes.cli.doctor import _certificate
from surebayes.filter.filter import _unless_contradicted


@pytest.fixture
def mine(tmp_path):
    raws, labels = synthetic.as_lists(700, 5)
    with sb.Filter.create(tmp_path / "filter", model="words") as opened:
        opened.train(zip(raws[:600], labels[:600]), reserve=0.5)
        opened.later = [(raw, label) for raw, label in zip(raws[600:], labels[600:])]
        yield opened


def test_days_are_counted(mine):
    empty = mine.activity(7)
    assert len(empty["days"]) == len(empty["verdicts"]) == len(empty["lessons"]) == 7
    assert not any(empty["lessons"])  # a training is no lesson of anybody
    mine.remember(always=True)
    labels = [mine.judge(raw).label for raw, _ in mine.later[:20]]
    mine.teach(mine.later[0][0], mine.later[0][1], "ann")
    mine.forget(mine.later[0][0])
    activity = mine.activity(7)
    assert activity["days"][-1] == time.strftime("%Y-%m-%d", time.gmtime())
    assert activity["verdicts"][-1] == {label: labels.count(label) for label in set(labels)}
    assert activity["lessons"][-1] == {mine.later[0][1]: 1, "forget": 1}


def test_truths_are_held_against_the_promise(mine):
    mine.remember(always=True)
    assert mine.drift() is None  # nothing is promised
    mine.calibrate(0.05)
    good = [raw for raw, label in mine.later if label == "ham"][20:32]
    for raw in good:
        verdict = mine.judge(raw)
        assert verdict.label == "ham"
        mine.set_label(next(row.id for row in mine.remembered() if row.fingerprint == verdict.fingerprint), "ham")
    quiet = mine.drift()
    known = quiet["seen"]
    assert known >= len(good)
    assert (quiet["errors"], quiet["alarm"], quiet["promised"]) == (0, False, 0.05)
    assert quiet["curve"][-1] == (known, 0)


def test_alarms_are_evidence(mine):
    mine.remember(always=True)
    mine.calibrate(0.05)
    flagged = [raw for raw, label in mine.later if label == "spam"]
    for raw in flagged:  # messages that are called spam, and their owner says that they aren't
        verdict = mine.judge(raw)
        if verdict.label == "spam":
            row = next(row.id for row in mine.remembered(limit=1000) if row.fingerprint == verdict.fingerprint)
            mine.set_label(row, "ham")
    after = mine.drift()
    assert after["errors"] > 10
    assert after["evidence"] > after["line"]
    assert after["alarm"]


def tell_all(mine, documents, truth):
    numbers = {row.fingerprint: row.id for row in mine.remembered(limit=1000)}
    for verdict in documents:
        mine.set_label(numbers[verdict.fingerprint], truth)
    return [numbers[verdict.fingerprint] for verdict in documents]


def test_what_is_told_later_is_added_and_what_is_taken_back_is_not_counted(mine):
    mine.remember(always=True)
    mine.calibrate(0.05)
    judged = [mine.judge(raw) for raw, _ in mine.later]

    def replayed():
        """The same from the beginning, by somebody who has seen nothing yet."""
        with sb.Filter.open(mine.path) as other:
            return other.drift()

    assert mine.drift() is None
    told = tell_all(mine, judged[:30], "ham")
    assert mine.drift()["seen"] == 30
    tell_all(mine, judged[30:50], "ham")
    later = mine.drift()
    assert later["seen"] == 50
    assert 0 < later["errors"] == sum(verdict.label == "spam" for verdict in judged[:50])
    assert later == replayed()
    assert later["curve"][-1] == (50, later["errors"])
    mine.clear_label(told[3])
    mine.clear_label(told[7])
    assert mine.drift() == replayed()
    assert mine.drift()["seen"] == 48


def teach_and_renew(mine):
    """Teach what makes the certificate stale, and renew it."""
    raws, labels = synthetic.as_lists(5, 6)
    with mine.bulk(renew=True):
        for raw, label in zip(raws, labels):
            mine.teach(raw, label)
    assert not mine.certificate.stale


def test_a_promise_answers_for_its_own_verdicts_alone(mine):
    mine.remember(always=True)
    mine.calibrate(0.05)
    judged = [mine.judge(raw) for raw, label in mine.later if label == "spam"]
    flagged = [verdict for verdict in judged if verdict.label == "spam"]
    tell_all(mine, flagged[:20], "ham")
    assert mine.drift()["alarm"]
    status = mine.status()
    assert (status["certificate"]["state"], status["promise"]["spam"]["state"]) == ("revoked", "revoked")
    assert status["certificate"]["reason"] == "20 false alarms in 20 known good messages contradict it"
    assert _certificate(mine.path, status["certificate"], status["reserved"]).state == "problem"
    teach_and_renew(mine)
    assert mine.drift()["seen"] == 20  # the same promise, for a filter that has learnt more
    mine.calibrate(0.02)
    assert mine.drift() is None
    tell_all(mine, flagged[20:25], "ham")  # told later, of verdicts that were given before
    assert mine.drift() is None
    good = [mine.judge(raw) for raw, label in mine.later if label == "ham"][:10]
    tell_all(mine, good, "ham")
    errors = sum(verdict.label == "spam" for verdict in good)
    assert [mine.drift()[name] for name in ("seen", "errors", "promised")] == [10, errors, 0.02]
    with sb.Filter.open(mine.path) as other:
        assert other.drift() == mine.drift()


def test_the_latest_truths_are_looked_at(mine, monkeypatch):
    monkeypatch.setattr("surebayes.filter.verdicts.activity.MOST_TRUTHS", 20)
    mine.remember(always=True)
    mine.calibrate(0.05)
    judged = [mine.judge(raw) for raw, _ in mine.later[:70]]
    tell_all(mine, judged[:30], "ham")
    assert mine.drift()["seen"] == 20
    tell_all(mine, judged[30:40], "ham")
    assert mine.drift()["seen"] == 30
    tell_all(mine, judged[40:], "ham")
    mine.drift()
    found = mine.drift()  # more than twice as many: begun again with the latest
    assert found["seen"] == 20
    assert found["errors"] == sum(verdict.label == "spam" for verdict in judged[50:70])


def test_nobody_who_judges_waits_for_a_search(mine):
    mine.remember(always=True)
    mine.judge(mine.later[0][0])
    begun, go_on, found = threading.Event(), threading.Event(), []

    def slow_search(database):
        begun.set()
        assert go_on.wait(60)
        return database.rows("SELECT count(*) FROM verdicts")[0][0]

    searching = threading.Thread(target=lambda: found.append(mine._recorder.memory.search(slow_search)))
    searching.start()
    assert begun.wait(60)
    judging = threading.Thread(target=mine.judge, args=(mine.later[1][0],))
    judging.start()
    judging.join(60)
    waits = judging.is_alive()
    go_on.set()
    searching.join(60)
    assert not waits
    assert found[0] >= 1
    assert len(mine.remembered()) == 2  # a search that begins later finds it


def test_red_is_a_promise_that_known_mail_contradicts():
    made = {"state": "being renewed", "stale": True, "renewed": "after 3 more lessons", "reason": "learnt"}
    quiet = {"alarm": False, "errors": 1, "seen": 900}
    assert _unless_contradicted(made, None) == _unless_contradicted(made, quiet) == made
    broken = _unless_contradicted(made, {"alarm": True, "errors": 40, "seen": 900})
    assert (broken["state"], broken["renewed"], broken["contradicted"]) == ("revoked", None, True)
    assert broken["reason"] == "40 false alarms in 900 known good messages contradict it"
