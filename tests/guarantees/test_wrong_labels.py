"""Promises that stay exact although labels are wrong, renewals are many, and corrections empty the reserve."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import surebayes as sb
from surebayes.errors import NotEnoughNegatives
from surebayes.guarantees.certifying import certify
from surebayes.guarantees.guaranteed_threshold import GuaranteedThreshold
from surebayes.guarantees.order_statistics import (
    allowed_errors,
    confidence_of_renewal,
    negatives_needed,
    order_statistic_threshold,
    smallest_rate,
)

RUNS = 400


def broken(thresholds, max_fpr):
    """How many thresholds let more than was promised of a standard normal stream through."""
    return int(np.sum(stats.norm.sf(thresholds) > max_fpr))


def most(confidence):
    """What the binomial bound allows over all runs, but for a chance of one in a million."""
    return stats.binom.ppf(1 - 1e-6, RUNS, 1 - confidence)


@pytest.mark.parametrize(("max_fpr", "confidence", "n", "m"), [(0.02, 0.9, 1000, 5), (0.05, 0.95, 400, 3)])
def test_400_calibrations_without_their_highest_negatives(max_fpr, confidence, n, m):
    """The negatives that look most like positives were labelled positive."""
    trusting, careful = [], []
    for seed in range(RUNS):
        negatives = np.sort(np.random.default_rng(seed).normal(size=n))
        scores = np.concatenate((negatives, [9.0]))
        labels = np.arange(n + 1) >= n - m
        trusting.append(certify(scores, labels, max_fpr=max_fpr, confidence=confidence).threshold)
        careful.append(certify(scores, labels, max_fpr=max_fpr, confidence=confidence, mislabelled=(0, m)).threshold)
    assert broken(careful, max_fpr) <= most(confidence)
    assert broken(trusting, max_fpr) > most(confidence)


def test_400_calibrations_with_foreign_documents_among_the_negatives():
    """Documents that score low swell the sample: without them fewer may lie above."""
    max_fpr, confidence, n, a = 0.02, 0.9, 900, 300
    trusting, careful = [], []
    for seed in range(RUNS):
        negatives = np.concatenate((np.random.default_rng(seed).normal(size=n), np.full(a, -9.0)))
        trusting.append(order_statistic_threshold(negatives, max_fpr, confidence)[0])
        careful.append(order_statistic_threshold(negatives, max_fpr, confidence, (a, 0))[0])
    assert broken(careful, max_fpr) <= most(confidence)
    assert broken(trusting, max_fpr) > most(confidence)


@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(1, 3000),
    rate=st.sampled_from([0.3, 0.05, 0.01, 0.002]),
    confidence=st.sampled_from([0.5, 0.9, 0.99]),
    a=st.integers(0, 20),
    m=st.integers(0, 20),
)
def test_the_allowance_is_the_worst_case_over_all_wrong_labels_within_it(n, rate, confidence, a, m):
    """k grows by at most 1 a document, so the two extremes are the worst case."""
    scores = np.arange(n)
    if n < negatives_needed(rate, confidence, mislabelled=(a, m)):
        with pytest.raises(NotEnoughNegatives):
            order_statistic_threshold(scores, rate, confidence, (a, m))
        return
    threshold, allowed = order_statistic_threshold(scores, rate, confidence, (a, m))
    assert (scores > threshold).sum() == allowed
    for foreign in range(min(a, n) + 1):
        for missing in range(m + 1):
            assert allowed + missing <= allowed_errors(n - foreign + missing, rate, confidence)


@settings(max_examples=60, deadline=None)
@given(
    rate=st.sampled_from([0.2, 0.05, 0.01]),
    confidence=st.sampled_from([0.5, 0.9, 0.99]),
    a=st.integers(0, 9),
    m=st.integers(0, 9),
    allowed=st.integers(0, 5),
)
def test_so_many_are_needed_and_one_fewer_is_too_few(rate, confidence, a, m, allowed):
    needed = negatives_needed(rate, confidence, allowed=allowed, mislabelled=(a, m))
    assert order_statistic_threshold(np.arange(needed), rate, confidence, (a, m))[1] == allowed
    if allowed:
        assert order_statistic_threshold(np.arange(needed - 1), rate, confidence, (a, m))[1] == allowed - 1
        return
    with pytest.raises(NotEnoughNegatives) as caught:
        order_statistic_threshold(np.arange(needed - 1), rate, confidence, (a, m))
    assert (caught.value.needed, caught.value.available) == (needed, needed - 1)


@pytest.mark.parametrize(("n", "mislabelled"), [(100, (0, 1)), (1000, (3, 2)), (50, (20, 5))])
def test_what_the_error_offers_is_possible(n, mislabelled):
    with pytest.raises(NotEnoughNegatives) as caught:
        order_statistic_threshold(np.arange(n), 0.001, 0.95, mislabelled)
    offered = smallest_rate(n, 0.95, mislabelled)
    assert f"{offered:g} with confidence 0.95" in str(caught.value)
    assert order_statistic_threshold(np.arange(n), offered, 0.95, mislabelled)[1] == 0
    with pytest.raises(NotEnoughNegatives):
        order_statistic_threshold(np.arange(n), 0.98 * offered, 0.95, mislabelled)


def test_none_can_be_offered_where_all_may_be_foreign():
    with pytest.raises(NotEnoughNegatives, match=r"there are 10: collect [\d,]+ more\.$"):
        order_statistic_threshold(np.arange(10), 0.01, 0.95, (10, 0))


def test_the_recall_is_protected_from_the_same_wrong_labels():
    scores, labels = np.arange(2000.0), np.arange(2000) >= 1000
    plain = certify(scores, labels, max_fpr=None, min_recall=0.9)
    careful = certify(scores, labels, max_fpr=None, min_recall=0.9, mislabelled=(7, 2))
    assert plain.allowed - 9 <= careful.allowed < plain.allowed - 4  # seven positives may be missing, two are foreign
    assert "with up to 7 wrongly labelled negatives and 2 missing" in str(careful)


def test_the_estimator_takes_it_and_the_certificate_says_so():
    random = np.random.default_rng(0)
    y = random.random(6000) < 0.4
    X = (random.normal(size=6000) + 3 * y)[:, None]
    plain = GuaranteedThreshold(_Score(), max_fpr=0.02).fit(X, y)
    careful = GuaranteedThreshold(_Score(), max_fpr=0.02, mislabelled=(3, 2)).fit(X, y)
    assert careful.threshold_ > plain.threshold_
    assert careful.certificate_.mislabelled == (3, 2)
    assert careful.certificate_.guaranteed
    assert careful.certificate_.allowed <= plain.certificate_.allowed - 1
    assert "with up to 3 wrongly labelled False and 2 missing" in str(careful.certificate_)
    for wrong in ((1,), (1, 2, 3), (-1, 0), (0.5, 0), 3, None):
        with pytest.raises(ValueError, match="mislabelled must be two integers"):
            GuaranteedThreshold(_Score(), max_fpr=0.02, mislabelled=wrong).fit(X, y)
    with pytest.raises(ValueError, match="mislabelled"):
        GuaranteedThreshold(_Score(), max_fpr=None, min_precision=0.9, mislabelled=(1, 1)).fit(X, y)
    with pytest.raises(ValueError, match="mislabelled"):
        certify(X[:, 0], y, max_fpr=None, min_precision=0.9, mislabelled=(1, 1))


class _Score(sb.MultinomialNB):
    """The first column as it is."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.asarray(X)[:, 0]


