"""From counts to represented rows, against the definition in loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from surebayes.core.represent import Representation, best_first, only, places


def by_loops(x, tf, weights, worth, top, steepness, norm, length, pad, keep):
    """Represent one dense row as the papers say, term by term."""
    present = [j for j in range(len(x)) if x[j] > 0 and (keep is None or keep[j])]
    if top is not None:
        present = sorted(present, key=lambda j: (-worth[j], j))[:top]
    z = np.zeros(len(x))
    for j in present:
        value = {"count": x[j], "binary": 1.0, "log": np.log(1 + x[j])}[tf]
        value *= 1.0 if weights is None else weights[j]
        z[j] = value if steepness is None else np.exp(steepness * value)
    size = {None: None, "l1": z.sum() + pad, "l2": np.sqrt((z**2).sum()) + pad}[norm]
    return z if size is None else z * (length / size if size > 0 else 0.0)


@given(
    seed=st.integers(0, 10**6),
    tf=st.sampled_from(["count", "binary", "log"]),
    weighted=st.booleans(),
    top=st.sampled_from([None, 1, 3]),
    steepness=st.sampled_from([None, 0.5]),
    norm=st.sampled_from([None, "l1", "l2"]),
    pad=st.sampled_from([0.0, 0.7]),
    kept=st.booleans(),
)
def test_rows_are_what_loops_give(seed, tf, weighted, top, steepness, norm, pad, kept):
    generator = np.random.default_rng(seed)
    X = generator.poisson(0.8, (6, 9)).astype(float)
    worth = generator.integers(0, 4, 9).astype(float)  # ties on purpose
    weights = generator.random(9) if weighted else None
    keep = generator.random(9) < 0.7 if kept else None
    z = Representation(tf, weights, places(worth), top, steepness, norm, 2.5, pad, keep)
    rows = csr_array(X)
    represented = csr_array((z(rows), rows.indices, rows.indptr), shape=rows.shape).toarray()
    want = [by_loops(x, tf, weights, worth, top, steepness, norm, 2.5, pad, keep) for x in X]
    np.testing.assert_allclose(represented, want, rtol=1e-12, atol=1e-15)
    columns = np.unique(rows.indices)
    few = csr_array((rows.data, np.searchsorted(columns, rows.indices), rows.indptr), shape=(6, len(columns)))
    np.testing.assert_array_equal(z.at(columns)(few), z(rows))


def test_among_equals_the_lower_column_is_kept():
    assert places(np.array([1.0, 3.0, 3.0, 2.0])).tolist() == [3, 0, 1, 2]
    assert places(np.array([[1.0, 1.0], [0.0, 1.0]])).tolist() == [[0, 1], [1, 0]]
    z = Representation("binary", ranking=places(np.ones(4)), top=2)
    assert z(csr_array(np.ones((1, 4)))).tolist() == [1, 1, 0, 0]


def test_a_steep_softmax_neither_overflows_nor_vanishes():
    weights = np.array([0.0, 1e4, 2e4])
    z = Representation("binary", weights, steepness=1.0, norm="l1")
    rows = csr_array(np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
    assert z(rows).tolist() == [0, 0, 1, 0, 1, 1]


def test_classes_may_see_a_document_differently():
    z = Representation("count", np.array([[1.0, 2.0], [3.0, 0.0]]), norm="l2", length=np.array([1.0, 10.0]))
    assert z.class_specific
    rows = csr_array(np.array([[4.0, 1.5]]))
    np.testing.assert_allclose(z(rows, 0), [0.8, 0.6])
    np.testing.assert_allclose(z(rows, 1), [10.0, 0.0])
    assert not Representation("count", np.ones(2)).class_specific
    assert Representation().of_class(3) == Representation()


def test_equality_is_by_value():
    a = Representation("binary", np.array([1.0, 2.0]))
    assert a == Representation("binary", np.array([1.0, 2.0]))
    assert a != Representation("binary", np.array([1.0, 3.0]))
    assert a != Representation("binary")
    assert a != "binary"
    with pytest.raises(TypeError):
        hash(a)


def by_sorting(z, rows):
    """Select the best terms of each document by a sort of all entries: simple, and slow."""
    selected = np.ones(rows.nnz, bool) if z.keep is None else z.keep[rows.indices]
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    order = np.lexsort((z.ranking[rows.indices], ~selected, row))
    within = np.empty(rows.nnz, np.int64)
    within[order] = np.arange(rows.nnz) - rows.indptr[row[order]]
    return selected & (within < z.top)


@given(
    seed=st.integers(0, 10**6),
    longest=st.sampled_from([0, 1, 8, 60, 300]),
    columns=st.sampled_from([1, 7, 400, 5000]),
    top=st.sampled_from([1, 2, 5, 25, 100, 10**6]),
    kept=st.booleans(),
)
def test_the_best_terms_of_a_document_are_those_of_a_sort(seed, longest, columns, top, kept):
    generator = np.random.default_rng(seed)
    share = generator.random(40) ** 2 * min(longest / columns, 1)
    rows = csr_array(generator.random((40, columns)) < share[:, None]).astype(float)
    worth = generator.integers(0, 6, columns).astype(float)  # ties on purpose: the lower column goes first
    keep = generator.random(columns) < 0.7 if kept else None
    z = Representation("count", ranking=places(worth), top=top, keep=keep)
    if not rows.nnz:
        return
    selected = z.selected(rows)
    np.testing.assert_array_equal(selected, by_sorting(z, rows))
    one_by_one = [z.selected(rows[[i]]) for i in range(40) if rows[[i]].nnz]
    np.testing.assert_array_equal(selected, np.concatenate(one_by_one))


def test_rows_of_very_different_lengths_are_selected_from_together():
    generator = np.random.default_rng(0)
    lengths = [3000, 0, 1, 2, 26, 25, 24, 700, 701, 2999, 30, 31] * 9
    columns = [np.sort(generator.permutation(4000)[:n]) for n in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    rows = csr_array((np.ones(indptr[-1]), np.concatenate(columns), indptr), shape=(len(lengths), 4000))
    z = Representation("binary", ranking=places(generator.random(4000)), top=25)
    np.testing.assert_array_equal(z.selected(rows), by_sorting(z, rows))
    assert (np.add.reduceat(z.selected(rows[:1]), [0]) == 25).all()


@given(seed=st.integers(0, 10**6), n=st.integers(0, 3000), kind=st.sampled_from(["ties", "reals", "signs", "extremes"]))
def test_columns_by_worth_are_those_of_a_stable_sort(seed, n, kind):
    generator = np.random.default_rng(seed)
    worth = {
        "ties": generator.integers(0, 5, n).astype(float),
        "reals": generator.random(n),
        "signs": generator.normal(size=n).round(1),  # -0.0 and 0.0 are equals
        "extremes": generator.choice([0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, np.inf, -np.inf], n),
    }[kind]
    np.testing.assert_array_equal(best_first(worth), np.argsort(-worth, kind="stable"))


def test_entries_that_are_dropped_leave_the_others_in_place():
    rows = csr_array(np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 0.0], [4.0, 5.0, 0.0]]))
    left = only(rows, np.array([True, False, False, True]))
    np.testing.assert_array_equal(left.toarray(), [[0, 2, 0], [0, 0, 0], [0, 5, 0]])
