"""Class sums: exact whatever the order, refused when they would go wrong, small where that is possible."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from surebayes.core import sums
from surebayes.core.represent import Representation
from surebayes.core.statistics import Statistics
from surebayes.core.sums import SumOverflow

ALL = ("presence", "counts", "mass")
L1 = Representation("binary", norm="l1")


def of(X, labels, represent=L1, n_classes=2, sums=ALL, **options):
    rows = csr_array(np.asarray(X, float))
    return Statistics.of(rows, np.asarray(labels), represent, n_classes=n_classes, sums=sums, **options)


def draw_rows(seed, n=8, v=5, real=False):
    generator = np.random.default_rng(seed)
    X = generator.poisson(1.0, (n, v)).astype(float)
    return X * generator.random((n, v)) if real else X


@given(seed=st.integers(0, 10**6), real=st.booleans())
def test_sums_are_what_loops_give(seed, real):
    X = draw_rows(seed, real=real)
    labels = np.arange(len(X)) % 3
    s = of(X, labels, n_classes=3)
    for c in range(3):
        rows = X[labels == c]
        assert s.documents.real(s.documents.at())[c, 0] == len(rows)
        np.testing.assert_array_equal(s.presence.real(s.presence.at())[c], (rows > 0).sum(0))
        np.testing.assert_allclose(s.counts.real(s.counts.at())[c], rows.sum(0), atol=1e-11)
        z = (rows > 0) / np.maximum((rows > 0).sum(1, keepdims=True), 1)
        np.testing.assert_allclose(s.mass.real(s.mass.at())[c], z.sum(0), atol=1e-11)
    np.testing.assert_array_equal(s.counts.at()[3], s.counts.at()[:3].sum(0))


@given(seed=st.integers(0, 10**6), real=st.booleans(), cut=st.integers(1, 7))
def test_adding_and_subtracting_is_exact(seed, real, cut):
    X, labels = draw_rows(seed, real=real), np.arange(8) % 2
    whole = of(X, labels)
    a, b = of(X[:cut], labels[:cut]), of(X[cut:], labels[cut:])
    assert a + b == whole == b + a
    assert whole - a == b
    assert pickle.dumps(a + b) == pickle.dumps(whole)
    grown = a.copy()
    grown += of(X[cut:], labels[cut:], compact=True)
    assert grown == whole
    grown -= of(X[cut:], labels[cut:], compact=True)
    assert grown == a
    assert pickle.dumps(grown) == pickle.dumps(a)


@given(seed=st.integers(0, 10**6), real=st.booleans(), cut=st.integers(1, 7), plain=st.booleans())
def test_gathering_parts_is_adding_them(seed, real, cut, plain):
    X, labels = draw_rows(seed, real=real), np.arange(8) % 2
    gathered = of(X[:cut], labels[:cut], compact=not plain)
    gathered.gather(of(X[cut:], labels[cut:], compact=True))
    gathered.gather(of(X, labels))
    in_form = gathered.with_tables(sums.canonical_sums, documents=True)
    assert pickle.dumps(in_form) == pickle.dumps(of(X, labels) + of(X, labels))


def test_whole_numbers_stay_whole_until_a_fraction_comes_and_again_when_it_goes():
    whole, fraction = of([[1, 2]], [0], sums=("counts",)), of([[0.5, 1]], [0], sums=("counts",))
    assert (whole.counts.bits, fraction.counts.bits) == (0, 40)
    assert (whole + fraction).counts.bits == 40
    assert (whole + fraction - fraction) == whole
    assert (whole + fraction + fraction).counts.bits == 0  # two halves are a whole


def test_whole_weights_are_copies_and_real_ones_are_rounded_once():
    X, labels = [[1, 0, 3], [0, 2, 1]], [0, 1]
    weighted = of(X, labels, weight=np.array([3.0, 1.0]))
    assert weighted == of([X[0], X[0], X[0], X[1]], [0, 0, 0, 1])
    half = of(X, labels, weight=np.array([0.5, 2.0]))
    assert half.documents.real(half.documents.at())[:, 0].tolist() == [0.5, 2.0, 2.5]
    assert half.presence.real(half.presence.at())[2].tolist() == [0.5, 2.0, 2.5]


def test_multi_label_documents_count_once_in_everything():
    s = Statistics.of(
        csr_array(np.array([[1.0, 2.0], [0.0, 1.0]])), csr_array([[1, 1], [0, 0]]), None, n_classes=2, sums=("counts",)
    )
    assert s.counts.at().tolist() == [[1, 2], [1, 2], [1, 3]]
    _, outside = s.contrast()
    assert outside.counts.tolist() == [[0, 1], [0, 1]]
    assert outside.documents.tolist() == [1, 1]


def test_class_specific_rows_have_everything_for_each_class():
    z = Representation("count", weights=np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    s = of([[1, 1], [2, 0], [0, 3]], [0, 1, 2], z, n_classes=3, sums=("mass",), class_specific=True)
    assert s.mass.at().tolist() == [[1, 2], [6, 0], [0, 18], [3, 8], [9, 16], [15, 24]]
    _, outside = s.contrast(classes=[1, 2])
    assert outside.mass.tolist() == [[3, 16], [15, 6]]
    assert outside.mass_total.tolist() == [19, 21]


def test_forgetting_what_was_never_learnt_is_refused():
    s = of([[1, 2]], [0])
    with pytest.raises(ValueError, match="never learnt"):
        s - of([[2, 2]], [0])
    with pytest.raises(ValueError, match="never learnt"):
        s - of([[1, 2]], [1])
    before = s.copy()
    with pytest.raises(ValueError, match="never learnt"):
        s -= of([[0, 3]], [0], compact=True)
    assert s == before


def test_overflow_names_the_row_and_changes_nothing():
    huge = of([[2.0**62, 1]], [1], None, sums=("counts",))
    before = huge.copy()
    with pytest.raises(SumOverflow, match="row 1") as error:
        huge += of([[2.0**62, 1]], [1], None, sums=("counts",), compact=True)
    assert error.value.row == 1
    assert huge == before
    with pytest.raises(SumOverflow, match="row 1"):
        huge.gather(of([[2.0**62, 1]], [1], None, sums=("counts",), compact=True))
    assert huge == before
    with pytest.raises(SumOverflow):
        of([[2.0**63, 1]], [0], None, sums=("counts",))
    with pytest.raises(SumOverflow):  # real numbers have room for 2**23
        of([[2.0**23 + 0.5, 1]], [0], None, sums=("counts",))
    with pytest.raises(SumOverflow):
        huge + of([[0.5, 1]], [1], None, sums=("counts",))
    with pytest.raises(SumOverflow):
        of([[2.0**62]] * 2, [0, 1], None, sums=("counts",))  # neither class, but everything


def test_totals_know_no_limit():
    wide = of([[2.0**62] * 5], [0], None, sums=("counts",))
    assert wide.counts.totals == (5 * 2**62, 0, 5 * 2**62)
    inside, _ = wide.contrast()
    assert inside.counts_total[0] == 5 * 2.0**62


def test_a_large_table_is_sparse_where_that_is_smaller_and_as_exact(monkeypatch):
    rows = random_array((30, 400), density=0.01, rng=np.random.default_rng(0), format="csr")
    rows = csr_array(rows)
    labels = np.arange(30) % 10
    plain = Statistics.of(rows, labels, L1, n_classes=10, sums=ALL)
    assert not plain.mass.sparse
    monkeypatch.setattr(sums, "DENSE_BYTES", 1000)
    sparse = Statistics.of(rows, labels, L1, n_classes=10, sums=ALL)
    assert sparse.mass.sparse
    np.testing.assert_array_equal(sparse.mass.at(), plain.mass.at())
    assert sparse.mass.totals == plain.mass.totals
    columns = np.array([0, 7, 100, 399])
    np.testing.assert_array_equal(sparse.counts.at(columns), plain.counts.at(columns))
    for a, b in zip(sparse.contrast(columns), plain.contrast(columns)):
        np.testing.assert_array_equal(a.mass, b.mass)
    parts = [Statistics.of(rows[i::3], labels[i::3], L1, n_classes=10, sums=ALL) for i in range(3)]
    assert parts[2] + parts[0] + parts[1] == sparse
    assert sparse - parts[1] == parts[0] + parts[2]
    full = Statistics.of(csr_array(np.ones((3, 50))), np.arange(3) % 2, L1, n_classes=2, sums=ALL)
    assert not full.mass.sparse  # 12 bytes an entry would be more than 8


def test_a_hundred_classes_of_three_million_terms_stay_small():
    generator = np.random.default_rng(0)
    n, v = 2000, 3_000_000
    rows = csr_array((np.ones(n * 50), generator.integers(0, v, n * 50), np.arange(0, n * 50 + 1, 50)), shape=(n, v))
    rows.sum_duplicates()
    s = Statistics.of(rows, np.arange(n) % 100, L1, n_classes=100, sums=("mass",))
    assert s.mass.sparse
    stored = s.mass.values
    assert stored.data.nbytes + stored.indices.nbytes + stored.indptr.nbytes < 4e6  # 2.4e9 as a plain table
    inside, outside = s.contrast(np.unique(rows[[0]].indices), classes=[0])
    assert inside.mass.shape == outside.mass.shape == (1, 50)


def test_statistics_of_other_sums_do_not_mix():
    with pytest.raises(ValueError, match="different sums"):
        of([[1]], [0], sums=("counts",)) + of([[1]], [0], sums=("presence",))
    with pytest.raises(ValueError, match="shapes"):
        of([[1]], [0], sums=("counts",)) + of([[1, 1]], [0], sums=("counts",))
    with pytest.raises(TypeError, match="representation"):
        of([[1]], [0], None)
    assert of([[1]], [0]) != "statistics"
    assert of([[1]], [0]).counts != "sums"
