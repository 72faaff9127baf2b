"""Certificates that hold at all times at once: the figures, the law of batches, and streams that try to break them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

import surebayes as sb
from strategies import score_streams
from surebayes.promises.anytime import _allowed, log_evidence


def test_allowed_by_number_of_documents():
    scores = np.random.default_rng(1).normal(size=100_000)
    certificate = sb.AnytimeCertificate(rate=0.001, confidence=0.95)
    assert (certificate.allowed, certificate.threshold) == (-1, math.inf)
    allowed, done = [], 0
    for n in (3_786, 3_787, 10_000, 20_000, 50_000, 100_000):
        allowed.append(certificate.add(scores[done:n]).allowed)
        done = n
    assert allowed == [-1, 0, 2, 8, 29, 69]
    assert certificate.needed == 0


@pytest.mark.parametrize(("n", "k", "rate"), [(50, 0, 0.1), (400, 3, 0.02), (30, 7, 0.3)])
def test_evidence_is_the_mixture_of_likelihood_ratios(n, k, rate):
    def ratio(u):
        p = rate * u * u
        return (p / rate) ** k * ((1 - p) / (1 - rate)) ** (n - k)

    assert math.exp(log_evidence(n, k, rate)) == pytest.approx(integrate.quad(ratio, 0, 1)[0], rel=1e-9)


@given(n=st.integers(1, 3000), rate=st.sampled_from([0.001, 0.01, 0.2]))
def test_evidence_falls_with_alarms(n, rate):
    values = [log_evidence(n, k, rate) for k in range(min(n, 20) + 1)]
    assert values == sorted(values, reverse=True)


@given(stream=score_streams(), rate=st.sampled_from([0.05, 0.3]))
def test_batches_change_nothing(stream, rate):
    scores, cuts = stream
    at_once = sb.AnytimeCertificate(rate, 0.6).add(scores)
    in_parts = sb.AnytimeCertificate(rate, 0.6)
    for part in np.split(scores, cuts):
        in_parts = sb.AnytimeCertificate.from_dict(in_parts.add(part).to_dict())  # a restart after each
    one_by_one = sb.AnytimeCertificate(rate, 0.6)
    for score in scores:
        one_by_one.add(score)
    assert at_once == in_parts == one_by_one
    assert (at_once.allowed, at_once.needed) == (in_parts.allowed, in_parts.needed)


@given(stream=score_streams(), rate=st.sampled_from([0.05, 0.3]))
def test_threshold_is_the_lowest_ever_certified(stream, rate):
    scores, _ = stream
    enough, lowest = -math.log1p(-0.6), math.inf
    for n in range(1, len(scores) + 1):
        k = _allowed(n, rate, enough)
        if k >= 0:
            lowest = min(lowest, np.sort(scores[:n])[::-1][k])
    assert sb.AnytimeCertificate(rate, 0.6).add(scores).threshold == lowest


def test_memory_stays_small_and_the_threshold_exact():
    scores = np.random.default_rng(2).normal(size=300_000)
    certificate = sb.AnytimeCertificate(0.001, 0.95).add(scores)
    assert len(certificate.to_dict()["top"]) < 2_000
    assert certificate.threshold <= np.sort(scores)[::-1][certificate.allowed]


@pytest.mark.parametrize("order", [1, -1], ids=["rising", "falling"])
def test_dropped_scores_never_lower_the_threshold(order):
    scores = np.sort(np.random.default_rng(3).normal(size=60_000))[::order]
    certificate = sb.AnytimeCertificate(0.01, 0.95).add(scores)
    exact, enough = math.inf, -math.log1p(-0.95)
    for n in range(100, len(scores) + 1, 50):
        if (k := _allowed(n, 0.01, enough)) >= 0:
            exact = min(exact, np.partition(scores[:n], n - 1 - k)[n - 1 - k])
    assert certificate.threshold >= exact or certificate.threshold == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize("rate", [0.001, 0.01])
def test_promises_are_broken_no_more_often_than_stated(rate):
    """An adversary who looks after every document: broken iff ever too few scores fall into the top `rate`."""
    streams, most = 4_000, int(60 / rate)
    certificate, moments = sb.AnytimeCertificate(rate, 0.95), []
    while certificate.n < most:
        certificate.add(np.zeros(certificate._next - certificate.n))
        moments.append((certificate.n, certificate.allowed))
    generator = np.random.default_rng(4)
    steps = np.diff([0, *(n for n, _ in moments)])
    in_the_top = generator.binomial(steps, rate, (streams, len(steps))).cumsum(axis=1)
    broken = (in_the_top <= np.array([k for _, k in moments])).any(axis=1).mean()
    assert 0.02 < broken < 0.05 + 3 * math.sqrt(0.05 * 0.95 / streams)


@pytest.mark.parametrize("bad", [dict(rate=0), dict(rate=1.5), dict(confidence=1), dict(rate=math.nan)])
def test_bad_parameters(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must lie in"):
        sb.AnytimeCertificate(**bad)


@pytest.mark.parametrize("bad", [[1.0, math.nan], [[1.0], [2.0]], "high"])
def test_bad_scores_change_nothing(bad):
    certificate = sb.AnytimeCertificate(0.1, 0.9).add([1.0, 2.0])
    before = certificate.to_dict()
    with pytest.raises(ValueError, match=r"scores|convert"):
        certificate.add(bad)
    assert certificate.to_dict() == before
