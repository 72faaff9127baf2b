"""What hypothesis draws, for the tests that share it."""

import numpy as np
from hypothesis import strategies as st

SPECIAL = "ΣσςİıßẞKÅȺ_\u0301\u200d😀𐐀𝐀ǅ \t\n\x1c\x85\xa0\u3000aBzZ09-'.\0é한國"
texts = st.text(st.one_of(st.sampled_from(SPECIAL), st.characters(exclude_categories=())), max_size=60)
text_corpora = st.lists(texts, min_size=1, max_size=8)


@st.composite
def corpora(draw, kinds=("binary", "classes", "labels"), min_rows=3, whole=True):
    """Draw counts and labels, every class with at least a document."""
    n = draw(st.integers(min_rows, 12))
    v = draw(st.integers(1, 7))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    X = generator.poisson(draw(st.sampled_from([0.3, 0.8, 2.0])), (n, v)).astype(float)
    if not whole:
        X *= generator.random((n, v))
    kind = draw(st.sampled_from(kinds))
    if kind == "labels":
        y = (generator.random((n, 3)) < 0.4).astype(int)
        y[:3] |= np.eye(3, dtype=int)
    else:
        k = 2 if kind == "binary" else 3
        y = np.concatenate([np.arange(k), generator.integers(0, k, n - k)])
    return X, y


@st.composite
def rankings(draw, most=14, distinct=5):
    """Labels of both classes and few distinct scores, so that ties are the rule."""
    n = draw(st.integers(2, most))
    y = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda labels: 0 < sum(labels) < len(labels)))
    s = draw(st.lists(st.integers(-distinct, distinct), min_size=n, max_size=n))
    return np.array(y), np.array(s, dtype=float)


@st.composite
def lines(draw):
    """Draw two scores, a label and a whole weight for each of a few documents, as four lists."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans(), st.integers(0, 3)), min_size=0, max_size=12
        )
    )
    return [list(column) for column in zip(*rows)] if rows else [[], [], [], []]
