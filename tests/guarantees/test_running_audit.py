"""Bounds on the mean false-alarm rate so far: the figures, merging, and streams that drift, learn and resist."""

import functools
import json
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

import surebayes as sb
from surebayes.guarantees.running_audit import _LOWER, _UPPER, log_mixture


@pytest.mark.parametrize(
    ("n", "alarms", "lower", "upper"),
    [(3_000, 0, 0.0, 0.0016), (8_000, 28, 0.0015, 0.00599), (100_000, 100, 0.00066, 0.0014)],
)
def test_bounds(n, alarms, lower, upper):
    audit = sb.AlarmAudit().add(np.arange(n) < alarms)
    assert audit.lower == pytest.approx(lower, abs=0.00005)
    assert audit.upper == pytest.approx(upper, abs=0.00005)


def test_nothing_seen_excludes_nothing():
    assert (sb.AlarmAudit().lower, sb.AlarmAudit().upper) == (0.0, 1.0)


@given(n=st.integers(1, 10**6), share=st.floats(0, 1), confidence=st.sampled_from([0.5, 0.95, 0.999]))
def test_bounds_enclose_what_was_observed(n, share, confidence):
    alarms = int(share * n)
    audit = sb.AlarmAudit.from_dict({"confidence": confidence, "n": n, "alarms": alarms})
    assert 0 <= audit.lower <= alarms / n <= audit.upper <= 1


@given(st.lists(st.booleans(), max_size=50), st.lists(st.booleans(), max_size=50))
def test_merged_audits_are_one(first, second):
    together = sb.AlarmAudit().add(first + second)
    merged = sb.AlarmAudit().add(first).merge(sb.AlarmAudit().add(second))
    assert merged == together
    assert (merged.lower, merged.upper) == (together.lower, together.upper)


def steady(k, n):
    return np.full_like(k, 0.01)


def drifting(k, n):
    return np.full_like(k, 0.002 + 0.03 * (n > 1000))


def learning(k, n):
    return 0.3 / (3 + k)


def resisting(k, n):  # rare alarms while the count looks high, frequent ones while it looks low
    return np.where(k > 0.01 * n, 0.001, 0.03)


@pytest.mark.parametrize("rates", [steady, drifting, learning, resisting])
def test_bounds_hold_at_all_times(rates):
    """The bounds exclude the true mean iff a mixture reaches 2 / delta there: counted over whole streams."""
    streams, length, enough = 600, 3_000, math.log(2 / 0.05)
    generator, k, total = np.random.default_rng(5), np.zeros(600), np.zeros(600)
    broken = np.zeros(streams, bool)
    for n in range(1, length + 1):
        p = rates(k, n - 1)
        total += p
        k += generator.random(streams) < p
        if n % 25 == 0 or n < 50:
            mean = (total / n)[:, None]
            for mixture in (_LOWER, _UPPER):
                exponents, log_weights = mixture
                terms = exponents * k[:, None] - n * np.log1p(mean * np.expm1(exponents)) + log_weights
                broken |= np.logaddexp.reduce(terms, axis=1) >= enough
    assert broken.mean() < 0.05 + 3 * math.sqrt(0.05 * 0.95 / streams)
    assert log_mixture(length, int(k[0]), float(mean[0, 0]), mixture) == pytest.approx(
        float(np.logaddexp.reduce(terms[0]))
    )


def test_weights_of_a_mixture_add_up_to_one():
    for exponents, log_weights in (_LOWER, _UPPER):
        assert np.exp(log_weights).sum() == pytest.approx(1, abs=1e-12)
        assert len(exponents) == len(log_weights)
    assert (_LOWER[0] > 0).all()
    assert (_UPPER[0] < 0).all()


@given(n=st.integers(100, 10**7))
def test_without_alarms_the_bound_is_below_five_of_all(n):
    assert sb.AlarmAudit.of_counts(n, 0).upper <= 5 / n


@pytest.mark.parametrize("bad", [0.5, [0, 2], "yes", [[True]], [None]])
def test_bad_alarms_change_nothing(bad):
    audit = sb.AlarmAudit().add([True, False])
    with pytest.raises(ValueError, match="alarms must be"):
        audit.add(bad)
    assert audit.to_dict() == {"confidence": 0.95, "n": 2, "alarms": 1}


def test_audits_of_other_confidences_are_not_merged():
    with pytest.raises(ValueError, match="can be merged only"):
        sb.AlarmAudit(0.9).merge(sb.AlarmAudit(0.95))


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95])
def test_bad_confidence(confidence):
    with pytest.raises(ValueError, match="confidence must lie in"):
        sb.AlarmAudit(confidence)


# ---------------------------------------------------------------------- several processes, correct labels told twice


