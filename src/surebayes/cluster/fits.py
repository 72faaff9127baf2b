"""Distributed fits of classifiers with any engine, equal to fits on one machine bit for bit."""

from __future__ import annotations

from concurrent.futures import Executor
from contextlib import ExitStack
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from surebayes.classifiers.base import CountClassifier
from surebayes.classifiers.learning import restore_on_error
from surebayes.classifiers.tuned_nb import TunedNB
from surebayes.cluster.columns import select_columns
from surebayes.cluster.documents import Inquiry, PartsRunner, Plan, ScatteredDocuments, settle
from surebayes.cluster.executors import ExecutorEngine
from surebayes.cluster.parts import Reader
from surebayes.cluster.passes import Answer, Pass, SumsRequest
from surebayes.core.statistics import Statistics
from surebayes.errors import BadInput
from surebayes.pool.view_pool import ViewPool
from surebayes.text.count_vectorizer import CountVectorizer


def fit(
    estimator: Any, parts: Any, executor: Executor | None = None, *, retries: int = 2, progress: bool | None = None
) -> Any:
    """Fit a classifier on documents in parts; the result equals ``estimator.fit`` on all documents.

    Parameters
    ----------
    estimator : classifier of surebayes, Pipeline of vectorizer and classifier, or ViewPool
        The estimator to fit in place. Pipelines and pools take documents; a classifier alone takes rows of counts. A
        `CountVectorizer` learns the vocabulary of all parts and applies `min_df` and its other limits to it; a
        `HashingVectorizer` needs no vocabulary.
    parts : sequence of pairs, or of functions that return a pair
        The parts, each a pair (documents or rows, labels). Each pass reads every part once; there are at most three
        passes, with the exceptions in docs/scale.md. With functions, only a few parts are in memory at a time.
    executor : concurrent.futures.Executor, default=None
        Executor that processes the parts; None processes them one by one in this process.
    retries : int, default=2
        Maximum number of retries of an unreadable part.
    progress : bool, default=None
        Whether to show a progress bar; None shows it on a terminal.

    Returns
    -------
    estimator
        The fitted estimator.

    Raises
    ------
    BadInput
        If a part is invalid or inconsistent with the rest; the message names it. The estimator is unchanged.
    PartFailed
        If a part could not be read.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from surebayes import CountVectorizer, OpinionPoolNB, cluster
    >>> parts = [(["cheap pills", "lunch today"], [1, 0]), (["cheap watches", "see you at lunch"], [1, 0])]
    >>> model = cluster.fit(make_pipeline(CountVectorizer(), OpinionPoolNB()), parts)
    >>> model.predict(["cheap lunch pills", "lunch"]).tolist()
    [1, 0]
    """
    if hasattr(parts, "to_delayed"):
        raise TypeError(f"parts is a Dask collection ({type(parts).__name__}). Use cluster.fit_dask.")
    return fit_on(ExecutorEngine(list(parts), executor, retries, progress), estimator)


def fit_on(engine: PartsRunner, estimator: Any) -> Any:
    """Fit an estimator on the documents of an engine, in place."""
    if isinstance(estimator, ViewPool):
        from surebayes.cluster.pool_fits import fit_pool

        return fit_pool(engine, estimator)
    transformers, classifier = _taken_apart(estimator)
    plan = Plan.of(classifier)
    vectorizer = transformers[0] if transformers and isinstance(transformers[0], CountVectorizer) else None
    learns = vectorizer is not None and vectorizer.vocabulary is None
    requests = plan.requests
    if vectorizer is not None and not learns:
        vectorizer.fit([""])
    if vectorizer is not None and learns and not vectorizer._keeps_all():
        requests = [request for request in requests if request.alone]  # rows need the vocabulary
    task = Pass(Reader(clone(classifier), [clone(t) if learns else t for t in transformers], learns), requests)
    answer = engine.run(task, "plain sums")
    if answer.refusal:
        raise BadInput(answer.refusal)
    if not answer.n_documents or answer.classes is None:
        raise BadInput("the parts have no documents.")
    with ExitStack() as safe:
        for step in (classifier, *transformers):
            safe.enter_context(restore_on_error(step))
        statistics = answer.statistics
        if vectorizer is not None and learns:
            statistics = _in_common_columns(answer, vectorizer)
        _learn(engine, classifier, transformers, answer, list(zip(requests, statistics)), plan.sample)
    return estimator


def _learn(
    engine: PartsRunner,
    classifier: CountClassifier,
    transformers: list[Any],
    answer: Answer,
    known: list[tuple[SumsRequest, Statistics]],
    draws: bool,
) -> None:
    """Run the classifier's `fit` on remote documents: freeze the representation, then sum."""
    assert answer.classes is not None
    assert answer.n_columns is not None
    reader = Reader(clone(classifier), transformers)
    reader.classifier.n_features_in_ = answer.n_columns
    if answer.names is not None:
        classifier.feature_names_in_ = answer.names
    elif hasattr(classifier, "feature_names_in_"):
        del classifier.feature_names_in_
    classifier._prepare(answer.n_columns, answer.classes, answer.multilabel)
    for _, statistics in known:
        settle(statistics)
    inquiry = Inquiry(engine, reader, answer.classes, answer.n_documents, known, draws)
    classifier._learn(ScatteredDocuments(inquiry, answer.n_columns, classifier._contrasts))


def _in_common_columns(answer: Answer, vectorizer: CountVectorizer) -> list[Statistics]:
    """Assign the terms of all parts the same columns as on one machine, and rearrange the sums."""
    terms = answer.terms
    if terms is None or not len(terms.known):
        raise ValueError("empty vocabulary; perhaps the documents only contain stop words")  # scikit-learn's message
    numbers = terms.sorted_numbers()
    limits = vectorizer._limits(answer.n_documents)
    if limits is not None:
        numbers = numbers[limits.kept(terms.in_documents[numbers], terms.in_all[numbers], vectorizer.dtype)]
    vectorizer.fixed_vocabulary_ = False
    vectorizer._learnt(terms.known.select(numbers.astype(np.uint32)), np.arange(len(numbers), dtype=np.int32))
    answer.n_columns = len(numbers)
    return [select_columns(statistics, numbers) for statistics in answer.statistics]


def _taken_apart(estimator: Any) -> tuple[list[Any], CountClassifier]:
    """Return the transformers and the classifier; raise TypeError, with advice, for an unsupported estimator."""
    steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    transformers, classifier = [step for step in steps[:-1] if step not in (None, "passthrough")], steps[-1]
    if isinstance(classifier, TunedNB):
        raise TypeError(
            "TunedNB compares hundreds of models and needs all documents on one machine: fit it on a sample, then pass "
            "its best_estimator_ to cluster.fit with all parts."
        )
    if isinstance(classifier, ViewPool):
        raise TypeError("ViewPool takes documents: fit it without a vectorizer.")
    if not isinstance(classifier, CountClassifier):
        raise TypeError(
            f"Only classifiers of surebayes can be fitted in parts, alone or as the last step of a Pipeline. Got "
            f"{type(classifier).__name__}; partial_fit of other classifiers depends on the order of the parts."
        )
    for place, step in enumerate(transformers):
        learns = isinstance(step, CountVectorizer) and place == 0
        if isinstance(step, TfidfVectorizer) or (get_tags(step).requires_fit and not learns):
            raise TypeError(
                f"{type(step).__name__} must be fitted on all documents first, which isn't possible in parts. Use "
                "surebayes.CountVectorizer, a HashingVectorizer, or another stateless transformer; for idf weights, "
                "set weight='idf' of the classifier."
            )
    return transformers, classifier
