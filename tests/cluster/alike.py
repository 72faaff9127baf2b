"""Helpers of the cluster's tests: invented documents, partitions, and the comparison with one machine."""

import numpy as np
from scipy.sparse import csr_array

WORDS = [f"w{a}{b}" for a in "abcdefgh" for b in "klmnopq"]


def invented(n=60, kinds=2, seed=0):
    """Return texts and labels; some texts occur twice, one is empty."""
    generator = np.random.default_rng(seed)
    y = np.concatenate([np.arange(kinds), generator.integers(0, kinds, n - kinds)])
    texts = []
    for label in y:
        pick = generator.zipf(1.6, generator.integers(1, 14)) + 5 * label
        texts.append(" ".join(WORDS[k % len(WORDS)] for k in pick))
    texts[3], texts[7] = texts[10], ""
    y[3] = y[10]
    return texts, y


def cut(X, y, n_parts, seed=0):
    """Cut documents into parts of any size, some of them empty, in another order."""
    generator = np.random.default_rng(seed)
    where = generator.integers(0, n_parts, len(y))
    order = generator.permutation(len(y))
    parts = []
    for k in range(n_parts):
        chosen = order[where[order] == k]
        parts.append(([X[i] for i in chosen] if isinstance(X, list) else X[chosen], y[chosen]))
    return parts


def same(a, b, X):
    """Demand that two classifiers are the same to the last byte."""
    assert a.statistics_ == b.statistics_
    for mine, theirs in zip(_arrays(a.statistics_), _arrays(b.statistics_), strict=True):
        assert (mine.dtype, mine.flags.c_contiguous) == (theirs.dtype, theirs.flags.c_contiguous)
        assert mine.tobytes() == theirs.tobytes()
    assert a.classes_.dtype == b.classes_.dtype
    np.testing.assert_array_equal(a.classes_, b.classes_)
    assert len(a._frozen()) == len(b._frozen())
    assert all(_equal(x, y) for x, y in zip(a._frozen(), b._frozen()))
    assert a.n_features_in_ == b.n_features_in_
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))


def same_pool(a, b, X):
    """Demand that two pools are the same to the last byte."""
    assert a._engine.__getstate__() == b._engine.__getstate__()
    assert a.classes_.dtype == b.classes_.dtype
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_array_equal(a.weights_, b.weights_)
    np.testing.assert_array_equal(a.bias_, b.bias_)
    assert a.experts_ == b.experts_
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))


def _arrays(statistics):
    for table in (statistics.documents, statistics.presence, statistics.counts, statistics.mass):
        if table is not None:
            values = table.values
            yield from (values.data, values.indices, values.indptr) if table.sparse else (values,)


def _equal(a, b):
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


def counts(X):
    return csr_array(np.asarray(X, float))