@given(
    stream=st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=60),
    processes=st.lists(st.integers(0, 2), min_size=60, max_size=60),
)
def test_audits_of_several_processes_are_one_that_saw_all_in_that_order(stream, processes):
    """Property: named documents may reach several processes, some of them twice."""
    apart = [sb.AlarmAudit() for _ in range(3)]
    for (name, alarm), process in zip(stream, processes):
        apart[process].add(alarm, ids=f"mail {name}")
    one = sb.AlarmAudit()
    for process in range(3):  # in the order of the merge
        for (name, alarm), where in zip(stream, processes):
            if where == process:
                one.add(alarm, ids=f"mail {name}")
    restarted = [sb.AlarmAudit.from_dict(json.loads(json.dumps(each.to_dict()))) for each in apart]
    merged = restarted[0].merge(restarted[1]).merge(restarted[2])
    assert merged == one
    assert (merged.lower, merged.upper) == (one.lower, one.upper)
    first = {}
    for process in range(3):
        for (name, alarm), where in zip(stream, processes):
            if where == process:
                first.setdefault(name, alarm)
    assert (one.n, one.alarms) == (len(first), sum(first.values()))


def test_a_million_documents_take_little_time_and_memory():
    audit = sb.AlarmAudit()
    alarms = np.random.default_rng(1).random(10**6) < 0.001
    began = time.process_time()
    for part in np.array_split(alarms, 10_000):
        audit.add(part)
    assert audit.lower < 0.001 < audit.upper
    assert time.process_time() - began < 5  # .1 s alone
    assert len(json.dumps(audit.to_dict())) < 100
    assert sb.AlarmAudit().add(True).add(False).to_dict() == {"confidence": 0.95, "n": 2, "alarms": 1}


@pytest.mark.parametrize(("n", "alarms"), [(3, 4), (3, -1), (-1, 0)])
def test_counts_that_can_not_be(n, alarms):
    with pytest.raises(ValueError, match="alarms must be from 0 to n"):
        sb.AlarmAudit.of_counts(n, alarms)


@pytest.mark.parametrize("ids", [["a"], [1, 2]])
def test_bad_ids_change_nothing(ids):
    audit = sb.AlarmAudit().add([True], ids=["a"])
    before = audit.to_dict()
    with pytest.raises(ValueError, match="ids must"):
        audit.add([True, False], ids=ids)
    assert audit.to_dict() == before


# ---------------------------------------------------------------------- the law over many streams


@functools.cache
def limits(length):
    """The bounds for every count of alarms up to what these streams reach, at some lengths."""
    table = {}
    for n in np.unique(np.geomspace(10, length, 60).astype(int)).tolist():
        every = [sb.AlarmAudit.of_counts(n, k) for k in range(min(n, int(0.02 * n) + 60) + 1)]
        table[n] = np.array([[audit.lower, audit.upper] for audit in every])
    return table


def waiting(k, n):  # an adversary who makes the mean low and then lets many through, and the other way round
    return np.where((n // 700) % 2 == 0, 0.0002, np.where(k < 0.004 * n, 0.012, 0.0004))


@pytest.mark.slow
@pytest.mark.parametrize("rates", [drifting, learning, resisting, waiting])
def test_both_bounds_over_20_000_streams(rates):
    streams, length = 20_000, 3_000
    generator, k, total = np.random.default_rng(6), np.zeros(streams, int), np.zeros(streams)
    broken, table = np.zeros(streams, bool), limits(3_000)
    for n in range(1, length + 1):
        p = np.broadcast_to(rates(k.astype(float), n - 1), k.shape)
        total += p
        k += generator.random(streams) < p
        if n in table:
            bounds = table[n][np.minimum(k, len(table[n]) - 1)]
            known = k < len(table[n])
            broken |= known & ((total / n < bounds[:, 0]) | (total / n > bounds[:, 1]))
    assert broken.mean() <= 0.05


# ---------------------------------------------------------------------- what no audit can do


def passed(slope, start, rate, steps=150):
    """Return the exact probability that expected alarms ever pass slope x alarms + start within so many steps."""
    alive, n, total = np.array([1.0]), 0, 0.0
    for alarms in range(steps):
        later = math.floor((slope * alarms + start) / rate + 1e-9) + 1
        alive = np.convolve(alive, stats.binom.pmf(np.arange(250), later - n, rate))[:400]
        total, n = total + alive[: alarms + 1].sum(), later
        alive[: alarms + 1] = 0
    return total


@pytest.mark.parametrize("rate", [0.001, 0.01])
def test_no_audit_keeps_the_line_of_one_and_a_half(rate):
    """docs/decisions/no-audit-keeps-a-line.md."""
    decay = optimize.brentq(lambda d: 1 - rate + rate * np.exp(-1.5 * d) - np.exp(-d * rate), 0.1, 1.5)
    assert passed(1.5, 5, rate) == pytest.approx(np.exp(-(5 + rate) * decay), rel=1e-3)
    assert passed(1.5, 5, rate) > 0.0525
    assert passed(1.5, 5.15, rate) < 0.05 > passed(1.53, 5, rate)


def test_the_best_line_is_that_of_one_exponent():
    decay = optimize.brentq(lambda d: np.exp(-1.5 * d) - 1 + d, 0.1, 0.99)
    bound = [(1.5 * decay * k + math.log(20)) / -math.expm1(-1.5 * decay) for k in (0, 1, 36)]
    assert bound == pytest.approx([5.14, 6.64, 59.14], abs=0.01)


def test_the_bound_stays_near_the_line():
    above = [10**6 * sb.AlarmAudit.of_counts(10**6, k).upper - (1.5 * k + 5) for k in range(101)]
    assert max(above) < 1.25
    assert max(above[0], *above[36:]) <= 0
    assert max(above[:11]) < 0.95
