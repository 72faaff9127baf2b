"""Estimates against sums over the documents themselves, and what they do where there is nothing to estimate from."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surebayes.core import estimate
from surebayes.core.statistics import Side

V = 6


def sides(seed, represent=lambda x: x):
    """Return the rows inside a class and outside of it, and the sums of both, of rows that may all be empty."""
    generator = np.random.default_rng(seed)
    groups = [generator.poisson(0.6, (generator.integers(0, 5), V)).astype(float) for _ in range(2)]
    return groups, [side_of(rows, represent(rows)) for rows in groups]


def side_of(rows, mass):
    return Side(
        np.array([float(len(rows))]), None, rows.sum(0)[None], mass.sum(0)[None], np.array([rows.sum()]),
        np.array([mass.sum()]),
    )  # fmt: skip


@given(seed=st.integers(0, 10**6), smoothing=st.sampled_from([0.01, 1.0, 3.0]))
def test_smoothed_rates_are_a_distribution(seed, smoothing):
    groups, both = sides(seed)
    rates = estimate.multinomial(*both, smoothing, V)
    for rows, numerator, total in zip(groups, (rates.inside, rates.outside), (rates.inside_total, rates.outside_total)):
        np.testing.assert_allclose(numerator[0] / total[0], (rows.sum(0) + smoothing) / (rows.sum() + smoothing * V))
        assert (numerator / total).sum() == pytest.approx(1)
    odds = np.log(rates.inside / rates.inside_total) - np.log(rates.outside / rates.outside_total)
    np.testing.assert_allclose(rates.log_odds(), odds, atol=1e-12)


def test_a_vocabulary_has_one_term_at_least():
    _, (side, _) = sides(3)
    assert estimate.smoothed(side, 2.0, 0)[1] == side.mass_total + 2.0


@given(seed=st.integers(0, 10**6), length=st.sampled_from([None, 1.0, 40.0]))
def test_class_normalised_rates_are_those_of_masses_of_one_length(seed, length):
    groups, both = sides(seed)
    rates = estimate.class_normalised(*both, length, 0.5, V)
    shortest = min(rows.sum() for rows in groups) or 1.0
    for rows, numerator, total in zip(groups, (rates.inside, rates.outside), (rates.inside_total, rates.outside_total)):
        to = shortest if length is None else length
        mass = rows.sum(0) * to / rows.sum() if rows.sum() else np.zeros(V)
        want = (mass + 0.5) / (mass.sum() + 0.5 * V)
        np.testing.assert_allclose(numerator[0] / total[0], want)


@given(seed=st.integers(0, 10**6), theta=st.sampled_from([0.05, 1.0]), alpha=st.sampled_from([0.0, 0.3, 1.0]))
def test_poisson_means_are_means_over_documents(seed, theta, alpha):
    """Kim, Seo & Rim, eqs. (7)-(9), from the rows: of frequencies, evenly and by length."""
    groups, both = sides(seed, lambda x: x / (x.sum(1, keepdims=True) + theta * V))
    for rows, side in zip(groups, both):
        means = estimate.poisson_means(side, theta, alpha, V)[0]
        frequencies, length = (rows + theta) / (rows.sum(1, keepdims=True) + theta * V), rows.sum(1)
        even = frequencies.mean(0) if len(rows) else np.full(V, 1 / V)
        long = (length[:, None] * frequencies).sum(0) / length.sum() if length.sum() else even
        np.testing.assert_allclose(means, alpha * even + (1 - alpha) * long, rtol=1e-9)


def test_pseudo_counts_never_leave_a_rate_of_zero():
    empty = side_of(np.zeros((0, V)), np.zeros((0, V)))
    numerators, totals = estimate.with_pseudo_counts(empty, 0.0, 0.0, V)
    np.testing.assert_allclose(numerators / totals, np.full((1, V), 1 / V))
    assert (numerators == 1e-10).all()  # far below any smoothing that somebody asks for
    for width in (0, 1):  # a vocabulary has one term at least
        assert estimate.with_pseudo_counts(empty, 0.0, 0.0, width)[1] == 1e-10
    numerators, totals = estimate.with_pseudo_counts(empty, np.arange(V) + 1.0, 21.0, V)
    np.testing.assert_allclose(numerators[0] / totals[0], (np.arange(V) + 1) / 21)


@given(seed=st.integers(0, 10**6))
def test_centroids_have_unit_length_or_none(seed):
    groups, both = sides(seed, lambda rows: rows / 16)  # also shorter than 1
    for norm, size in (("l2", np.linalg.norm), ("l1", np.sum)):
        for rows, unit in zip(groups, estimate.unit_centroids(*both, norm)):
            length = size(rows.sum(0))
            np.testing.assert_allclose(unit[0], rows.sum(0) / length if length else np.zeros(V))


def test_prior_odds_of_classes_without_documents_are_even():
    odds = estimate.prior_log_odds(np.array([2.0, 0.0, 3.0, 0.0]), np.array([8.0, 5.0, 0.0, 0.0]))
    np.testing.assert_allclose(odds, [np.log(0.25), 0, 0, 0])


@pytest.mark.parametrize("name", ["mass", "mass_total", "counts", "counts_total"])
def test_missing_sums_are_refused(name):
    _, (whole, _) = sides(1)
    without = replace(whole, **{name: None})
    with pytest.raises(TypeError, match="Poisson means need"):
        estimate.poisson_means(without, 0.05, 0.5, V)
    if name.startswith("mass"):
        for call in (
            lambda: estimate.smoothed(without, 1.0, V),
            lambda: estimate.with_pseudo_counts(without, 1.0, V, V),
            lambda: estimate.unit_centroids(whole, without, "l1"),
        ):
            with pytest.raises(TypeError, match="needs the sums of represented rows"):
                call()


@pytest.mark.parametrize("place", [0, 1])
def test_missing_totals_are_refused_on_each_side(place):
    _, both = sides(1)
    both[place] = replace(both[place], mass_total=None)
    with pytest.raises(TypeError, match="class-normalised estimate needs"):
        estimate.class_normalised(*both, None, 1.0, V)
