"""From counts to represented rows, against the definition in loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from surebayes.represent import Representation, places


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
    got = csr_array((z(rows), rows.indices, rows.indptr), shape=rows.shape).toarray()
    want = [by_loops(x, tf, weights, worth, top, steepness, norm, 2.5, pad, keep) for x in X]
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)
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
