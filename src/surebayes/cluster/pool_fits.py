"""Distributed fits of ViewPool, equal to those of one machine to the bit."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from surebayes.cluster.documents import PartsRunner
from surebayes.cluster.pool_counting import sums_of
from surebayes.cluster.pool_passes import Counting, Fetching, PoolAnswer
from surebayes.errors import BadInput
from surebayes.pool.choosing import distinct, kept, reach, turns
from surebayes.pool.document import Rows, joined, taken
from surebayes.pool.engine import Engine
from surebayes.pool.fit import KeptDocuments, fit
from surebayes.pool.specs import ViewSpec, views_of
from surebayes.pool.view_pool import ViewPool


def fit_pool(runner: PartsRunner, pool: ViewPool) -> ViewPool:
    """Fit a pool on the documents of an engine: two passes over the parts."""
    if not isinstance(pool.views, str):
        raise TypeError(
            "A ViewPool of views of one's own fits vectorizers and classifiers that it knows nothing of on the "
            "documents themselves: fit it on one machine, or fit each view's pipeline by cluster.fit. In parts the "
            "views 'mail' and 'text' are fitted."
        )
    fitted = clone(pool)
    fitted._begin([b"", b""], [0, 1], None)  # checks the parameters
    views = _countable(pool.views, pool.n_features)
    answer = _answered(runner.run(Counting(pool.views, views, reach()), "counts"))
    if answer.classes is None:
        raise BadInput("the parts hold no documents.")
    if len(answer.classes) < 2:
        raise BadInput(f"ViewPool needs at least two classes. Got {answer.classes.tolist()} in all parts.")
    fitted.classes_ = answer.classes
    engine = fitted._engine = fitted._new_engine()
    fitted.experts_ = engine.names
    _learn(runner, engine, pool.weights, views, answer)
    fitted._show_weights()
    pool.__dict__.update(fitted.__dict__)
    return pool


def _countable(reader: str, width: int) -> tuple[ViewSpec, ...]:
    """Return the views of pools of two and of more classes, each once: the number of classes is not known yet."""
    both = [view for n in (2, 3) for view in views_of("pool", reader, n, width)]
    return tuple(dict.fromkeys(view.replace(experts=()) for view in both))


def _learn(runner: PartsRunner, engine: Engine, how: str, views: tuple[ViewSpec, ...], answer: PoolAnswer) -> None:
    """Set the counts of a pool, weigh its experts and fit its second stages, as `fit_contents` does with all rows."""
    assert answer.classes is not None
    view_of = [views.index(view.replace(experts=())) for view in engine.views]
    labels, times, have = answer.codes, answer.times, answer.documents
    if have.sum() >= 2**31:
        raise OverflowError("A pool counts up to 2**31 documents; nothing was changed.")
    held_out = turns(
        labels, times, engine.is_held_out_in_turns, have, answer.digest if engine.reader == "mail" else None
    )
    chosen = kept(labels, held_out, bool(engine.stages), times, None, have)
    meant = chosen.places
    rows = _fetched(runner, engine, answer, meant)
    for v, view in enumerate(engine.views):
        engine.sums[v] = sums_of(view, [counts[view_of[v]] for counts in answer.counts])
    for c, n in enumerate(have.tolist()):
        engine.documents[c] = n
    truth, copies = labels[meant], None if (times == 1).all() else times[meant]
    if len(held_out) == 1:
        engine.forget(rows, memoryview(truth), memoryview(chosen.tail), None if copies is None else memoryview(copies))
    fit(engine, KeptDocuments(rows, truth, copies), chosen, held_out, how)


def _fetched(runner: PartsRunner, engine: Engine, counted: PoolAnswer, meant: np.ndarray) -> list[Rows]:
    """Return the rows of the documents with these indices, in this order."""
    assert counted.classes is not None
    if not len(meant):
        return engine.cut([])
    digest, codes = counted.digest[meant], counted.codes[meant]
    digests = [digest[codes == c] for c in range(len(counted.classes))]
    views = tuple(view.replace(experts=()) for view in engine.views)
    answer = _answered(runner.run(Fetching(engine.reader, views, counted.classes, digests), "held-out documents"))
    changed = "parts must not change while a pool is fitted."
    if not np.array_equal(answer.documents, counted.documents):
        raise BadInput(
            f"the parts held {counted.documents.sum()} documents at first and {answer.documents.sum()} later: {changed}"
        )
    if not answer.rows:
        raise BadInput(f"none of {len(meant)} documents was found again: {changed}")
    distinct_rows = distinct(
        np.concatenate([d for d, _, _ in answer.rows]), np.concatenate([c for _, c, _ in answer.rows])
    )
    if len(distinct_rows.first) != len(meant):
        raise BadInput(
            f"of {len(meant)} documents {len(meant) - len(distinct_rows.first)} were not found again: {changed}"
        )
    return [taken(joined(list(batches)), distinct_rows.first) for batches in zip(*[rows for _, _, rows in answer.rows])]


def _answered(answer: PoolAnswer) -> PoolAnswer:
    if answer.refusal:
        raise BadInput(answer.refusal)
    return answer
