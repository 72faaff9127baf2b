"""Exact totals of real numbers, and the bounded sample that automatic choices are made on."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, vstack
from sklearn.base import clone

import surebayes as sb
from strategies import corpora, finite_numbers
from surebayes.core import sampling
from surebayes.core.sums import exact_dot, exact_total
from variants import CHOOSING


@given(st.lists(finite_numbers), st.integers(0, 20))
def test_exact_totals_of_parts_add_up_to_fsum(numbers, cut):
    values = np.array(numbers, float)
    parts = exact_total(values[cut:]) + exact_total(values[:cut])
    assert float(parts) == math.fsum(numbers)


@given(st.lists(st.tuples(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6)), max_size=30))
def test_exact_products(pairs):
    from fractions import Fraction

    a, b = np.array(pairs, float).reshape(-1, 2).T
    assert exact_dot(a, b) == sum((Fraction(x) * Fraction(y) for x, y in zip(a.tolist(), b.tolist())), Fraction(0))


def test_exact_totals_refuse_what_is_not_finite():
    with pytest.raises(ValueError, match="finite"):
        exact_total(np.array([1.0, np.inf]))


def rows_of(seed, n=60):
    generator = np.random.default_rng(seed)
    rows = csr_array(generator.poisson(0.4, (n, 4)).astype(float))
    return rows, generator.integers(0, 2, n)


@given(st.integers(0, 1000), st.integers(1, 70))
def test_a_sample_does_not_depend_on_order_or_parts(seed, bound):
    rows, labels = rows_of(seed)
    whole = sampling.smallest(rows, labels, None, bound)
    order = np.random.default_rng(seed).permutation(len(labels))
    first, second = order[:25], order[25:]
    halves = [sampling.smallest(rows[part], labels[part], None, bound) for part in (first, second)]
    together = sampling.joined(*halves, bound)
    assert (whole[0] != together[0]).nnz == 0
    np.testing.assert_array_equal(whole[1], together[1])
    np.testing.assert_array_equal(whole[2], together[2])
    assert len(whole[1]) <= bound


def test_a_sample_that_holds_everything_is_everything():
    rows, labels = rows_of(3)
    sample, marks, weight = sampling.smallest(rows, labels, None, 1000)
    assert weight.sum() == len(labels)
    seen = {(tuple(r), c): w for r, c, w in zip(sample.toarray(), marks, weight)}
    for r, c in zip(rows.toarray(), labels):
        seen[tuple(r), c] -= 1
    assert set(seen.values()) == {0}


def test_weights_of_copies_add_up():
    rows = csr_array(vstack([csr_array([[1.0, 2.0]])] * 3, format="csr"))
    _, labels, weight = sampling.smallest(rows, np.array([1, 0, 1]), np.array([0.1, 4.0, 0.2]), 10)
    assert dict(zip(labels.tolist(), weight.tolist())) == {1: 0.1 + 0.2, 0: 4.0}


@pytest.mark.parametrize("name", [*CHOOSING, "DTWC"])
@given(data=corpora(min_rows=8), bound=st.integers(2, 6))
@settings(max_examples=25)
def test_choices_beyond_the_bound_do_not_depend_on_order(name, data, bound):
    X, y = data
    estimator = CHOOSING.get(name, sb.TermDiscriminant(fit_bias=True))
    order = np.random.default_rng(bound).permutation(len(X))
    before = sampling.LARGEST
    try:
        sampling.LARGEST = bound
        in_order, shuffled = clone(estimator).fit(X, y), clone(estimator).fit(X[order], y[order])
    finally:
        sampling.LARGEST = before
    np.testing.assert_array_equal(in_order.decision_function(X), shuffled.decision_function(X))
