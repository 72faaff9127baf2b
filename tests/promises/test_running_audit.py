"""Bounds on the mean false-alarm rate so far: the figures, merging, and streams that drift, learn and resist."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surebayes as sb
from surebayes.promises.running_audit import _EXPONENTS, log_mixture


@pytest.mark.parametrize(
    ("n", "alarms", "lower", "upper"),
    [(3_000, 0, 0.0, 0.0021), (8_000, 28, 0.0017, 0.0062), (100_000, 100, 0.0007, 0.00138)],
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
            for exponents in (_EXPONENTS, -_EXPONENTS):
                terms = exponents * k[:, None] - n * np.log1p(mean * np.expm1(exponents))
                broken |= np.logaddexp.reduce(terms, axis=1) - math.log(len(exponents)) >= enough
    assert broken.mean() < 0.05 + 3 * math.sqrt(0.05 * 0.95 / streams)
    assert log_mixture(length, int(k[0]), float(mean[0, 0]), exponents) == pytest.approx(
        float(np.logaddexp.reduce(terms[0]) - math.log(len(exponents)))
    )


@pytest.mark.parametrize("bad", [0.5, [0, 2], "yes", [[True]], [None]])
def test_bad_alarms_change_nothing(bad):
    audit = sb.AlarmAudit().add([True, False])
    with pytest.raises(ValueError, match="alarms must be"):
        audit.add(bad)
    assert audit.to_dict() == {"confidence": 0.95, "n": 2, "alarms": 1}


def test_audits_of_other_confidences_are_not_merged():
    with pytest.raises(ValueError, match="can't be merged"):
        sb.AlarmAudit(0.9).merge(sb.AlarmAudit(0.95))


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95])
def test_bad_confidence(confidence):
    with pytest.raises(ValueError, match="confidence must lie in"):
        sb.AlarmAudit(confidence)
