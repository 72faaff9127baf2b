"""Reversals of decisions, their distances and discounts against plain definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.sparse import csr_array

from surebayes.core import reversal
from surebayes.core.estimate import Rates
from surebayes.core.reversal import MAX_COPIES


def root(values, side, total, goal):
    """Find how many copies lift by the goal, or the most that count."""

    def missing(a):
        return values @ (np.log1p(a * values / side) - np.log1p(a * values.sum() / total)) - goal

    return MAX_COPIES if missing(MAX_COPIES) < 0 else brentq(missing, 0, MAX_COPIES, xtol=1e-300, rtol=1e-14)


@given(seed=st.integers(0, 10**6), size=st.sampled_from([1e-9, 0.01, 1.0, 30.0]))
def test_reversals_against_a_root_finder(seed, size):
    generator = np.random.default_rng(seed)
    rows = csr_array(generator.poisson(0.8, (6, 10)).astype(float))
    mass = generator.random((2, 10)) * 5 + 0.01
    rates = Rates(mass[:1], mass[1:], *(np.array([[m.sum()]]) for m in mass))
    x = rows.data
    goal = generator.normal(size=6) * size
    turned = reversal.reversal(rates, 0, rows, x, x, goal)
    for i in range(6):
        entries = slice(rows.indptr[i], rows.indptr[i + 1])
        columns, values = rows.indices[entries], x[entries]
        if not len(columns):
            assert np.isinf(turned.multiplicity[i])
            assert turned.rdist[i] == 0
            continue
        side = mass[1] if goal[i] > 0 else mass[0]
        copies = root(values, side[columns], side.sum(), abs(goal[i]))
        if copies == MAX_COPIES:
            assert np.isinf(turned.multiplicity[i])
        else:
            assert turned.multiplicity[i] == pytest.approx(copies, rel=1e-7)
        grown = side + copies * np.bincount(columns, values, 10)
        p, q = side / side.sum(), grown / grown.sum()
        assert turned.rdist[i] == pytest.approx((p * np.log(p / q)).sum(), rel=1e-6, abs=1e-12)


@given(seed=st.integers(0, 10**6))
def test_reversals_are_as_exact_as_the_numbers_allow(seed):
    """A step that rounding ends on the bracket is the last one; half a bracket more would be 1e-7 off."""
    generator = np.random.default_rng(seed)
    rows = csr_array(generator.poisson(0.8, (40, 7)).astype(float))
    mass = generator.integers(1, 9, (2, 7)).astype(float)
    rates = Rates(mass[:1], mass[1:], *(np.array([[m.sum()]]) for m in mass))
    goal = generator.uniform(0.1, 3.0, 40)
    multiplicities = reversal.reversal(rates, 0, rows, rows.data, rows.data, goal).multiplicity
    for i in np.flatnonzero(np.isfinite(multiplicities)):
        entries = slice(rows.indptr[i], rows.indptr[i + 1])
        copies = root(rows.data[entries], mass[1][rows.indices[entries]], mass[1].sum(), goal[i])
        assert multiplicities[i] == pytest.approx(
            copies, rel=1e-10 + 1e-15 * copies
        )  # the curve flattens as 1 / copies


def test_a_reversal_does_not_depend_on_chunks(monkeypatch):
    generator = np.random.default_rng(0)
    dense = generator.poisson(0.5, (40, 30)).astype(float)
    dense[[0, 1, 20, 39]] = 0.0
    rows = csr_array(dense)
    mass = generator.random((2, 30)) + 0.1
    rates = Rates(mass[:1], mass[1:], *(np.array([[m.sum()]]) for m in mass))
    goal = generator.normal(size=40)
    whole = reversal.reversal(rates, 0, rows, rows.data, rows.data, goal)
    monkeypatch.setattr(reversal, "_CHUNK", 17)
    parts = reversal.reversal(rates, 0, rows, rows.data, rows.data, goal)
    for name in ("score", "multiplicity", "rdist"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
        assert len(getattr(whole, name)) == 40
    none = reversal.reversal(rates, 0, rows[:0], rows.data[:0], rows.data[:0], goal[:0])
    assert len(none.multiplicity) == 0


@pytest.mark.parametrize("form", ["inverse", "exp"])
@given(
    score=st.floats(1e-6, 1e4),
    rdists=st.lists(st.floats(1e-12, 1e4), min_size=2, max_size=8, unique=True),
    gamma=st.floats(1e-3, 50),
)
def test_a_discount_keeps_the_order_where_its_exponential_is_zero_in_doubles(form, score, rdists, gamma):
    rdist = np.sort(np.array(rdists))
    rdist = rdist[np.concatenate([[True], np.diff(rdist) > 1e-9 * rdist[1:]])]  # apart by more than rounding
    for sign in (1.0, -1.0):
        turned = reversal.Reversal(np.full(len(rdist), sign * score), np.ones(len(rdist)), rdist)
        discounted = sign * reversal.discounted_score(form, gamma, turned)
        assert (discounted > 0).all()
        exponent = np.log(score) - (gamma * rdist if form == "exp" else gamma / rdist)
        steps = np.diff(discounted) if form == "inverse" else -np.diff(discounted)
        apart = np.abs(np.diff(exponent)) > 1e-12 * np.abs(exponent[1:]) + 1e-14
        assert (steps[apart] > 0).all()
        usual = exponent > -500
        want = score * np.exp(-gamma * rdist if form == "exp" else -gamma / rdist)
        np.testing.assert_allclose(discounted[usual], want[usual], rtol=1e-11)


def test_nothing_to_discount_scores_nothing():
    turned = reversal.Reversal(np.array([0.0, 2.0, 2.0]), np.ones(3), np.array([1.0, 0.0, 1e-320]))
    np.testing.assert_array_equal(reversal.discounted_score("inverse", 1.0, turned)[:2], 0.0)
    np.testing.assert_array_equal(reversal.discounted_score("exp", 1.0, turned)[:2], [0.0, 2.0])
    assert reversal.discounted_score("inverse", 1.0, turned)[2] > 0


def some_rows(seed):
    """Return rows, the masses of both sides, their rates and a score for each row."""
    generator = np.random.default_rng(seed)
    rows = csr_array(generator.poisson(0.8, (8, 10)).astype(float))
    mass = generator.random((2, 10)) * 5 + 0.01
    rates = Rates(mass[:1], mass[1:], *(np.array([[m.sum()]]) for m in mass))
    return rows, mass, rates, generator.normal(size=8) * 3


@given(seed=st.integers(0, 10**6))
def test_the_distance_over_the_terms_of_a_document(seed):
    rows, mass, rates, goal = some_rows(seed)
    turned = reversal.reversal(rates, 0, rows, rows.data, rows.data, goal, document_only=True)
    for i, dense in enumerate(rows.toarray()):
        if not dense.any():
            assert turned.rdist[i] == 0
            continue
        side = mass[1] if goal[i] > 0 else mass[0]
        grown = side + min(turned.multiplicity[i], MAX_COPIES) * dense
        p, q = (side / side.sum())[dense > 0], (grown / grown.sum())[dense > 0]
        assert turned.rdist[i] == pytest.approx((p * np.log(p / q)).sum(), rel=1e-6, abs=1e-12)


@given(seed=st.integers(0, 10**6))
def test_the_transductive_key_against_its_definition(seed):
    rows, mass, rates, score = some_rows(seed)
    keys = reversal.transductive_key(rates, 0, rows, rows.data, rows.data, score)
    for key, dense, at in zip(keys, rows.toarray(), score):
        side = mass[0] if at > 0 else mass[1]  # of the class that is predicted
        grown = side + dense
        lift = max(dense @ (np.log(grown / grown.sum()) - np.log(side / side.sum())), 0.0)
        before, after = (1 / (1 + np.exp(-odds)) for odds in (abs(at), abs(at) + lift))
        divergence = (after - before) * lift  # of two Bernoulli distributions, in both directions
        wanted = -np.log1p(-before * 2**-divergence)
        assert key == pytest.approx(wanted if at > 0 else -wanted, rel=1e-9)


def test_a_score_of_zero_needs_no_copy():
    rows, _, rates, goal = some_rows(1)
    turned = reversal.reversal(rates, 0, rows, rows.data, rows.data, 0 * goal)
    assert (turned.multiplicity == 0).all()
    assert (turned.rdist == 0).all()


def test_a_decision_is_irreversible_just_beyond_the_most_copies():
    rows = csr_array(np.array([[1.0, 0.0]]))
    rates = Rates(np.ones((1, 2)), np.ones((1, 2)), np.full((1, 1), 2.0), np.full((1, 1), 2.0))
    most = np.log1p(MAX_COPIES) - np.log1p(MAX_COPIES / 2)
    for share, reversible in ((1 - 1e-9, True), (1 + 1e-9, False), (2.0, False)):
        turned = reversal.reversal(rates, 0, rows, rows.data, rows.data, np.array([share * most]))
        assert np.isfinite(turned.multiplicity[0]) == reversible