# ---------------------------------------------------------------------- anybody's scores


def test_anybodys_scores():
    random = np.random.default_rng(0)
    y = np.arange(10_000) % 2
    certificate = sb.certify(random.normal(size=10_000) + 4 * y, y, max_fpr=0.01)
    assert certificate.guaranteed
    assert 0.9 < certificate.recall < 1
    for labels, shown in ((["spam", "ham"], "'spam'"), ([1, 2], "2"), ([0.5, 1], "0.5")):
        with pytest.raises(ValueError, match=f"y must be true .* Got {shown}"):
            sb.certify([1.0, 2.0], labels)
    with pytest.raises(ValueError, match="Got only negatives"):
        sb.certify([1.0, 2.0], [0, 0])
    with pytest.raises(ValueError, match="NaN or infinity in 1 of 2"):
        sb.certify([1.0, np.inf], [0, 1])


# ---------------------------------------------------------------------- renewals


def test_the_doubt_of_all_renewals_adds_up_to_what_was_allowed():
    doubts = [1 - confidence_of_renewal(0.9, j) for j in range(1, 100_000)]
    assert 0.0999 < sum(doubts) <= 0.1
    with pytest.raises(ValueError, match="at least 1"):
        confidence_of_renewal(0.9, 0)


def test_400_series_of_renewals_hold_together():
    """Twelve models score the same reserve independently; a series is broken if one of its promises is."""
    max_fpr, confidence, n = 0.05, 0.9, 1000
    apart = together = 0
    for seed in range(RUNS):
        random = np.random.default_rng(seed)
        reserves = random.normal(size=(12, n))
        each = [order_statistic_threshold(scores, max_fpr, confidence)[0] for scores in reserves]
        shared = [
            order_statistic_threshold(scores, max_fpr, confidence_of_renewal(confidence, j))[0]
            for j, scores in enumerate(reserves, 1)
        ]
        apart += broken(each, max_fpr) > 0
        together += broken(shared, max_fpr) > 0
    assert together <= most(confidence)
    assert apart > most(confidence)


# ---------------------------------------------------------------------- corrections


def renewed_after_corrections(seed, keep, n=600, max_fpr=0.05, confidence=0.9, rounds=4):
    """Calibrate, correct what was misjudged, learn it, renew; return the last threshold and its model's spread.

    A document's score is a part of its own and a part that changes with each model; what was learnt scores low from
    then on. Reserved documents above the threshold are taught as negatives. With `keep` they go on counting with the
    score of the model that judged them; without, they leave the reserve.
    """
    random = np.random.default_rng(seed)
    lasting, judged, learnt = random.normal(size=n), np.full(n, np.nan), np.zeros(n, dtype=bool)
    for _ in range(rounds):
        scores = 0.8 * lasting + 0.6 * random.normal(size=n)
        counted = np.where(learnt, judged, scores) if keep else scores[~learnt]
        threshold, _ = order_statistic_threshold(counted, max_fpr, confidence)
        wrong = ~learnt & (scores > threshold)
        judged[wrong] = scores[wrong]
        learnt |= wrong
    return threshold


def test_corrections_of_the_reserve_break_promises_only_if_what_they_take_is_forgotten():
    with_all = [renewed_after_corrections(seed, keep=True) for seed in range(RUNS)]
    lost = [renewed_after_corrections(seed, keep=False) for seed in range(RUNS)]
    assert broken(with_all, 0.05) <= most(0.9)
    assert broken(lost, 0.05) > RUNS / 2
