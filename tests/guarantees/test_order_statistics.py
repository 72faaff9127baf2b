"""Thresholds from order statistics against the binomial distribution, and their promises against simulation."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from surebayes import errors
from surebayes.core import decide
from surebayes.guarantees import order_statistics


@pytest.mark.parametrize(
    ("max_fpr", "confidence", "needed"),
    [(0.001, 0.95, 2995), (0.01, 0.95, 299), (0.05, 0.95, 59), (0.5, 0.5, 1), (0.9, 0.1, 1), (1e-4, 0.99, 46050)],
)
def test_negatives_needed(max_fpr, confidence, needed):
    assert order_statistics.negatives_needed(max_fpr, confidence) == needed
    assert (1 - max_fpr) ** needed <= 1 - confidence + 1e-12
    assert needed == 1 or (1 - max_fpr) ** (needed - 1) > 1 - confidence


@given(st.integers(1, 400), st.floats(0.005, 0.6), st.floats(0.3, 0.99))
def test_allowed_is_the_largest_number_the_binomial_allows(n, max_fpr, confidence):
    scores = np.random.default_rng(n).normal(size=n)
    tail = stats.binom.cdf(np.arange(n + 1), n, max_fpr)
    assume(np.abs(tail - (1 - confidence)).min() > 1e-12)  # not where two implementations may round to different sides
    expected = int(np.sum(tail <= 1 - confidence)) - 1
    if expected < 0:
        with pytest.raises(errors.NotEnoughNegatives) as caught:
            order_statistics.order_statistic_threshold(scores, max_fpr, confidence)
        assert (caught.value.needed, caught.value.available) == (
            order_statistics.negatives_needed(max_fpr, confidence),
            n,
        )
        assert caught.value.needed > n
        return
    threshold, allowed = order_statistics.order_statistic_threshold(scores, max_fpr, confidence)
    assert allowed == expected
    assert (scores > threshold).sum() == allowed


SCORES = {  # (draw, true share above a threshold)
    "continuous": (lambda random, size: random.normal(size=size), lambda t: stats.norm.sf(t)),
    "ties": (
        lambda random, size: random.geometric(0.2, size=size).astype(float),
        lambda t: stats.geom.sf(np.floor(t), 0.2),
    ),
    "constant": (lambda random, size: np.full(size, 3.0), lambda t: np.where(t < 3, 1.0, 0.0)),
    "duplicates": (  # every score drawn from 40 fixed values
        lambda random, size: random.integers(0, 40, size=size).astype(float),
        lambda t: (39 - np.floor(t)) / 40,
    ),
}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize(
    ("n", "max_fpr", "confidence"), [(3000, 0.001, 0.95), (1000, 0.01, 0.9), (300, 0.05, 0.99), (5000, 0.005, 0.5)]
)
def test_violations_over_400_calibrations_stay_within_the_binomial_bound(kind, n, max_fpr, confidence):
    draw, share_above = SCORES[kind]
    random = np.random.default_rng([n, len(kind)])
    thresholds = np.array(
        [order_statistics.order_statistic_threshold(draw(random, n), max_fpr, confidence)[0] for _ in range(400)]
    )
    violations = int(np.sum(share_above(thresholds) > max_fpr))
    # a share above 1 - confidence by chance alone: this happens once in a million runs
    assert violations <= stats.binom.ppf(1 - 1e-6, 400, 1 - confidence)


@pytest.mark.parametrize("kind", ["continuous", "ties"])
@pytest.mark.parametrize(("n", "min_recall", "confidence"), [(300, 0.95, 0.95), (1000, 0.9, 0.9)])
def test_recall_violations_over_400_calibrations(kind, n, min_recall, confidence):
    draw, share_above = SCORES[kind]
    random = np.random.default_rng(n)
    thresholds = np.array(
        [order_statistics.recall_threshold(draw(random, n), min_recall, confidence)[0] for _ in range(400)]
    )
    violations = int(np.sum(share_above(thresholds) < min_recall))
    assert violations <= stats.binom.ppf(1 - 1e-6, 400, 1 - confidence)


def test_the_empirical_threshold_is_wrong_about_half_of_the_time():
    """What the rule is for: the plain choice has no such bound."""
    random = np.random.default_rng(0)
    rates = []
    for _ in range(400):
        scores = random.normal(size=1000)
        rates.append(stats.norm.sf(decide.threshold_at(scores, np.zeros(1000, bool), 0.001)))
    assert np.mean(np.array(rates) > 0.001) > 0.6


def test_recall_threshold_keeps_the_positive_it_stands_on():
    scores = np.repeat([1.0, 2.0, 3.0], 100)
    threshold, allowed = order_statistics.recall_threshold(scores, 0.6, 0.95)
    assert allowed == 105
    assert (scores <= threshold).sum() == 100
    with pytest.raises(errors.NotEnoughPositives, match=r"needs at least 59 positives, there are 10") as caught:
        order_statistics.recall_threshold(np.arange(10), 0.95, 0.95)
    assert (caught.value.needed, caught.value.available) == (59, 10)


def test_too_few_says_what_can_be_promised():
    with pytest.raises(errors.NotEnoughNegatives) as caught:
        order_statistics.order_statistic_threshold(np.arange(1000), 0.001, 0.95)
    text = str(caught.value)
    assert "2,995 negatives, there are 1,000" in text
    assert "collect 1,995 more" in text
    assert "at most 0.00300 with confidence 0.95, or 0.001 with confidence 0.632" in text
    assert order_statistics.negatives_needed(0.003, 0.95) <= 1000
    assert order_statistics.negatives_needed(0.001, 0.632) <= 1000
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.needed, again.available) == (text, 2995, 1000)
    with pytest.raises(errors.NotEnoughNegatives, match=r"there are 0: collect 2,995 more\."):
        order_statistics.order_statistic_threshold([], 0.001, 0.95)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, math.nan], 0.5, 0.5), "must not contain NaN"),
        (([1.0], 0.0, 0.5), r"max_fpr must lie in \(0, 1\)"),
        (([1.0], 1.0, 0.5), r"max_fpr must lie in \(0, 1\)"),
        (([1.0], 0.5, 1.0), r"confidence must lie in \(0, 1\)"),
        (([[1.0]], 0.5, 0.5), "must be a vector"),
    ],
)
def test_order_statistic_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        order_statistics.order_statistic_threshold(*arguments)


def test_precision_violations_over_400_calibrations():
    """Precision falls with the threshold; the certified one violates it at most at the stated rate."""
    random = np.random.default_rng(2)
    grid, share, n = np.linspace(2.2, -1, 50), 0.3, 5000

    def precision(t):
        right, wrong = share * stats.norm.sf(t - 2), (1 - share) * stats.norm.sf(t)
        return right / (right + wrong)

    chosen = []
    for _ in range(400):
        positive = random.random(n) < share
        scores = random.normal(size=n) + 2 * positive
        try:
            chosen.append(order_statistics.precision_threshold(scores, positive, grid, 0.9, 0.9)[0])
        except ValueError:
            chosen.append(math.inf)  # nothing promised, nothing violated
    promised = np.array([t for t in chosen if t < math.inf])
    violations = int(np.sum(precision(promised) < 0.9))
    assert violations <= stats.binom.ppf(1 - 1e-6, 400, 0.1)
    assert promised.size > 300
    assert np.median(promised) < grid[1]  # and it does go down


def test_precision_that_is_not_there_is_refused():
    scores, positive = np.arange(1000.0), np.arange(1000) % 2 == 0
    with pytest.raises(ValueError, match=r"highest threshold flags 199 rows, 100 of them wrongly"):
        order_statistics.precision_threshold(scores, positive, [800.0, 100.0], 0.9, 0.95)
    with pytest.raises(ValueError, match="flags 0 rows"):
        order_statistics.precision_threshold(scores, positive, [2000.0], 0.9, 0.95)


@pytest.mark.parametrize(
    ("precision", "confidence", "name"),
    [(0.0, 0.9, "min_precision"), (1.0, 0.9, "min_precision"), (0.9, 0.0, "confidence"), (0.9, 1.0, "confidence")],
)
def test_precision_refuses_certainty(precision, confidence, name):
    with pytest.raises(ValueError, match=rf"{name} must lie in \(0, 1\)"):
        order_statistics.precision_threshold(np.arange(9.0), np.ones(9, bool), [0.5], precision, confidence)
