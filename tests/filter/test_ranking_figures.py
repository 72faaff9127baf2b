"""Figures with intervals without resampling: the values of `metrics`, intervals as wide as they should be."""

import numpy as np
import pytest

from surebayes import metrics
from surebayes.filter.ranking_figures import quick_figures


def draw(seed, positives=150, negatives=400, apart=2.0, digits=None):
    random = np.random.default_rng(seed)
    y = np.repeat([0, 1], [negatives, positives])
    s = random.normal(size=len(y)) + apart * y
    return y, s if digits is None else np.round(s, digits)


@pytest.mark.parametrize("digits", [None, 1])
def test_values_are_those_of_metrics(digits):
    for seed in range(20):
        y, s = draw(seed, digits=digits)
        figures = quick_figures(y, s)
        assert figures["auc"].value == pytest.approx(metrics.roc_auc(y, s), abs=1e-12)
        assert figures["auc_0.1"].value == pytest.approx(metrics.partial_auc(y, s, max_fpr=0.1), abs=1e-12)
        assert figures["tpr_at_fpr_0.001"].value == metrics.tpr_at_fpr(y, s, 0.001)
        assert figures["tpr_at_fpr_0.01"].value == metrics.tpr_at_fpr(y, s, 0.01)
        for figure in figures.values():
            assert 0 <= figure.low <= figure.value <= figure.high <= 1


def test_intervals_of_areas_hold_the_truth_as_often_as_they_say():
    # two normal distributions: the area is that of the normal distribution at apart / sqrt(2)
    wanted = {"auc": 0.9213503964748574, "auc_0.1": metrics.partial_auc(*draw(0, 300_000, 300_000), max_fpr=0.1)}
    held = dict.fromkeys(wanted, 0)
    for seed in range(300):
        figures = quick_figures(*draw(seed + 1))
        for name, truth in wanted.items():
            held[name] += figures[name].low <= truth <= figures[name].high
    assert 0.92 <= held["auc"] / 300 <= 0.98
    assert 0.85 <= held["auc_0.1"] / 300 <= 0.99


def test_perfect_and_tiny_rankings():
    figures = quick_figures([0] * 50 + [1] * 50, list(range(100)))
    assert figures["auc"][:3] == (1.0, 1.0, 1.0)
    assert figures["tpr_at_fpr_0.01"].value == 1
    assert figures["tpr_at_fpr_0.01"].low == pytest.approx(0.929, abs=1e-3)
    assert quick_figures([0, 1], [0.0, 1.0])["auc"][:3] == (1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="two classes"):
        quick_figures([1, 1], [0.0, 1.0])
