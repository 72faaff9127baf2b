"""Scores in one pass, and reversals, against plain definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.sparse import csr_array

from surebayes.core import reversal
from surebayes.core.estimate import Rates
from surebayes.core.represent import Representation
from surebayes.core.reversal import MAX_COPIES
from surebayes.core.score import Linear, probabilities


@given(
    seed=st.integers(0, 10**6),
    tf=st.sampled_from(["count", "binary", "log"]),
    norm=st.sampled_from([None, "l1", "l2"]),
    steepness=st.sampled_from([None, 0.3, 40.0]),
    classes=st.sampled_from([1, 2, 7]),
    kept=st.booleans(),
)
def test_one_pass_gives_what_the_represented_rows_give(seed, tf, norm, steepness, classes, kept):
    generator = np.random.default_rng(seed)
    rows = csr_array(generator.poisson(0.7, (5, 12)).astype(float))
    keep = generator.random(12) < 0.8 if kept else None
    scale = 1.0 if norm else 0.01  # exp(40) without a norm is no number to compare
    r = Representation(tf, scale * generator.random(12), steepness=steepness, norm=norm, length=3.0, keep=keep)
    model = Linear.of(r, generator.normal(size=(classes, 12)), generator.normal(size=classes))
    z = csr_array((r(rows), rows.indices, rows.indptr), shape=rows.shape)
    np.testing.assert_allclose(model.scores(rows), model.bias + z @ model.log_odds.T, rtol=1e-10, atol=1e-12)
    one_by_one = np.vstack([model.scores(rows[[i]]) for i in range(5)])
    np.testing.assert_array_equal(one_by_one, model.scores(rows))


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
    rows = csr_array(generator.poisson(0.5, (40, 30)).astype(float))
    mass = generator.random((2, 30)) + 0.1
    rates = Rates(mass[:1], mass[1:], *(np.array([[m.sum()]]) for m in mass))
    goal = generator.normal(size=40)
    whole = reversal.reversal(rates, 0, rows, rows.data, rows.data, goal)
    monkeypatch.setattr(reversal, "_CHUNK", 17)
    parts = reversal.reversal(rates, 0, rows, rows.data, rows.data, goal)
    for name in ("score", "multiplicity", "rdist"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    none = reversal.reversal(rates, 0, rows[:0], rows.data[:0], rows.data[:0], goal[:0])
    assert len(none.multiplicity) == 0


def test_probabilities_never_contradict_the_decision():
    tiny = np.array([1e-20, -1e-20, 0.0, 800.0, -800.0])
    p = probabilities(tiny, "binary")
    assert (p.argmax(1) == (tiny > 0)).all()
    assert p[3:].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    table = np.array([[1e-20, 2e-20, 0.0], [5.0, 5.0, -1e300]])
    p = probabilities(table, "softmax")
    assert p.argmax(1).tolist() == [1, 0]
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert p[1, 2] == 0.0


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
