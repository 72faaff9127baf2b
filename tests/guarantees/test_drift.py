"""Monitors: quiet at their stated rate without a change, loud after one."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from surebayes.guarantees.certifying import certify
from surebayes.guarantees.drift import DriftMonitor, ScoreMonitor

MAX_FPR = 0.02


def certificate(max_fpr=MAX_FPR, **others):
    random = np.random.default_rng(0)
    positive = np.arange(20_000) % 4 == 0
    return certify(random.normal(size=20_000) + 3 * positive, positive, max_fpr=max_fpr, **others)


def negatives_at_rate(random, threshold, rate, n):
    """Normal scores of negatives of which exactly that share is expected above the threshold."""
    return random.normal(size=n) + (threshold - stats.norm.isf(rate))


@pytest.mark.parametrize("false_alarm", [0.05, 0.2])
def test_a_promise_that_holds_is_revoked_at_most_at_the_stated_rate(false_alarm):
    """The hardest case: the rate is exactly the promised one, over 200 streams of 3,000 negatives."""
    c = certificate()
    alarms = 0
    for seed in range(200):
        scores = negatives_at_rate(np.random.default_rng(seed), c.threshold, MAX_FPR, 3000)
        alarms += DriftMonitor(c, false_alarm=false_alarm).update(scores, np.zeros(3000, bool)).revoked
    assert alarms <= stats.binom.ppf(1 - 1e-6, 200, false_alarm)


def test_capital_can_not_be_expected_to_grow():
    """Exactly: over all sequences of errors the mean capital stays 1 while the rate is the promised one."""
    rate, rows = 0.3, 9
    c = certificate(max_fpr=rate)
    total = 0.0
    for code in range(2**rows):
        errors = np.array([(code >> i) & 1 for i in range(rows)], dtype=bool)
        monitor = DriftMonitor(c, false_alarm=1e-9)
        monitor.update(np.where(errors, c.threshold + 1, c.threshold), np.zeros(rows, bool))
        total += monitor._capital.total * rate ** errors.sum() * (1 - rate) ** (rows - errors.sum())
    assert total == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("quiet", [0, 2000, 20_000])
def test_an_injected_shift_is_noticed(quiet):
    """Five times the promised rate after a quiet time: noticed within a few hundred negatives."""
    c = certificate()
    late = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        monitor = DriftMonitor(c)
        monitor.update(negatives_at_rate(random, c.threshold, MAX_FPR / 2, quiet), np.zeros(quiet, bool))
        assert not monitor.revoked
        for _ in range(60):
            monitor.update(negatives_at_rate(random, c.threshold, 5 * MAX_FPR, 50), np.zeros(50, bool))
            if monitor.revoked:
                break
        assert monitor.revoked
        late.append(monitor.seen - quiet)
    assert np.median(late) <= 600


def test_a_small_shift_takes_longer_but_is_noticed():
    c = certificate()
    random = np.random.default_rng(3)
    monitor = DriftMonitor(c).update(
        negatives_at_rate(random, c.threshold, 2 * MAX_FPR, 10_000), np.zeros(10_000, bool)
    )
    assert monitor.revoked


def test_what_it_says():
    c = certificate()
    monitor = DriftMonitor(c)
    before = monitor.report()
    assert (before.alarm, before.seen, before.errors, tuple(before.rate_interval)) == (False, 0, 0, (0.0, 1.0))
    assert before.advice.startswith("Nothing to do")
    monitor.update(np.full(30, c.threshold + 1), np.zeros(30, bool))
    report = monitor.report()
    assert (report.alarm, report.seen, report.errors) == (True, 30, 30)
    assert report.evidence >= 100
    assert "calibrate again on recent rows" in report.advice
    assert "at least 149 negatives" in report.advice
    assert monitor.certificate.stale
    assert not c.stale  # the one that was handed in is left as it was
    assert "where at most 0.02 were promised" in monitor.certificate.reason
    # it stays revoked, and evidence stays a number however long the drift lasts
    reason = monitor.certificate.reason
    monitor.update(np.full(3000, c.threshold + 1), np.zeros(3000, bool))
    assert math.isfinite(monitor.evidence)
    assert monitor.certificate.reason == reason


def test_only_rows_that_count_are_counted():
    scores, positive = np.array([9.0, 9.0, -9.0, -9.0]), np.array([True, False, True, False])
    alarms = DriftMonitor(certificate()).update(scores, positive)
    assert (alarms.seen, alarms.errors) == (2, 1)
    recall = DriftMonitor(certificate(max_fpr=None, min_recall=0.9)).update(scores, positive)
    assert (recall.seen, recall.errors, recall.promised_rate) == (2, 1, pytest.approx(0.1))
    precision = DriftMonitor(certificate(max_fpr=None, min_precision=0.8)).update(scores, positive)
    assert (precision.seen, precision.errors, precision.promised_rate) == (2, 1, pytest.approx(0.2))
    tie = DriftMonitor(certificate())
    assert tie.update([tie.certificate.threshold], [False]).errors == 0  # at the threshold is not above it


@pytest.mark.parametrize("goal", [{"min_recall": 0.9}, {"min_precision": 0.8}])
def test_other_promises_are_watched_too(goal):
    c = certificate(max_fpr=None, **goal)
    random = np.random.default_rng(0)
    positive = np.arange(4000) % 4 == 0
    assert not DriftMonitor(c).update(random.normal(size=4000) + 3 * positive, positive).revoked
    worse = random.normal(size=4000) + (1.5 if "min_recall" in goal else 0.0) * positive + ("min_precision" in goal)
    monitor = DriftMonitor(c).update(worse, positive)
    assert monitor.revoked
    assert {"min_recall": "positives", "min_precision": "alarms"}[c.goal] in monitor.report().advice


def test_state_survives_a_restart():
    c = certificate()
    random = np.random.default_rng(5)
    scores = negatives_at_rate(random, c.threshold, 2 * MAX_FPR, 600)
    whole = DriftMonitor(c).update(scores, np.zeros(600, bool))
    first = DriftMonitor(c).update(scores[:250], np.zeros(250, bool))
    again = DriftMonitor.from_dict(json.loads(json.dumps(first.to_dict()))).update(scores[250:], np.zeros(350, bool))
    assert again.to_dict() == whole.to_dict()
    one_by_one = DriftMonitor(c)
    for score in scores:
        one_by_one.update(score, False)
    assert one_by_one.to_dict() == whole.to_dict()


def test_bad_input():
    c = certificate()
    with pytest.raises(ValueError, match="false_alarm must lie in"):
        DriftMonitor(c, false_alarm=0)
    with pytest.raises(ValueError, match="one length"):
        DriftMonitor(c).update([1.0, 2.0], [True])
    with pytest.raises(ValueError, match="NaN"):
        DriftMonitor(c).update([math.nan], [False])
    with pytest.raises(ValueError, match="at least one score"):
        ScoreMonitor([])
    with pytest.raises(ValueError, match="without NaN"):
        ScoreMonitor([1.0]).update([math.nan])
    with pytest.raises(ValueError, match="false_alarm must lie in"):
        ScoreMonitor([1.0], false_alarm=1)


# ---------------------------------------------------------------------- without labels


@pytest.mark.parametrize("kind", ["continuous", "ties", "constant"])
def test_unchanged_scores_raise_alarms_at_most_at_the_stated_rate(kind):
    alarms = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        scores = random.normal(size=2000)
        scores = {"continuous": scores, "ties": np.round(scores), "constant": np.zeros(2000)}[kind]
        alarms += ScoreMonitor(scores[:500], false_alarm=0.1, seed=seed).update(scores[500:]).alarm
    assert alarms <= stats.binom.ppf(1 - 1e-6, 100, 0.1)


@pytest.mark.parametrize(
    "change",
    [
        lambda random, n: random.normal(size=n) + 0.4,
        lambda random, n: random.normal(size=n) - 0.4,
        lambda random, n: random.normal(size=n) * 2,
        lambda random, n: np.where(random.random(n) < 0.1, 4.0, random.normal(size=n)),
    ],
    ids=["up", "down", "wider", "new cluster"],
)
def test_changed_scores_raise_an_alarm(change):
    for seed in range(10):
        random = np.random.default_rng(seed)
        monitor = ScoreMonitor(random.normal(size=2000)).update(random.normal(size=1000))
        assert not monitor.alarm
        assert monitor.report().startswith("Nothing to do")
        assert monitor.update(change(random, 2000)).alarm
        assert "give it to DriftMonitor" in monitor.report()
        assert monitor.seen == 3000
