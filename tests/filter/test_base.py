"""One pool on another is the pool that learnt the base's documents once and the own ones many times, to the bit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import lesson_texts, text_lessons
from surebayes.filter.base import missing_columns_of, no_steps, over
from surebayes.kernels import ints
from surebayes.pool.engine import Engine
from surebayes.pool.specs import ExpertSpec, ViewSpec
from surebayes.pool.weights import PoolWeights

EXPERTS = (ExpertSpec(0.01), ExpertSpec(0.01, 3), ExpertSpec(1.0))
VIEWS = (
    ViewSpec("words", "text", "word", 1, 1, EXPERTS, width=64),
    ViewSpec("bytes", "text", "bytes", 3, 3, EXPERTS, width=300),
)


def engine_of(documents, times=1, classes=2):
    engine = Engine("text", VIEWS, classes)
    for text, label in documents:
        engine.learn(engine.cut([text]), ints([label]), None, ints([times]))
    return engine


def own_pool(documents, steps=None):
    pool = engine_of(documents)
    pool.weights = no_steps(len(pool.contrasts), pool.n_experts)
    if steps is not None:
        pool.weights.units[0][:] = steps
    return pool


@given(
    text_lessons, text_lessons, text_lessons, st.integers(1, 1000), st.integers(1, 1000),
    st.lists(lesson_texts, min_size=1, max_size=4),
    st.lists(st.integers(-(2**42), 2**42), min_size=6, max_size=6),
)  # fmt: skip
@settings(max_examples=150)
def test_layers_are_the_filter_that_learnt_all_of_it(site, department, mine, weight, weight_2, questions, steps):
    base = engine_of(site)
    middle = over(base, own_pool(department), weight)
    layered = over(middle, own_pool(mine, steps), weight_2)
    together = engine_of(site)
    for documents, times in ((department, weight), (mine, weight_2)):
        for text, label in documents:
            together.learn(together.cut([text]), ints([label]), None, ints([times]))
    together.weights = PoolWeights([[a + b for a, b in zip(base.weights.units[0], steps)]], list(base.weights.bias))
    assert [s.alive for s in layered.sums] == [s.alive for s in together.sums]
    assert [list(s.totals) for s in layered.sums] == [list(s.totals) for s in together.sums]
    assert list(layered.documents) == list(together.documents)
    rows = together.cut(questions)
    assert list(layered.opinions(rows)) == list(together.opinions(rows))
    assert list(layered.scores(rows)) == list(together.scores(rows))
    assert list(layered.opinions(rows, None, 1, 7)) == list(together.opinions(rows, None, 1, 7))


def test_the_base_is_left_as_it_is():
    base, layer = engine_of([("gold lunch", 0), ("pills", 1)]), own_pool([("gold now", 1)])
    before = base.__getstate__(), layer.__getstate__()
    over(base, layer, 50).scores(base.cut(["gold"]))
    assert (base.__getstate__(), layer.__getstate__()) == before
    assert missing_columns_of(base, layer)[0] == 1  # "now"; the base has "gold"


def test_more_documents_than_a_pool_counts_are_refused():
    base, layer = engine_of([("gold", 0)]), own_pool([("now", 1)])
    base.documents = ints([2**31 - 40, 0])
    with pytest.raises(OverflowError, match="times 50"):
        over(base, layer, 50)
