"""Scores in one pass against plain definitions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from surebayes.core.represent import Representation
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
