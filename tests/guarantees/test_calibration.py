"""Probability maps: increasing, calibrated, never 0 or 1."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from scipy import special
from sklearn.isotonic import IsotonicRegression

from strategies import labelled_scores
from surebayes.guarantees.calibration import ProbabilityMap, fit_probability


@pytest.mark.parametrize("method", ["logistic", "isotonic"])
@given(labelled_scores())
def test_maps_never_decrease_and_never_saturate(method, data):
    scores, labels = data
    chance = fit_probability(scores, labels, method)
    grid = np.sort(np.concatenate((scores, np.linspace(-2e6, 2e6, 101), [-1e300, 1e300])))
    p = chance(grid)
    assert np.isfinite(p).all()
    assert np.diff(p).min() >= -1e-12
    assert 1 / (scores.size + 2) <= p.min() <= p.max() <= 1 - 1 / (scores.size + 2)
    again = ProbabilityMap.from_dict(json.loads(json.dumps(chance.to_dict())))
    assert (again(grid) == p).all()


@pytest.mark.parametrize("method", ["logistic", "isotonic"])
def test_probabilities_are_what_happens(method):
    random = np.random.default_rng(0)
    scores = random.normal(size=30_000) * 3
    labels = random.random(30_000) < special.expit(0.7 * scores - 1)
    chance = fit_probability(scores, labels, method)
    at = np.array([-4.0, -1.0, 0.0, 2.0, 5.0])
    np.testing.assert_allclose(chance(at), special.expit(0.7 * at - 1), atol=0.03)
    # a new sample from the same source agrees with what was said, bin by bin
    new = random.normal(size=30_000) * 3
    happened = random.random(30_000) < special.expit(0.7 * new - 1)
    probabilities = chance(new)
    for low in np.arange(0.05, 0.95, 0.1):
        chosen = (probabilities >= low) & (probabilities < low + 0.1)
        assert happened[chosen].mean() == pytest.approx(probabilities[chosen].mean(), abs=0.04)


def test_isotonic_agrees_with_the_reference_between_its_made_up_ends():
    random = np.random.default_rng(1)
    scores = np.round(random.normal(size=500), 2)
    labels = random.random(500) < special.expit(2 * scores)
    chance = fit_probability(scores, labels, "isotonic")
    # the made-up positive below and negative above are two more rows for the reference
    x = np.concatenate(([scores.min() - 1], scores, [scores.max() + 1]))
    y = np.concatenate(([1.0], labels, [0.0]))
    blocks = np.unique(IsotonicRegression().fit(x, y).predict(scores))
    np.testing.assert_allclose(np.unique(chance.values), blocks, atol=1e-12)


def test_logistic_is_the_best_of_its_kind():
    random = np.random.default_rng(2)
    scores = random.normal(size=300) * 1000 + 5000
    labels = random.random(300) < special.expit((scores - 5000) / 500)
    chance = fit_probability(scores, labels)
    there = labels.sum()
    target = np.where(labels, (there + 1) / (there + 2), 1 / (300 - there + 2))

    def loss(slope, intercept):
        z = slope * (scores - chance.knots[0]) / chance.knots[1] + intercept
        return np.sum(np.logaddexp(0, z) - target * z)

    best = loss(*chance.values)
    for slope, intercept in ((1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3)):
        assert loss(chance.values[0] + slope, chance.values[1] + intercept) > best


def test_degenerate_scores():
    constant = fit_probability(np.zeros(10), np.arange(10) < 3)
    assert constant([-1.0, 0.0, 1.0]).std() == 0
    assert constant(0.0) == pytest.approx(0.3, abs=0.06)
    wrong_way = fit_probability(np.arange(10), np.arange(10) < 5)
    assert wrong_way([0.0, 9.0]).tolist() == pytest.approx([0.5, 0.5])
    flat = fit_probability(np.arange(10), np.arange(10) < 5, "isotonic")
    assert np.ptp(flat([0.0, 9.0])) == 0
    perfect = fit_probability(np.arange(1000), np.arange(1000) >= 500)
    assert perfect([0.0, 999.0]).tolist() == pytest.approx([1 / 1002, 1001 / 1002])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], [True, True]), "both classes"),
        (([1.0, math.nan], [True, False]), "finite"),
        (([1.0], [True, False]), "one length"),
        (([1.0, 2.0], [True, False], "beta"), "method must be"),
    ],
)
def test_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit_probability(*arguments)
